"""Asks the user before something is done that hurts when it is wrong."""

import sys
from collections.abc import Iterable

from draguard.connection.session import complain
from draguard.safe import shown


def agreed(command: str, facts: Iterable[str], question: str, *, yes: bool) -> bool:
    """Show the facts, and return whether the user agrees; `yes`: the user has agreed by a flag.

    Without a terminal nobody can be asked, and that is no agreement.
    """
    for fact in facts:
        print(shown(fact), file=sys.stderr)
    if yes:
        return True
    if not sys.stdin.isatty():
        complain(command, "nothing was done: no terminal for confirmation; add --yes to continue")
        return False
    print(f"{question} Type yes: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() == "yes":
        return True
    complain(command, "nothing was done")
    return False
