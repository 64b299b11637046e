"""The command line in one file: a zip archive that Python starts, for one platform.

Packages with compiled modules cannot be imported from a zip archive, so shiv's bootstrap unpacks
the file once into `~/.shiv` (or `SHIV_ROOT`). Compiled modules name their Python in their file
name; so those of several versions of Python fit into one file.
"""

import filecmp
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from deploy.image.contents import MACHINES, is_useful
from deploy.image.python_files import arguments
from deploy.locks import FOLDER, PYTHONS
from deploy.sources import ROOT

_SECONDS = 600


class ReleaseError(Exception):
    """A part of the release could not be made; the message says which and why."""


def write(wheel: Path, machine: str, to: Path, work: Path) -> None:
    """Write the program for `machine` (a key of MACHINES) to the file `to`. Raises ReleaseError."""
    site = work / "site"
    for python in PYTHONS:
        folder = work / python
        run(*arguments(MACHINES[machine], FOLDER / "controller.txt", folder, python))
        _merge(folder, site)
    # Not installed: that would note where and when this was done.
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(work / "own")
    _merge(work / "own", site)
    run(
        *(sys.executable, "-m", "shiv.cli", "--reproducible", "--compressed"),
        *("--console-script", "draguard", "--python", "/usr/bin/env python3"),
        *("--site-packages", site, "--output-file", to),
    )


def wheel(into: Path) -> Path:
    """Build the wheel of this checkout. Raises ReleaseError."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", into)
    (built,) = into.glob("*.whl")
    return built


def run(*command: str | Path) -> str:
    """Run a program in the checkout and return its output. Raises ReleaseError."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        # Times in archives: the same input gives the same file.
        env={"SOURCE_DATE_EPOCH": "315532800", "UV_SYSTEM_CERTS": "1", **os.environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    if done.returncode:
        words = " ".join(map(str, command))
        raise ReleaseError(f"{words} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _merge(folder: Path, site: Path) -> None:
    """Add files to a folder. Raises ReleaseError where two versions of Python need other files."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        other = site / name
        if path.is_dir() or name.parts[0] == "bin" or not is_useful("controller", name.as_posix()):
            continue
        only_says_what_was_installed = any(part.endswith(".dist-info") for part in name.parts)
        if not other.exists():
            other.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, other)
        elif not (only_says_what_was_installed or filecmp.cmp(path, other, shallow=False)):
            raise ReleaseError(f"{name} is not the same for all versions of Python")
