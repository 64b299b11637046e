"""Kubeconfig files into an `Endpoint`: one context, where flags may replace its entries.

As for kubectl, the first of several files that names a cluster, a user, a context or the current
context wins. Impersonation is read here: the `kubernetes` package does not support it.
"""

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import msgspec

from kubeapi.endpoint import Endpoint, EndpointError, acting_as
from remediator.controller.kubernetes_login import Entries, Entry, log_in, read
from remediator.controller.login_renewal import PAUSE

_AUTHORITY = frozenset({"certificate-authority", "certificate-authority-data"})
_MOST_NAMES = 5


class _As(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a user that impersonates another."""

    user: str = msgspec.field(name="as", default="")
    uid: str = msgspec.field(name="as-uid", default="")
    groups: tuple[str, ...] = msgspec.field(name="as-groups", default=())
    extra: dict[str, tuple[str, ...]] = msgspec.field(name="as-user-extra", default={})


def endpoint(
    files: Sequence[Path],
    context: str = "",
    *,
    server: str = "",
    token: str = "",
    own_ca: bool = False,
    pause: float = PAUSE,
) -> Endpoint:
    """Log in with a context, "" for the current one. Raises EndpointError with what to do.

    A kubeconfig need not have what flags give: a server, a token (then no plugin runs), a CA. A
    login that ends is renewed after `pause` seconds at the earliest.
    """
    where = f"kubeconfig {os.pathsep.join(map(str, files))}"
    found = [read(file) for file in files]
    name = context or next((each.current for each in found if each.current), "")
    chosen: Mapping[str, object] = {}
    # With a server and a token from flags, no context is needed.
    if name or not (server and token):
        chosen = _context(where, _first_of([each.contexts for each in found]), name)
    cluster = _find_entry(
        where, [each.clusters for each in found], "cluster", chosen, needed=not server
    )
    user = _find_entry(where, [each.users for each in found], "user", chosen, needed=not token)
    at = {key: value for key, value in cluster.body.items() if not (own_ca and key in _AUTHORITY)}
    at |= {"server": server} if server else {}
    if not at.get("server"):
        raise EndpointError(f"{where}: the cluster of context {name!r} has no server; add it")
    login = {key: value for key, value in user.body.items() if not _impersonates(key)}
    login = {"token": token} if token else login
    impersonation = _impersonation(where, user.body)
    logged_in = log_in(where, at, user._replace(body=login), pause)
    namespace = str(chosen.get("namespace") or "")
    return msgspec.structs.replace(logged_in, impersonation=impersonation, namespace=namespace)


def _first_of(files: Sequence[Entries]) -> Entries:
    # Reversed, because a later entry replaces an earlier one here.
    return {name: entry for entries in reversed(files) for name, entry in entries.items()}


def _context(where: str, known: Entries, name: str) -> Mapping[str, object]:
    if name in known:
        return known[name].body
    if not name:
        more = ", ..." if len(known) > _MOST_NAMES else ""
        raise EndpointError(
            f"{where} has no current context: run `kubectl config use-context NAME`, or give "
            f"--context (available: {', '.join([*known][:_MOST_NAMES]) or 'none'}{more})"
        )
    near = get_close_matches(name, known)
    meant = f" (did you mean {' or '.join(near)}?)" if near else ""
    raise EndpointError(
        f"{where} has no context {name!r}{meant}; `kubectl config get-contexts` lists its contexts"
    )


def _find_entry(
    where: str,
    files: Sequence[Entries],
    kind: str,
    context: Mapping[str, object],
    *,
    needed: bool,
) -> Entry:
    """Return the cluster or user of a context; an empty one where it names none."""
    name = str(context.get(kind) or "")
    found = _first_of(files).get(name)
    if found is None and name and needed:
        raise EndpointError(f"{where} has no {kind} {name!r}, which the context names; add it")
    return found or Entry({})


def _impersonates(key: str) -> bool:
    return key == "as" or key.startswith("as-")


def _impersonation(where: str, user: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return the headers for the user that an entry acts as. Raises EndpointError.

    An entry that cannot be read is an error: ignored, it would leave the user all their own rights.
    """
    keys = {key: value for key, value in user.items() if _impersonates(key)}
    if not keys:
        return ()
    try:
        found = msgspec.convert(keys, _As)
    except msgspec.ValidationError as error:
        raise EndpointError(f"{where}: impersonation cannot be read: {error}") from error
    headers = acting_as(found.user, found.groups, found.uid, found.extra)
    if not found.user or not all(value.isprintable() for _, value in headers):
        raise EndpointError(f"{where}: impersonation needs `as`, the name of a user")
    return headers
