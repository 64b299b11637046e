"""`draguard __complete WORD...`: what the last word may become, for shells and for kubectl.

Prints a candidate a line, with a tab and what it means, and then `:4`, or `:0` where a file may
stand. That is what kubectl expects of `kubectl_complete-draguard`. What fails completes nothing.
"""

import argparse
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from draguard.command_table import COMMANDS, USAGE
from draguard.commands.completion import SCRIPTS
from draguard.connection.cluster_flags import NAMESPACE, add_cluster_flags
from draguard.exit_status import DONE
from draguard.grammar import GLOBAL, SWITCHES
from draguard.parsers import HIDDEN, flags_of, parser_of, subcommands
from draguard.phrases import shown
from draguard.render.formats import FORMATS

_DESCRIBED = re.compile(r"^  ([a-z][a-z-]*)(?: \S+)*? {2,}(\S.*)$", re.MULTILINE)
_GLOBAL_NAMES = {flag: flag.lstrip("-") for flag in GLOBAL} | {"-n": "namespace", "-o": "output"}
NO_FILES, FILES = ":4", ":0"
Candidates = Iterable[tuple[str, str]]
"""Words, and what each means."""


def plugin() -> int:
    """Run as `kubectl_complete-draguard`."""
    return main(sys.argv[1:])


def main(arguments: Sequence[str]) -> int:
    """Print the candidates; always returns 0, because a shell shows no errors here."""
    *before, word = arguments or [""]
    logged = logging.root.manager.disable
    # Of `--flag=value` bash makes three words.
    before, word = [each for each in before if each != "="], "" if word == "=" else word
    logging.disable()
    try:
        found, files = candidates(before, word)
        fitting = [(name, text) for name, text in found if name.startswith(word)]
    except (Exception, SystemExit):  # noqa: BLE001 - whatever it is, a shell goes on
        fitting, files = [], False
    finally:
        logging.disable(logged)
    for name, text in fitting:
        print(f"{name}\t{shown(text)}" if text else name)
    print(FILES if files else NO_FILES)
    return DONE


def candidates(before: Sequence[str], word: str) -> tuple[Candidates, bool]:
    """Return what may stand after the words before, and whether a file may."""
    rest = list(before)
    while rest and rest[0].partition("=")[0] in (*GLOBAL, *SWITCHES):
        rest = rest[1:] if "=" in rest[0] or rest[0] in SWITCHES else rest[2:]
    if not rest:
        if before and before[-1] in GLOBAL:
            return _values(_GLOBAL_NAMES[before[-1]], None, before[:-1])
        flags = [(flag, "") for flag in (*GLOBAL, *SWITCHES, "--help", "--version")]
        return (flags if word.startswith("-") else _commands()), False
    command, *others = rest
    if command in {"help", "completion"}:
        shells = [(shell, "") for shell in SCRIPTS]
        return (() if others else _commands() if command == "help" else shells), False
    if command not in COMMANDS or command in HIDDEN:
        return (), True
    return _of_parser(command, parser_of(command), others, word, before)


def _of_parser(
    command: str,
    parser: argparse.ArgumentParser,
    others: Sequence[str],
    word: str,
    before: Sequence[str],
) -> tuple[Candidates, bool]:
    nested = subcommands(parser)
    if nested:
        if not others:
            return [(name, "") for name in nested], False
        command, parser, others = f"{command} {others[0]}", nested[others[0]], others[1:]
    flags = flags_of(parser)
    last = others[-1] if others else ""
    flag, equals, _ = word.partition("=")
    if equals and flag in flags:
        found, files = _values(flags[flag].dest, flags[flag], before)
        return [(f"{flag}={name}", text) for name, text in found], files
    if last in flags and flags[last].nargs != 0:
        return _values(flags[last].dest, flags[last], before[:-1])
    if word.startswith("-"):
        longest = {max(action.option_strings, key=len): action for action in flags.values()}
        return [(name, action.help or "") for name, action in longest.items()], False
    kind = _POSITIONAL.get(command)
    return (kind(before), False) if kind else ((), command == "policy check")


