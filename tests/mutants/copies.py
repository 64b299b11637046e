"""The working tree into copies of it, in which a line may be changed without harm to the checkout.

A copy has what git tracks and what it would track, as it lies there now. It has no bytecode and
gets none: a file that is changed and changed back within a second, to the same size, would
otherwise go on as it was compiled in between.
"""

import os
import shutil
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]


class CopyError(Exception):
    """The tree cannot be copied; the message says why."""


@contextmanager
def copies(number: int, root: Path = ROOT) -> Generator[list[Path]]:
    """Give so many copies of the working tree, and remove them afterwards."""
    names = _names(root)
    with TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as parent:
        folders = [Path(parent, str(index)).resolve() for index in range(number)]
        for folder in folders:
            _copy(root, names, folder)
        yield folders


def _names(root: Path) -> list[str]:
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return [name for name in listed.split("\0") if name]


def head(root: Path = ROOT) -> str:
    """Return the hash of the commit that is checked out."""
    return _git(root, "rev-parse", "HEAD").strip()


def _copy(root: Path, names: list[str], folder: Path) -> None:
    for name in names:
        source, target = root / name, folder / name
        if source.is_file():  # a tracked file may be gone
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)


def environment(folder: Path) -> Mapping[str, str]:
    """Return the environment in which Python finds the modules of a copy before all others.

    The project is installed by a link to the checkout. That pytest looks into its own folder
    first is not enough: tests start programs.
    """
    return {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CopyError(f"{' '.join(command)} in {folder}: {done.stderr.strip()}")
    return done.stdout
