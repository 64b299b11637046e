"""`python -m deploy.image`: stage the root of an image, while it is built.

First what others made (`--pins`), then what is ours (`--wheel`): a layer each for the builder's
cache. The image gets the result as one.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

from deploy.image import contents, debian_files, python_files

_HERE = Path(__file__).parent


def main() -> None:
    """Stage; ends with a message and status 1 if it could not be done."""
    parser = argparse.ArgumentParser(prog="python -m deploy.image", description=__doc__)
    parser.add_argument("image", choices=contents.IMAGES)
    parser.add_argument("--arch", choices=("", *contents.MACHINES), help='"": this machine\'s')
    parser.add_argument("--into", type=Path, required=True, help="the folder to stage in")
    parser.add_argument("--pins", type=Path, help="write Debian's files and these packages")
    parser.add_argument("--wheel", type=Path, help="write ours, from this folder")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets lie in compiled files in their order
        os.execve(  # noqa: S606 - itself
            sys.executable,
            [sys.executable, "-m", "deploy.image", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    os.umask(0o022)
    here = {linux: name for name, linux in contents.MACHINES.items()}[os.uname().machine]
    try:
        if given.pins:
            architecture = given.arch or here
            linux = contents.MACHINES[architecture]
            debian = contents.debian((_HERE / "debian.txt").read_text("utf-8"), given.image, linux)
            debian_files.lay_out(debian, architecture, given.into)
            shutil.copytree(_HERE / "etc", given.into / "etc", dirs_exist_ok=True)
            python_files.lay_out(given.image, linux, given.pins, given.into)
            (given.into / "tmp").mkdir()
        if given.wheel:
            (wheel,) = given.wheel.glob("*.whl")
            python_files.lay_out_own(given.image, wheel, given.into)
    except (debian_files.DebianError, python_files.PythonError) as error:
        sys.exit(f"image: {error}")
    _make_plain(given.into)


def _make_plain(root: Path) -> None:
    """Take modes and times away that depend on where and when this runs."""
    for path in sorted(root.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o111
            path.chmod(0o755 if executable else 0o644)
        os.utime(path, (0, 0), follow_symlinks=False)
    (root / "tmp").chmod(0o1777)
    root.chmod(0o755)
    os.utime(root, (0, 0))


if __name__ == "__main__":
    main()
