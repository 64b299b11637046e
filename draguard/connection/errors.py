"""An error of the API server into one sentence with its remedy. Pure."""

import re
from collections.abc import Mapping

from draguard.connection.cluster_flags import NAMESPACE
from kubeapi.client import ApiError
from remediator.controller.emergency import FORBIDDEN

_RIGHT = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) (?:resource "(?P<resource>[^"]*)" '
    r'in API group "(?P<group>[^"]*)"(?: in the namespace "(?P<namespace>[^"]*)")?'
    r'|path "(?P<path>[^"]*)")'
)


class NotInstalledError(Exception):
    """Draguard's objects are not served; the message says what to install."""


ANONYMOUS = "system:anonymous"
"""User name that an API server gives to requests without credentials."""
_ASKING = re.compile(r"^[A-Z]+ /\S*: (asking \S+: )?")
"""What `ApiError` says before the reason, for logs."""
_WRITING = re.compile(r"^(POST|PUT|PATCH|DELETE) /(?!apis/auth)")
"""Reviews (authentication, authorization) are POSTs that change nothing."""
_OTHER_NAME = re.compile(r"(Hostname|IP address) mismatch, certificate is not valid for '[^']*'")
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
_OF_A_POD = re.compile(r"GET /api/v1/namespaces/\S+/pods/\S+/(log|proxy/\S+): ")
"""What the API server passes on: it may be well where this fails."""
_DATES = (
    (
        "certificate has expired",
        "has expired: have it renewed (kubeadm certs renew), or check the clock of this machine",
    ),
    ("certificate is not yet valid", "is not valid yet: check the clock of this machine"),
    (
        "CERTIFICATE_EXPIRED",
        "is valid, but it rejects that of your kubeconfig as expired: log in again",
    ),
)
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE")
_PLAIN = "Client sent an HTTP request to an HTTPS server"
_FAILED = 500
_ELSEWHERE = "{why}; {server} redirects, which no API server does: check its address"
_BUSY = "{why}; the server is overloaded or failing: try again"
_MEANINGS: Mapping[int, str] = {
    401: "{server} rejected the credentials of the kubeconfig (401): they are wrong or expired; "
    "log in again",
    410: "{why}; the list expired while it was read: try again",
    **dict.fromkeys((301, 302, 303, 307, 308), _ELSEWHERE),
    **dict.fromkeys((429, 500, 502, 503, 504), _BUSY),
}
"""By status."""
_OUR_GROUPS = ("draguard.dev", "resource.k8s.io")
_OF_NAMESPACE = frozenset(
    {
        *("leases", "deployments", "replicasets", "daemonsets", "configmaps", "pods", "events"),
    }
)
_READS = frozenset({"get", "list"})
"""What the chart's Role allows to read in Draguard's namespace."""


def sentence(error: Exception, server: str, *, acts: bool = False) -> str:
    """Say what is wrong and what to do. `acts`: the command also writes."""
    if not isinstance(error, ApiError):
        return str(error)
    if _OF_A_POD.match(error.message) and (error.status is None or error.status >= _FAILED):
        silent = "; the node of the pod may be down" if error.status is None else ""
        return f"{error.message}{silent}"
    if error.status is None:
        unsure = ". It may or may not be done: check, or run the command again"
        return _silent(error.message, server) + (unsure if may_be_done(error) else "")
    if error.status == FORBIDDEN:
        return forbidden(error.message, acts=acts)
    if _PLAIN in error.message:
        return f"{server} requires https: correct its address in the kubeconfig"
    wait = f" (the server requests a wait of {error.retry_after:g} s)" if error.retry_after else ""
    why = f"{error.message}{wait}"
    return _MEANINGS.get(error.status, "{why}").format(why=why, server=server)


def may_be_done(error: Exception) -> bool:
    """Whether it was a write without an answer: it may be stored."""
    unanswered = isinstance(error, ApiError) and error.status is None
    return unanswered and _WRITING.match(str(error)) is not None


def _silent(message: str, server: str) -> str:
    why = _ASKING.sub("", message)
    other = _OTHER_NAME.search(message)
    if other:
        return (
            f"the certificate of {server} is for another server ({other[0]}): use the name in the "
            "certificate; behind a tunnel, set it as tls-server-name in the kubeconfig"
        )
    for sign, meaning in _DATES:
        if sign in message:
            return f"the certificate of {server} {meaning}"
    if _UNTRUSTED in message:
        return (
            f"the certificate of {server} is not trusted: give its CA, or that of a proxy that "
            "decrypts TLS, with --certificate-authority or in the kubeconfig; "
            f"insecure-skip-tls-verify in a kubeconfig is ignored: add the flag ({why})"
        )
    if any(sign in message for sign in _NO_TLS):
        return (
            f"{server} does not speak TLS: correct its address in the kubeconfig (http://?), or "
            f"the proxy in between ({why})"
        )
    return (
        f"no answer from {server}: {why}; check that it is the right cluster "
        "(`kubectl config current-context`) and that it runs"
    )


def forbidden(message: str, *, acts: bool = False) -> str:
    """Name the verb and resource that are missing, and a role that is enough for the command."""
    found = _RIGHT.search(message)
    if found is None:
        return message
    if found["user"] == ANONYMOUS:
        return (
            f"the server treats you as {ANONYMOUS}: the user of this context has no credentials in "
            "the kubeconfig; log in, or choose another context with --context"
        )
    what = found["path"] or ".".join(filter(None, (found["resource"], found["group"])))
    where = f" in namespace {found['namespace']}" if found["namespace"] else ""
    role = ""
    if found["group"] in _OUR_GROUPS:
        reads = found["verb"] in {"get", "list"} and not acts
        name = "draguard-view" if reads else "draguard-operator"
        role = f", such as the chart's {name}"
    elif found["verb"] in _READS:
        role = _role_for(found)
    return (
        f"{found['user']} may not {found['verb']} {what}{where}; "
        f"ask for a role that allows the verb {found['verb']} on {what}{role}"
    )


def _role_for(found: re.Match[str]) -> str:
    """Name the chart's role that allows a read. Pods of users' namespaces are read, too."""
    own = found["verb"] == "list" and found["namespace"] == NAMESPACE
    if found["resource"] == "pods" and not own:
        return ", such as the chart's draguard-operator"
    there = found["namespace"] and found["resource"] in _OF_NAMESPACE
    return ", such as the chart's Role draguard-view there" if there else ""
