"""The flags that say which cluster, and as whom, named as kubectl's, and what they change.

A token is never part of a message: a usage error is often pasted into a ticket.
"""

import argparse
import re
import shlex
from pathlib import Path

import msgspec

from kubeapi.endpoint import Endpoint, acting_as

NAMESPACE = "draguard-system"
TIMEOUT = 30.0
"""Seconds for one answer: a page of 500 objects on a slow line."""
_FOREVER = 86_400.0
"""Seconds that stand for no limit, which kubectl spells 0."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """What flags put in the place of a kubeconfig's entries; "", None and () leave them."""

    server: str = ""
    token: str = ""
    ca_file: Path | None = None
    insecure: bool = False
    user: str = ""
    groups: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Overrides({self.server or 'no server'}, as {self.user or 'the caller'})"

    def applied(self, found: Endpoint) -> Endpoint:
        """Return an endpoint with what was given in place of what was found."""
        changes: dict[str, object] = {}
        if self.server:
            # As kubectl: the name in the certificate belongs to the server of the kubeconfig.
            changes |= {"server": self.server.rstrip("/"), "tls_server_name": None}
        if self.token:
            # A client certificate would win over the token: the server looks at it first.
            nothing = dict.fromkeys(
                (
                    *("token_file", "renewal", "client_cert_file", "client_key_file"),
                    *("client_cert_data", "client_key_data"),
                )
            )
            changes |= {"token": self.token, **nothing}
        if self.ca_file is not None:
            changes["ca_file"] = str(self.ca_file)
        if self.insecure:
            changes |= {"insecure": True, "ca_file": None}
        if self.user:
            changes["impersonation"] = acting_as(self.user, self.groups)
        return msgspec.structs.replace(found, **changes)


NOTHING = Overrides()


def add_cluster_flags(
    parser: argparse.ArgumentParser,
    namespace: str = NAMESPACE,
    whose: str = f"namespace of Draguard [{NAMESPACE}]",
) -> None:
    """Add the flags that say which cluster and as whom; `whose` is the namespace."""
    where = parser.add_argument_group("which cluster")
    where.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="default: $KUBECONFIG, then ~/.kube/config"
    )
    where.add_argument("--context", default="", metavar="NAME", help="default: the current context")
    where.add_argument(
        "-n",
        "--namespace",
        default=namespace,
        metavar="NAME",
        help=whose,
    )
    where.add_argument(
        "--request-timeout",
        type=seconds,
        default=TIMEOUT,
        metavar="TIME",
        help=f"per request; 0: no limit [{TIMEOUT:g}s]",
    )
    whom = parser.add_argument_group("instead of what the kubeconfig says")
    whom.add_argument("--server", default="", metavar="URL", help="address of the API server")
    whom.add_argument("--token", type=_line, default="", metavar="TEXT", help="bearer token")
    whom.add_argument("--certificate-authority", type=_file, metavar="FILE", help="CA, PEM")
    whom.add_argument(
        "--insecure-skip-tls-verify", action="store_true", help="trust any certificate"
    )
    whom.add_argument(
        "--as", dest="as_user", type=_line, default="", metavar="USER", help="impersonate a user"
    )
    whom.add_argument(
        "--as-group",
        dest="as_groups",
        type=_line,
        action="append",
        default=[],
        metavar="GROUP",
        help="with --as: a group; may be repeated",
    )


def add_all_namespaces_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag that kubectl's users type. Draguard's objects are in no namespace."""
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="no effect: everything is always shown"
    )


def overrides_of(options: argparse.Namespace) -> Overrides:
    """Return what the flags of `add_cluster_flags` change."""
    return Overrides(
        server=options.server,
        token=options.token,
        ca_file=options.certificate_authority,
        insecure=options.insecure_skip_tls_verify,
        user=options.as_user,
        groups=tuple(options.as_groups),
    )


def same_cluster(options: argparse.Namespace) -> str:
    """Return the flags with which another command reaches the same cluster; "" for none."""
    given = {
        "--kubeconfig": str(options.kubeconfig or ""),
        "--context": options.context,
        "--namespace": "" if options.namespace == NAMESPACE else options.namespace,
        "--server": options.server,
    }
    return "".join(f" {flag} {shlex.quote(value)}" for flag, value in given.items() if value)


def seconds(text: str) -> float:
    """Read a time as kubectl spells it: `30s`, `1m30s`, `500ms`, or seconds without a unit."""
    parts = _DURATION.findall(text)
    if text.isascii() and text.isdigit():
        found = float(text)
    elif parts and "".join(map("".join, parts)) == text:
        found = sum(float(number) * _UNITS[unit] for number, unit in parts)
    else:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time, such as 30s or 1m30s")
    return min(found, _FOREVER) or _FOREVER


def _line(text: str) -> str:
    """Take what fits into a header. The message does not repeat it: it may be a token."""
    if not text.isprintable():
        raise argparse.ArgumentTypeError("it contains invalid characters")
    return text


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return path
