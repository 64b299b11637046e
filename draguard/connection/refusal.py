"""What the API server refused, as one sentence with what to do about it. Pure."""

import re

from kubeapi.client import ApiError

_RIGHT = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) (?:resource "(?P<resource>[^"]*)" '
    r'in API group "(?P<group>[^"]*)"(?: in the namespace "(?P<namespace>[^"]*)")?'
    r'|path "(?P<path>[^"]*)")'
)


class NotInstalledError(Exception):
    """Draguard's objects are not served; the message says what to install."""


def sentence(error: Exception, server: str) -> str:
    """Say what is wrong and what to do."""
    if not isinstance(error, ApiError):
        return str(error)
    match error.status:
        case None:
            return (
                f"no answer from {server}: {error.message}; is that the cluster that you mean "
                "(`kubectl config current-context`), and does it run?"
            )
        case 401:
            return (
                f"{server} does not know who asks (401): the credentials of the kubeconfig are "
                "wrong or have run out; log in again"
            )
        case 403:
            return forbidden(error.message)
        case _:
            return error.message


def forbidden(message: str) -> str:
    """Name the verb and the resource that are missing, as far as the server does."""
    found = _RIGHT.search(message)
    if found is None:
        return message
    what = found["path"] or ".".join(filter(None, (found["resource"], found["group"])))
    where = f" in namespace {found['namespace']}" if found["namespace"] else ""
    return (
        f"{found['user']} may not {found['verb']} {what}{where}; "
        f"ask for a role that allows the verb {found['verb']} on {what}"
    )