def _values(
    name: str, action: argparse.Action | None, before: Sequence[str]
) -> tuple[Candidates, bool]:
    """Return what a flag may have as its value."""
    if action is not None and action.choices:
        return [(str(choice), "") for choice in action.choices], False
    if name == "output" and not (action and action.metavar == "FILE"):
        return [(each, "") for each in FORMATS if _fits(action, each)], False
    if name == "context":
        from draguard.connection.which_cluster import context_names

        return [(each, "") for each in context_names(_options(before).kubeconfig)], False
    if name == "node":
        objects = _read(before, "any_reports", "slices")
        names = {report.metadata.name for report in objects.reports}
        names |= {part.node for part in objects.gpus() if part.node}
        return [(each, "") for each in sorted(names)], False
    return (), name in _FILES


def _fits(action: argparse.Action | None, text: str) -> bool:
    try:
        if action is not None and callable(action.type):
            action.type(text)
    except argparse.ArgumentTypeError:
        return False
    return True


def _commands() -> Candidates:
    stated = dict(_DESCRIBED.findall(USAGE))
    return [(name, stated.get(name, "")) for name in (*COMMANDS, "help") if name not in HIDDEN]


def _options(before: Sequence[str], namespace: str = NAMESPACE) -> argparse.Namespace:
    """Read which cluster the words before name; `namespace` is the default."""
    flags = argparse.ArgumentParser(add_help=False)
    add_cluster_flags(flags, namespace)
    return flags.parse_known_args(before)[0]


def _read(before: Sequence[str], *collections: str) -> Any:
    """Read collections of the cluster, within a few seconds."""
    from draguard.cluster.reading import Reader
    from draguard.connection.session import client_of, endpoint_of_flags
    from kubeapi.client import Client

    options = _options(before)
    client = client_of(endpoint_of_flags(options), _QUICK, Client)
    try:
        return Reader(client, options.namespace).objects(*collections, spared=collections)
    finally:
        client.close()


_FILES = frozenset(
    {"kubeconfig", "policy", "output", "certificate-authority", "certificate_authority"}
)
"""Flags whose value is a file."""
_QUICK = 3.0
"""Seconds for an answer: a user waits for it."""


def _incidents(before: Sequence[str]) -> Iterator[tuple[str, str]]:
    from draguard.cluster.incident_lines import incident_lines

    for line in incident_lines(_read(before, "incidents").incidents):
        yield line.short, f"{line.fault} on {line.node}, {line.phase}"


def _devices(before: Sequence[str]) -> Iterator[tuple[str, str]]:
    objects = _read(before, "any_reports", "slices")
    for report in objects.reports:
        for gpu in report.status.gpus:
            if gpu.minor is not None:
                yield f"{report.metadata.name}/{gpu.minor}", gpu.uuid
    for part in objects.gpus():
        if part.uuid and part.kind in {"gpu", "mig"}:
            yield part.uuid, str(part.device)


def _waiting(before: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the pods of a namespace that use devices, those that do not run first, and claims."""
    from allocation.model.claims import Claim
    from allocation.model.pods import Pod
    from draguard.cluster.listing import listed
    from draguard.connection.session import client_of, endpoint_of_flags
    from kubeapi.client import Client
    from kubeapi.versions import GROUP

    options = _options(before, "")
    client = client_of(endpoint_of_flags(options), _QUICK, Client)
    namespace = options.namespace or client.endpoint.namespace or "default"
    try:
        pods, _ = listed(client, f"/api/v1/namespaces/{namespace}/pods", Pod)
        path = f"/apis/{GROUP}/v1/namespaces/{namespace}/resourceclaims"
        claims, _ = listed(client, path, Claim)
    finally:
        client.close()
    using = [each for each in pods if each.spec.resource_claims or each.extended_resources()]
    using.sort(key=lambda pod: (pod.status.phase == "Running", pod.metadata.name))
    yield from ((pod.metadata.name, pod.status.phase) for pod in using)
    for claim in claims:
        state = "allocated" if claim.status.allocation else "not allocated"
        yield f"claim/{claim.metadata.name}", state


def _xids(_: Sequence[str]) -> Iterator[tuple[str, str]]:
    from exporter.model import xid

    yield "xid", "an XID by its number"
    yield from ((str(code), known.description) for code, known in xid.catalogue().items())


_POSITIONAL: dict[str, Callable[[Sequence[str]], Candidates]] = {
    **dict.fromkeys(("incidents", "hold", "ignore", "untaint", "confirm-repaired"), _incidents),
    **dict.fromkeys(("cordon", "uncordon"), _devices),
    "explain": _xids,
    "why": _waiting,
}
"""What a command takes that is no flag."""
