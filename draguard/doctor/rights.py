"""Access reviews by the API server into checks: rights of the caller and the ServiceAccounts."""

from collections.abc import Iterable, Iterator

import msgspec

from draguard.cluster.installation import ACCOUNT, AGENT_ACCOUNT, EXPLAINER_ACCOUNT
from draguard.connection.errors import forbidden
from draguard.doctor.check import Check, bad, ok, unknown, warn
from draguard.phrases import some
from kubeapi.client import UNREADABLE, ApiError, Client

_AUTHORIZATION = "/apis/authorization.k8s.io/v1"


class Right(msgspec.Struct, frozen=True, order=True):
    """One verb on one resource. `namespaced`: in Draguard's own namespace."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    namespaced: bool = False
    name: str = ""
    """The name of the object, "" for any."""

    def words(self) -> str:
        resource, slash, subresource = self.resource.partition("/")
        return f"{resource}.{self.group}".rstrip(".") + slash + subresource


READ = ("list",)
WATCH = ("list", "watch")
CALLER: dict[str, tuple[Right, ...]] = {
    "status, plan, incidents": (
        Right("draguard.dev", "nodedevicehealths", READ),
        Right("draguard.dev", "deviceincidents", READ),
        Right("resource.k8s.io", "resourceslices", READ),
        Right("resource.k8s.io", "resourceclaims", READ),
        Right("resource.k8s.io", "devicetaintrules", READ),
        Right("coordination.k8s.io", "leases", READ, namespaced=True),
        Right("", "nodes", READ),
        Right("", "namespaces", ("get",), name="*own*"),
        Right("apps", "deployments", READ, namespaced=True),
    ),
    "hold, ignore, untaint, confirm-repaired": (
        Right("draguard.dev", "deviceincidents", ("patch",)),
    ),
    "cordon, uncordon, cleanup": (
        Right("resource.k8s.io", "devicetaintrules", ("create", "patch", "delete")),
    ),
}
"""By what needs it."""
REMEDIATOR = (
    Right("draguard.dev", "nodedevicehealths", (*WATCH, "delete")),
    Right("draguard.dev", "deviceincidents", (*WATCH, "create", "delete")),
    Right("draguard.dev", "deviceincidents/status", ("patch",)),
    Right("resource.k8s.io", "devicetaintrules", ("get", *WATCH, "create", "patch", "delete")),
    Right("resource.k8s.io", "resourceslices", WATCH),
    Right("resource.k8s.io", "resourceclaims", ("get", *WATCH)),
    Right("", "pods", ("list",)),
    Right("", "pods/eviction", ("create",)),
    Right("", "nodes", WATCH),
    Right("", "namespaces", WATCH, name="*own*"),
    Right("events.k8s.io", "events", ("create",)),
    Right("coordination.k8s.io", "leases", ("get", *WATCH, "create"), namespaced=True),
    Right("coordination.k8s.io", "leases", ("patch",), namespaced=True, name=ACCOUNT),
)
"""As deploy/manifests/remediator-rights.yaml; a test holds the two together."""
POSTS = Right("events.k8s.io", "events", ("create",))
"""Of an explainer, unless it has the flag --no-events."""
EXPLAINER = (
    Right("resource.k8s.io", "resourceclaims", WATCH),
    Right("resource.k8s.io", "deviceclasses", WATCH),
    Right("resource.k8s.io", "resourceslices", WATCH),
    Right("resource.k8s.io", "devicetaintrules", WATCH),
    Right("resource.k8s.io", "resourceclaimtemplates", ("get",)),
    Right("", "pods", WATCH),
    Right("", "nodes", WATCH),
    Right("draguard.dev", "deviceincidents", WATCH),
    Right("", "events", READ),
    POSTS,
    Right("coordination.k8s.io", "leases", ("create",), namespaced=True),
    Right(
        "coordination.k8s.io",
        "leases",
        ("get", "patch"),
        namespaced=True,
        name=EXPLAINER_ACCOUNT,
    ),
)
AGENT = (
    Right("draguard.dev", "nodedevicehealths", ("get", "create")),
    Right("draguard.dev", "nodedevicehealths/status", ("update",)),
    Right("resource.k8s.io", "resourceslices", ("list", "watch")),
    Right("resource.k8s.io", "resourceclaims", ("get",)),
    Right("resource.k8s.io", "deviceclasses", ("get",)),
    Right("coordination.k8s.io", "leases", ("create", "patch"), namespaced=True),
)


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


class Reviews:
    """Access reviews by the API server, in one namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    def caller(self) -> Iterator[Check]:
        """Check for which commands the caller has the rights. Raises ApiError."""
        for what, rights in CALLER.items():
            about = f"your permissions: {what}"
            missing = self._missing(rights, "")
            if missing:
                yield warn(about, f"you may not {some(missing)}", "ask for a role with these verbs")
            else:
                yield ok(about, "all granted")

    def account(self, name: str, rights: Iterable[Right]) -> Check:
        """Check whether a ServiceAccount has the rights of its program."""
        about = f"permissions of {name}"
        user = f"system:serviceaccount:{self._namespace}:{name}"
        try:
            missing = self._missing(rights, user)
        except ApiError as error:
            return unknown(about, forbidden(error.message), "ask a cluster administrator")
        if missing:
            remedy = f"apply the role of {name} again: helm upgrade, or deploy/manifests"
            return bad(about, f"{user} may not {some(missing, 5)}", remedy)
        return ok(about, f"{user} has all permissions that it needs")

    def _missing(self, rights: Iterable[Right], user: str) -> list[str]:
        found: list[str] = []
        for right in rights:
            verbs = [verb for verb in right.verbs if not self._allowed(right, verb, user)]
            found += [f"{'/'.join(verbs)} {right.words()}"] if verbs else []
        return found

    def _allowed(self, right: Right, verb: str, user: str) -> bool:
        resource, _, subresource = right.resource.partition("/")
        attributes = {
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "verb": verb,
            "namespace": self._namespace if right.namespaced else "",
            "name": self._namespace if right.name == "*own*" else right.name,
        }
        kind = "SubjectAccessReview" if user else "SelfSubjectAccessReview"
        spec: dict[str, object] = {"resourceAttributes": attributes}
        if user:
            accounts = "system:serviceaccounts"
            groups = [accounts, f"{accounts}:{self._namespace}", "system:authenticated"]
            spec |= {"user": user, "groups": groups}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        path = f"{_AUTHORIZATION}/{kind.lower()}s"
        try:
            return msgspec.json.decode(self._client.create(path, body), type=_Review).status.allowed
        except UNREADABLE as error:
            raise ApiError(f"POST {path}: the response is not a review ({error})") from error


def rights(client: Client, namespace: str) -> Iterator[Check]:
    """Check the caller, and the ServiceAccounts of remediator and agent. Raises ApiError."""
    reviews = Reviews(client, namespace)
    yield from reviews.caller()
    yield reviews.account(ACCOUNT, REMEDIATOR)
    yield reviews.account(AGENT_ACCOUNT, AGENT)
