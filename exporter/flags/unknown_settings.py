"""Flags and variables that look like dcgm-exporter's and are in no release that is known.

A newer release must not keep a node from being watched, so they are passed over with a word. What
may be a slip of the pen is not: it is left for the parser to refuse. Pure.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from exporter.model.given import Ignored, Source

_FAMILIES = (
    "clock", "collect", "collector", "config", "configmap", "container", "cpu", "dcgm", "debug",
    "device", "disable", "dra", "dump", "enable", "fabric", "gpu", "health", "hpc", "kubernetes",
    "log", "max", "metrics", "mig", "nvlink", "nvidia", "nvswitch", "pod", "profiling", "remote",
    "scrape", "switch", "watch", "web", "xid",
)  # fmt: skip
"""First words of their flags, known ones and likely ones."""
_THEIRS = re.compile(rf"--?((?:{'|'.join(_FAMILIES)})-[a-z0-9-]+)(=.*)?", re.DOTALL)
_SLIP = 2
"""Letters by which an unknown flag may differ from a known one and be a slip of the pen."""
_VARIABLE = re.compile(r"DCGM_EXPORTER_[A-Z0-9_]+")
_OF_A_SERVICE = re.compile(r"DCGM_EXPORTER_(SERVICE_(HOST|PORT(_.*)?)|PORT(_.*)?)")
"""What the kubelet sets in every pod beside a Service of the name dcgm-exporter."""
_WHAT_TO_DO = "it has no effect; if it is needed, see docs/exporter.md for what there is instead"


def without_unknown(
    words: Sequence[str], known: Collection[str], roles: Collection[str]
) -> tuple[list[str], list[Ignored]]:
    """Return the words of a command line without unknown flags of theirs, and those flags.

    The word behind such a flag is its value, unless it is a flag or a role. `known` are long
    names, without dashes.
    """
    kept: list[str] = []
    found: list[Ignored] = []
    value_may_follow = False
    for word in words:
        name = _unknown(word, known)
        if name:
            found.append(_ignored("flag", name, f"--{name}"))
        elif not (value_may_follow and not word.startswith("-") and word not in roles):
            kept.append(word)
        value_may_follow = bool(name) and "=" not in word
    return kept, found


def unknown_variables(env: Mapping[str, str], known: Collection[str]) -> Iterator[Ignored]:
    """Give the variables of theirs that are set and not known."""
    for name in sorted(env):
        theirs = _VARIABLE.fullmatch(name) and not _OF_A_SERVICE.fullmatch(name)
        if theirs and name not in known and env[name]:
            yield _ignored("environment", name, f"${name}")


def _unknown(word: str, known: Collection[str]) -> str:
    """Return the name of an unknown flag of theirs, "" for every other word."""
    found = _THEIRS.fullmatch(word)
    if found is None or found[1] in known or found[1].removeprefix("no-") in known:
        return ""
    return "" if any(_letters_apart(found[1], name) <= _SLIP for name in known) else found[1]


def _letters_apart(one: str, other: str) -> int:
    """Return how many letters must be put in, left out or changed (Levenshtein's distance)."""
    row = list(range(len(other) + 1))
    for number, letter in enumerate(one, start=1):
        before, row[0] = row[0], number
        for column, theirs in enumerate(other, start=1):
            cost = before + (letter != theirs)
            before, row[column] = row[column], min(cost, row[column] + 1, row[column - 1] + 1)
    return row[-1]


def _ignored(source: Source, name: str, written: str) -> Ignored:
    message = f"{written} is in no release of dcgm-exporter that is known here: {_WHAT_TO_DO}"
    return Ignored(source, name, "Unknown", message)
