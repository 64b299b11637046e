"""The role and flags of the exporter that is this container's main process, for `--check`.

`kubectl exec ... draguard exporter --check` is a process beside it: without its flags it would look
at other paths, and ask the sensor for what only the agent needs.
"""

from collections.abc import Sequence
from pathlib import Path

ROLES = ("sensor", "agent", "run")
_MAIN = "1"
"""The number of a container's main process in its own pid namespace; with hostPID it is the node's
init, which is no exporter."""


def flags_of_main(proc: Path = Path("/proc")) -> list[str]:
    """Return role and flags of the main process; nothing where it is another program."""
    try:
        raw = (proc / _MAIN / "cmdline").read_bytes()
    except OSError:
        return []
    words = raw.decode(errors="replace").split("\0")[:-1]
    for index, word in enumerate(words[:-1]):
        name = word.rpartition("/")[2]
        if name in {"exporter", "__main__.py"} and words[index + 1] in ROLES:
            return words[index + 1 :]
    return []


def completed(arguments: Sequence[str], proc: Path = Path("/proc")) -> list[str]:
    """Return arguments with `--check` and without a role behind those of the main process."""
    alone = "--check" in arguments and not set(arguments) & {*ROLES}
    return [*flags_of_main(proc), *arguments] if alone else [*arguments]
