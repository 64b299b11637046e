"""Python packages into files of a root: the pinned ones, then ours from the wheel.

Compiled modules come from wheels of the image's own architecture. So an image for another one is
built without running anything of it.
"""

import compileall
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from py_compile import PycInvalidationMode

from deploy.image.contents import is_useful

PYTHON = "3.11"
SITE = Path("usr/local/lib") / f"python{PYTHON}" / "dist-packages"
"""Where Debian's Python looks for what is not Debian's, below the root."""
_STANDARD = Path("usr/lib") / f"python{PYTHON}"
_OLDEST_GLIBC = "manylinux_2_28"
"""The C library of Debian 10, Ubuntu 20.04 and RHEL 8, which all our compiled packages support."""
_LAUNCHER = f"""\
#!/usr/bin/python{PYTHON}
import sys

from draguard.__main__ import main

sys.exit(main())
"""
_SECONDS = 900


class PythonError(Exception):
    """A package could not be installed or compiled; the message says which and why."""


def lay_out(image: str, linux: str, pins: Path, root: Path) -> None:
    """Write the packages of the list `pins` below `root`. Raises PythonError."""
    with tempfile.TemporaryDirectory(prefix="site-") as temporary:
        done = subprocess.run(
            arguments(linux, pins, Path(temporary)),
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        if done.returncode:
            raise PythonError(f"uv ended with {done.returncode}: {done.stderr}")
        shutil.rmtree(Path(temporary) / "bin", ignore_errors=True)
        _copy(image, Path(temporary), root / SITE)
    _compile(root, (_STANDARD, SITE))


def arguments(linux: str, pins: Path, into: Path, python: str = PYTHON) -> Sequence[str]:
    """Return the command that installs: what is pinned and nothing else, for that machine."""
    return (
        *(sys.executable, "-m", "uv", "pip", "install", "--no-cache", "--no-deps"),
        *("--require-hashes", "-r", os.fspath(pins), "--only-binary=:all:"),
        *("--python-platform", f"{linux}-{_OLDEST_GLIBC}", "--python-version", python),
        *("--target", os.fspath(into)),
    )


def lay_out_own(image: str, wheel: Path, root: Path) -> None:
    """Write our packages and the program `draguard` below `root`. Raises PythonError."""
    with tempfile.TemporaryDirectory(prefix="own-") as temporary:
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(temporary)
        _copy(image, Path(temporary), root / SITE)
        own = [SITE / path.name for path in sorted(Path(temporary).iterdir())]
    _compile(root, own)
    launcher = root / "usr" / "local" / "bin" / "draguard"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(_LAUNCHER, encoding="utf-8")
    launcher.chmod(0o755)


def _compile(root: Path, folders: Iterable[Path]) -> None:
    """Compile modules in folders of a root: nothing is written where it runs. Raises PythonError.

    The compiled files name the hash of their source, not its time; nothing checks either.
    """
    for folder in filter(Path.is_dir, (root / folder for folder in folders)):
        if not compileall.compile_dir(
            folder,
            stripdir=os.fspath(root),
            prependdir="/",
            quiet=1,
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        ):
            raise PythonError(f"not all of {folder} compiles: see above")


def _copy(image: str, site: Path, to: Path) -> None:
    for path in sorted(site.rglob("*")):
        name = path.relative_to(site)
        if path.is_file() and is_useful(image, name.as_posix()):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to / name)
