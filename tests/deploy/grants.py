"""What roles allow an account, and what it requested by the API server's audit log; compared.

Both ways: a request that no role allows, and a verb that no request needed. Pure but for the log.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

Json = dict[str, Any]
USER = "system:serviceaccount:{namespace}:{account}"
_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: [USERS]}
- level: None
"""


class Grant(NamedTuple):
    """One verb on one resource. `namespace` "" is the whole cluster, `name` "" any object."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {what}{' ' + self.name if self.name else ''}{where}"


def of_account(objects: Sequence[Json], account: str) -> frozenset[Grant]:
    """Return what the bindings among some objects give to a service account."""
    roles = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in objects}
    found: set[Grant] = set()
    for manifest in objects:
        if manifest["kind"] not in {"ClusterRoleBinding", "RoleBinding"}:
            continue
        if account in {subject["name"] for subject in manifest["subjects"]}:
            role = roles[manifest["roleRef"]["kind"], manifest["roleRef"]["name"]]
            found |= set(_of_role(role, manifest["metadata"].get("namespace", "")))
    return frozenset(found)


def _of_role(role: Json, namespace: str) -> Iterator[Grant]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        yield Grant(group, resource, verb, namespace, name)


class Request(NamedTuple):
    """One request, as the API server logged it."""

    need: Grant
    """With namespace and name as they were requested."""
    forbidden: bool


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    subresource: str = ""
    api_group: str = ""
    namespace: str = ""
    name: str = ""


class _User(msgspec.Struct, frozen=True):
    username: str


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    verb: str
    user: _User
    object_ref: _Object = _Object()
    annotations: Mapping[str, str] = {}


def audit_flags(folder: Path, namespace: str, accounts: Iterable[str]) -> list[str]:
    """Return flags for a kube-apiserver that notes each request of these accounts in `folder`."""
    users = (USER.format(namespace=namespace, account=account) for account in accounts)
    policy = folder / "audit-policy.yaml"
    policy.write_text(_POLICY.replace("USERS", ", ".join(map(repr, users))), encoding="utf-8")
    return [f"--audit-policy-file={policy}", f"--audit-log-path={_log(folder)}"]


def requested(folder: Path, namespace: str, account: str) -> frozenset[Request]:
    """Return every request of an account for a resource; what is open to everybody is left out."""
    user = USER.format(namespace=namespace, account=account)
    found: set[Request] = set()
    for line in _log(folder).read_bytes().splitlines():
        try:
            one = msgspec.json.decode(line, type=_Entry)
        except msgspec.DecodeError:
            continue  # the last line may be half written
        if one.user.username == user and one.object_ref.resource:
            decision = one.annotations.get("authorization.k8s.io/decision")
            found.add(Request(_need(one), decision == "forbid"))
    return frozenset(found)


def _need(entry: _Entry) -> Grant:
    at = entry.object_ref
    resource = f"{at.resource}/{at.subresource}" if at.subresource else at.resource
    return Grant(at.api_group, resource, entry.verb, at.namespace, at.name)


def missing(requests: Iterable[Request], granted: Collection[Grant]) -> set[Grant]:
    """Return what was requested and is not granted, or was refused."""
    return {
        right.need
        for right in requests
        if right.forbidden or not any(covers(grant, right.need) for grant in granted)
    }


def unused(requests: Iterable[Request], granted: Collection[Grant]) -> set[Grant]:
    """Return what is granted and no request needs, or what another grant allows too."""
    needs = {right.need for right in requests}
    allowed_by = [[grant for grant in granted if covers(grant, need)] for need in needs]
    return set(granted) - {only for only, *others in filter(None, allowed_by) if not others}


def covers(grant: Grant, need: Grant) -> bool:
    """Whether a grant allows what is needed."""
    same = (grant.group, grant.resource, grant.verb) == (need.group, need.resource, need.verb)
    return same and grant.namespace in {"", need.namespace} and grant.name in {"", need.name}


def _log(folder: Path) -> Path:
    return folder / "audit.log"
