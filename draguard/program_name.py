"""The name under which the user started the command line: `draguard`, or `kubectl draguard`.

Texts are written with `draguard COMMAND`; `spelled` turns them into what the user can paste. Pure
but for the program's own name.
"""

import re
import sys
from pathlib import PurePath

_PLUGIN = "kubectl-"
"""How the file of a kubectl plugin begins."""
_COMMANDS = (
    r"status|incidents|explain|xid|plan|doctor|version|bundle|hold|untaint|ignore|"
    r"confirm-repaired|cordon|uncordon|cleanup|policy|completion|help|COMMAND|--help|--version"
)
_CALL = re.compile(
    rf"(?<![\w/.-])(?<!kubectl )draguard(?= (?:\[GLOBAL FLAGS\] )?(?:{_COMMANDS})\b)"
)


def program() -> str:
    """Return `draguard`, or `kubectl draguard` where kubectl runs it as its plugin."""
    plugin = PurePath(sys.argv[0]).name.startswith(_PLUGIN)
    return "kubectl draguard" if plugin else "draguard"


def spelled(text: str) -> str:
    """Return a text with every command as the user would type it."""
    name = program()
    return text if name == "draguard" else _CALL.sub(name, text)
