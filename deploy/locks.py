"""The lists that images and release files install from: parts of `constraints.txt`, with hashes.

`constraints.txt` pins everything, also what only tests need. Each list names what one target needs,
so that an installer can demand a hash for everything (`--require-hashes`). What a target needs is
read from the metadata of the packages that are installed here.
"""

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement

from deploy.image.contents import MACHINES, UNUSED_NEEDS
from deploy.sources import ROOT

FOLDER = Path(__file__).parent / "locked"
CONSTRAINTS = ROOT / "constraints.txt"
LISTS: Mapping[str, tuple[str, ...]] = {
    "exporter.txt": ("draguard[exporter]",),
    "controller.txt": ("draguard[remediator,cli]",),
    "build.txt": ("uv", "hatchling"),
}
"""What each list is made for."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Versions of Python that a list serves. The images have the first one."""
_HEAD = "# {}\n# Part of constraints.txt (`make generate`); do not edit.\n"


class NotPinnedError(Exception):
    """A needed package is not in `constraints.txt`; the message names it and the remedy."""


def texts() -> Mapping[Path, str]:
    """Return every list with its text. Raises NotPinnedError."""
    blocks = pinned(CONSTRAINTS.read_text(encoding="utf-8"))
    found: dict[Path, str] = {}
    for file, requirements in LISTS.items():
        names = sorted(needed(requirements))
        if missing := [name for name in names if name not in blocks]:
            raise NotPinnedError(f"constraints.txt does not pin {missing[0]}: run `make lock`")
        head = _HEAD.format(" ".join(requirements))
        found[FOLDER / file] = head + "".join(blocks[name] for name in names)
    return found


def pinned(text: str) -> dict[str, str]:
    """Return the lines of each package in a constraints file, by its name."""
    blocks = re.findall(r"^[^\s#].*\n(?:[ \t].*\n)*", text, re.MULTILINE)
    return {normal(Requirement(block.partition("\\")[0].strip()).name): block for block in blocks}


def needed(requirements: Iterable[str]) -> set[str]:
    """Return the names of all packages that requirements need, without Draguard's own.

    What only a part needs that is in no image is left out, too.
    """
    found: set[str] = set()
    seen: set[str] = set()
    ahead = [Requirement(words) for words in requirements]
    while ahead:
        requirement = ahead.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        found.add(normal(requirement.name))
        unused = UNUSED_NEEDS.get(requirement.name, frozenset())
        for words in requires(requirement.name) or ():
            need = Requirement(words)
            if normal(need.name) not in unused and _applies(need, requirement.extras or {""}):
                ahead.append(need)
    return found - {"draguard"}


def normal(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Whether any Linux and Python that we serve needs it."""
    if requirement.marker is None:
        return True
    return any(
        requirement.marker.evaluate(
            {
                "extra": extra,
                "python_version": python,
                "python_full_version": f"{python}.0",
                "platform_machine": machine,
                "platform_system": "Linux",
                "sys_platform": "linux",
                "os_name": "posix",
                "implementation_name": "cpython",
                "platform_python_implementation": "CPython",
            }
        )
        for extra in extras
        for python in PYTHONS
        for machine in MACHINES.values()
    )
