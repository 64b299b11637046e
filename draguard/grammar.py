"""Words of a command line into the order that the commands parse. Pure.

As with kubectl, global flags may stand before the command, and `help CMD` is `CMD --help`.
"""

from collections.abc import Sequence
from itertools import takewhile

GLOBAL = (
    *("-n", "--namespace", "--context", "--kubeconfig", "-o", "--output", "--request-timeout"),
    *("--server", "--token", "--certificate-authority", "--as", "--as-group"),
)
"""Flags that may stand before the command; each has a value."""
SWITCHES = ("--insecure-skip-tls-verify",)
"""The same without a value."""
_NO_CLUSTER = frozenset({"policy", "completion", "help"})
"""Commands that ask no cluster: they take no flag that names one."""
_OUTPUT = ("-o", "--output")
_XID = "xid"
_BUNDLE = "bundle"


class UsageError(Exception):
    """The words before the command are wrong; the message says how."""


def arranged(words: Sequence[str]) -> list[str]:
    """Return the command first, and the global flags before it behind it. Raises UsageError."""
    flags, rest = _leading_flags(words)
    if not rest:
        if flags:
            raise UsageError("there is no command after the global flags")
        return []
    command, *others = rest
    if command == "help":
        # Not what follows a flag: it may be the value of a mistyped one.
        return [*takewhile(lambda word: not word.startswith("-"), others), "--help"]
    if command == _XID and others:
        command, others = "explain", [_XID, *others]
    if command == _BUNDLE and any(word.startswith(_OUTPUT) for word in _paired(flags)):
        raise UsageError("-o names the file of a bundle: write `draguard bundle -o FILE`")
    if command not in _NO_CLUSTER:
        return [command, *flags, *others]
    flags = [flag for flag in _paired(flags) if flag.partition("=")[0] in _OUTPUT]
    return [command, *others[:1], *flags, *others[1:]]


def _leading_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split off the global flags, each as `--flag=value`, or `-n value` in two words."""
    flags: list[str] = []
    rest = list(words)
    while rest:
        name, equals, _ = rest[0].partition("=")
        short = next((flag for flag in GLOBAL if len(flag) == 2 and rest[0].startswith(flag)), "")
        if name in GLOBAL and not equals:
            if len(rest) < 2:
                raise UsageError(f"the flag {name} needs a value")
            flags += rest[:2]
            rest = rest[2:]
        elif (name in GLOBAL and equals) or short or name in SWITCHES:
            flags.append(rest.pop(0))
        else:
            break
    return flags, rest


def _paired(flags: Sequence[str]) -> list[str]:
    """Return the flags with their values in one word each."""
    words = iter(flags)
    return [
        f"{word}={next(words)}" if word in GLOBAL and "=" not in word else word for word in words
    ]
