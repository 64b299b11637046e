"""What an image has beside Debian's files, as tables. Pure.

Debian's files are in `debian.txt`.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

IMAGES = ("exporter", "controller")
MACHINES: Mapping[str, str] = {"amd64": "x86_64", "arm64": "aarch64"}
"""Architectures, in the words of containers and of Linux."""
LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "exporter": (
        "allocation",
        "remediator",
        "simulator",
        "example.py",
    ),  # the last is nvidia-ml-py's
    "controller": ("simulator", "kubernetes/aio"),
}
"""Folders and files of Python packages that nothing in the image loads."""
UNUSED_NEEDS: Mapping[str, frozenset[str]] = {
    "kubernetes": frozenset({"aiohttp", "aiohttp-retry"}),
}
"""What a package needs for a folder that is left out, by name; the needed ones are left out too."""
_USELESS_FOLDERS = frozenset({"__pycache__", "test", "tests"})
_USELESS_FILES = re.compile(
    r".*\.(c|h|pyi|pyx|pxd|typed)|test_.*\.py|.*_test\.py"
    r"|\.lock|INSTALLER|RECORD|REQUESTED|WHEEL|direct_url\.json|uv_cache\.json"
)
"""Sources, tests, and what an installer notes: not true any more, or another one each time."""


class Debian(NamedTuple):
    """What is taken of a package of Debian."""

    name: str
    images: tuple[str, ...]
    files: tuple[str, ...] = ()
    """Patterns as in `debian.txt`."""
    left_out: tuple[str, ...] = ()


def debian(text: str, image: str, linux: str) -> list[Debian]:
    """Return what an image takes of each package: the lines of `debian.txt`."""
    found: list[Debian] = []
    for line in text.replace("{linux}", f"{linux}-linux-gnu").splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0].startswith("["):
            found.append(Debian(words[0].strip("[]"), tuple(words[1:]) or IMAGES))
        elif words[0] == "-":
            found[-1] = found[-1]._replace(left_out=(*found[-1].left_out, words[1]))
        else:
            found[-1] = found[-1]._replace(files=(*found[-1].files, words[0]))
    return [package for package in found if image in package.images]


def is_useful(image: str, name: str) -> bool:
    """Whether an image needs a file of a Python package, by its path in site-packages."""
    *folders, last = name.split("/")
    if _USELESS_FOLDERS & {*folders} or _USELESS_FILES.fullmatch(last):
        return False
    return not any(f"{name}/".startswith(f"{out}/") for out in LEFT_OUT[image])
