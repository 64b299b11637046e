"""An API server in memory: collections that can be refused, frozen or taken away one by one."""

import json
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from kubeapi.endpoint import Endpoint

Json = dict[str, Any]
GROUP = "/apis/resource.k8s.io/v1"
SLICES, CLAIMS = f"{GROUP}/resourceslices", f"{GROUP}/resourceclaims"
CLASSES = f"{GROUP}/deviceclasses"
RULES = f"{GROUP}/devicetaintrules"
REPORTS = "/apis/draguard.dev/v1alpha1/nodedevicehealths"
INCIDENTS = "/apis/draguard.dev/v1alpha1/deviceincidents"
PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/draguard-system/leases"
_LISTED = {"k8s.io/initial-events-end": "true"}


def admits_all(_verb: str, _name: str, _body: Json) -> bool:
    return True


class Api:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 10
        self.stored: dict[str, dict[str, Json]] = {}
        self.log: list[tuple[int, str, str, Json]] = []
        """(version, collection, ADDED/MODIFIED/DELETED, object)."""
        self.refused: dict[str, int] = {}
        """Collection to the status of lists and watches."""
        self.frozen: set[str] = set()
        """Collections whose watches tell nothing any more, as behind a dead connection."""
        self.read_only: set[str] = set()
        """Collections that nobody may write."""
        self.admits: Callable[[str, str, Json], bool] = admits_all
        """Whether an admission policy lets a write pass, by its verb, the name and what is sent."""
        self.unserved: set[str] = set()
        self.protected: dict[str, int] = {}
        """Pod to the status with which its eviction is refused: 429, or 500 for two budgets."""
        self.evictions: list[str] = []
        """Pods of which an eviction was requested, whatever was answered."""
        self.deletions: list[str] = []
        self.misfit: Callable[[Json], str] = lambda _: ""
        """Why a status is refused as one that breaks its schema, "" when it does not."""
        self.lacks: frozenset[str] = frozenset()
        """Fields of a status, and of its groups, that an older schema lacks: they are dropped in
        silence."""
        self.writes: list[tuple[str, str]] = []
        self.reads: list[str] = []
        self.closing = False

    def put(self, collection: str, name: str, **parts: Any) -> Json:
        with self.changed:
            self.version += 1
            there = self.stored.setdefault(collection, {})
            old = there.get(name)
            namespace = "team" if collection == CLAIMS else ""
            meta = {"name": name, "uid": f"uid-{self.version}", "generation": 1}
            meta |= {"namespace": namespace} if namespace else {}
            meta = (old or {}).get("metadata", meta) | parts.pop("metadata", {})
            one = {
                **(old or {}),
                **parts,
                "metadata": meta | {"resourceVersion": str(self.version)},
            }
            there[name] = one
            self.log.append((self.version, collection, "MODIFIED" if old else "ADDED", one))
            self.changed.notify_all()
            return one

    def drop(self, collection: str, name: str) -> None:
        with self.changed:
            self.version += 1
            one = self.stored[collection].pop(name)
            meta = one["metadata"] | {"resourceVersion": str(self.version)}
            self.log.append((self.version, collection, "DELETED", {**one, "metadata": meta}))
            self.changed.notify_all()

    def refuse(self, collection: str, status: int = 403) -> None:
        """Refuse a collection from now on, and end the watches of it."""
        with self.changed:
            self.refused[collection] = status
            self.changed.notify_all()

    def allow(self, collection: str) -> None:
        self.refused.pop(collection, None)

    def leaves(self, name: str, uid: str) -> int:
        """End a pod and what it holds; return the status of the answer."""
        pod = self.stored.get(PODS, {}).get(name)
        if pod is None:
            return 404
        if pod["metadata"]["uid"] != uid:
            return 409
        self.drop(PODS, name)
        for claim, stored in list(self.stored.get(CLAIMS, {}).items()):
            left = [by for by in stored["status"]["reservedFor"] if by["name"] != name]
            if left != stored["status"]["reservedFor"]:
                allocation = stored["status"].get("allocation") if left else None
                status = {"reservedFor": left} | ({"allocation": allocation} if allocation else {})
                self.put(CLAIMS, claim, status=status)
        return 201

    def effects(self) -> dict[str, str]:
        rules = self.stored.get(RULES, {}).values()
        return {
            rule["spec"]["deviceSelector"]["device"]: rule["spec"]["taint"]["effect"]
            for rule in rules
        }

    def events(self, collection: str, after: int) -> Iterator[tuple[int, Json] | None]:
        """Give what happens to a collection, None each time that nothing does."""
        while not self.closing and collection not in self.refused | dict.fromkeys(self.unserved, 0):
            with self.changed:
                found = [event for event in self.log if event[0] > after and event[1] == collection]
                if not found or collection in self.frozen:
                    self.changed.wait(0.05)
                    found = []
            for version, _, kind, item in found:
                after = version
                yield version, {"type": kind, "object": item}
            yield None


def apply_merge_patch(stored: Json, patch: Json) -> Json:
    """Return what a merge patch makes of an object (RFC 7386): null deletes."""
    found = {key: value for key, value in stored.items() if key not in patch}
    for key, value in patch.items():
        before = stored.get(key)
        if isinstance(value, dict):
            below = cast("Json", before) if isinstance(before, dict) else {}
            found[key] = apply_merge_patch(below, cast("Json", value))
        elif value is not None:
            found[key] = value
    return found


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: Api

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""

    def _answer(self, status: int, body: Json) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _refuse(self, status: int) -> None:
        self._answer(status, {"kind": "Status", "code": status, "message": "no"})

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        api, path = self.api, url.path
        api.reads.append(self.path)
        if path == GROUP:
            names = {"deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices"}
            served = names - {kind.rpartition("/")[2] for kind in api.unserved}
            return self._answer(200, {"resources": [{"name": kind} for kind in sorted(served)]})
        if path in api.refused:
            return self._refuse(api.refused[path])
        if path in api.unserved or path.startswith("/apis/resource.k8s.io/v1beta"):
            return self._refuse(404)
        if query.get("watch"):
            return self._watch(path, query)
        with api.changed:
            parent, _, name = path.rpartition("/")
            if parent.endswith("/resourceclaims") or parent in api.stored:
                parent = CLAIMS if parent.endswith("/resourceclaims") else parent
                one = api.stored.get(parent, {}).get(name)
                return self._answer(200, one) if one else self._refuse(404)
            items = list(api.stored.get(path, {}).values())
            field, _, value = query.get("fieldSelector", "").partition("=")
            if path == SLICES and field == "spec.nodeName":
                items = [item for item in items if item["spec"].get("nodeName") == value]
            if field == "metadata.name":
                items = [item for item in items if item["metadata"]["name"] == value]
            return self._answer(
                200, {"metadata": {"resourceVersion": str(api.version)}, "items": items}
            )

    def _watch(self, path: str, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        after = int(query.get("resourceVersion") or 0)
        if query.get("sendInitialEvents"):
            with self.api.changed:
                after, items = self.api.version, list(self.api.stored.get(path, {}).values())
            for item in items:
                self._event({"type": "ADDED", "object": item})
            meta = {"resourceVersion": str(after), "annotations": _LISTED}
            self._event({"type": "BOOKMARK", "object": {"metadata": meta}})
        try:
            for event in self.api.events(path, after):
                if event is not None:
                    self._event(event[1])
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def _event(self, event: Json) -> None:
        line = json.dumps(event).encode() + b"\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()

    def _body(self) -> Json:
        return json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")

    def do_POST(self) -> None:
        body, path = self._body(), urlsplit(self.path).path
        name = body.get("metadata", {}).get("name", "")
        self.api.writes.append(("POST", path))
        if path in self.api.read_only or not self.api.admits("POST", name, body):
            self._refuse(403)
            return
        if path == RULES and name in self.api.stored.get(RULES, {}):
            self._refuse(409)
            return
        if path.endswith("/eviction"):
            self.api.evictions.append(name)
            refused = self.api.protected.get(name)
            uid = body["deleteOptions"]["preconditions"]["uid"]
            self._answer(refused or self.api.leaves(name, uid), {"kind": "Status"})
            return
        if "dryRun" in self.path:
            self._answer(201, body)
            return
        if path == RULES:
            body["spec"]["taint"]["timeAdded"] = "2026-01-01T00:00:00Z"
        self._answer(201, self.api.put(path, name, **body))

    def _there(self, verb: str, collection: str, name: str) -> Json | None:
        """Note a write, and return the object that it is about; None where it was refused."""
        self.api.writes.append((verb, f"{collection}/{name}"))
        stored = self.api.stored.get(collection, {}).get(name)
        if collection in self.api.read_only or stored is None:
            self._refuse(403 if collection in self.api.read_only else 404)
            return None
        return stored

    def do_PUT(self) -> None:
        """Replace a status, as the agent does with its report."""
        body, path = self._body(), urlsplit(self.path).path.removesuffix("/status")
        collection, _, name = path.rpartition("/")
        stored = self._there("PUT", collection, name)
        if stored is None:
            return
        if body["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            self._refuse(409)
            return
        self._answer(200, self.api.put(collection, name, status=body["status"]))

    def do_PATCH(self) -> None:
        body, path = self._body(), urlsplit(self.path).path.removesuffix("/status")
        collection, _, name = path.rpartition("/")
        stored = self._there("PATCH", collection, name)
        if stored is None:
            return
        if not self.api.admits("PATCH", name, body):
            self._refuse(403)
            return
        sent = body.get("metadata", {}).get("resourceVersion")
        if sent not in (None, stored["metadata"]["resourceVersion"]):
            self._refuse(409)
            return
        if why := self.api.misfit(body.get("status", {})):
            self._answer(422, {"kind": "Status", "message": why, "reason": "Invalid"})
            return
        parts = {
            key: apply_merge_patch(stored.get(key, {}), body[key])
            for key in ("spec", "status")
            if key in body
        }
        for field in self.api.lacks:
            *group, lacking = field.split(".")
            status = parts.get("status", {})
            (status.get(group[0], {}) if group else status).pop(lacking, None)
        if parts and all(stored.get(key, {}) == part for key, part in parts.items()):
            self._answer(200, stored)
            return
        meta = {key: value for key, value in body.get("metadata", {}).items() if value is not None}
        for field in {"labels", "annotations"} & meta.keys():
            meta[field] = apply_merge_patch(stored["metadata"].get(field, {}), meta[field])
        self._answer(200, self.api.put(collection, name, metadata=meta, **parts))

    def do_DELETE(self) -> None:
        body = self._body()
        collection, _, name = urlsplit(self.path).path.rpartition("/")
        if collection.endswith("/pods"):
            self.api.deletions.append(name)
            self._answer(self.api.leaves(name, body["preconditions"]["uid"]), {"kind": "Status"})
            return
        self.api.writes.append(("DELETE", collection))
        stored = self.api.stored.get(collection, {}).get(name)
        admitted = collection not in self.api.read_only and self.api.admits("DELETE", name, body)
        if stored is None or not admitted:
            self._refuse(404 if stored is None else 403)
            return
        exactly = body.get("preconditions", {})
        if any(stored["metadata"][key] != value for key, value in exactly.items()):
            self._refuse(409)
            return
        self.api.drop(collection, name)
        self._answer(200, {"kind": "Status"})


@contextmanager
def serving() -> Generator[tuple[Api, Endpoint]]:
    api = Api()
    handler = type("Handler", (_Handler,), {"api": api})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield api, Endpoint(server=f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        with api.changed:
            api.closing = True
            api.changed.notify_all()
        server.shutdown()
        server.server_close()
        thread.join(60)
