"""C sources to a library in the cache folder, once per content.

The compiler is $CC or `cc`, else the `ziglang` package from PyPI.
"""

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_WARNINGS = ("-Wall", "-Wextra")


class BuildError(Exception):
    """Something cannot be built here; the message says what to do."""


def find_compiler() -> Sequence[str]:
    """Return the command; raises BuildError."""
    chosen = os.environ.get("CC", "")
    for command in (shlex.split(chosen), ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]):
            return command
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise BuildError(
        "no C compiler found (looked for $CC, cc, gcc, clang and the ziglang package); "
        "install one, or run: pip install ziglang"
    )


def cache_folder() -> Path:
    """Return the folder outside of the checkout that keeps what is built."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "draguard"


def build_library(
    library: str,
    folders: Sequence[Path],
    generated: Mapping[str, str],
    flags: Sequence[str],
    link: Sequence[str],
) -> Path:
    """Return the path of the library that all sources in `folders` make, built if it is new.

    `generated` are further files by name; the last folder gives the library's part of the cache
    its name. Safe to call from several processes at once: the first to finish wins, all get the
    same file. Raises BuildError.
    """
    compiler = find_compiler()
    read = [path for folder in folders for path in sorted(folder.glob("*.[ch]"))]
    key = _key_of(compiler, (*flags, *link), read, generated)
    path = cache_folder() / f"{folders[-1].name}-{key}" / library
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as folder:
        work = Path(folder)
        for name, text in generated.items():
            (work / name).write_text(text, encoding="utf-8")
        sources = [*(source for source in read if source.suffix == ".c"), *sorted(work.glob("*.c"))]
        options = [*flags, *_WARNINGS, f"-I{work}", f"-I{folders[-1]}", "-o", str(work / library)]
        _compile_with([*compiler, *options, *map(str, sources), *link], library)
        (work / library).replace(path)
    return path


def _key_of(
    compiler: Sequence[str],
    flags: Sequence[str],
    sources: Iterable[Path],
    generated: Mapping[str, str],
) -> str:
    """Return the cache key of a library: a hash of the compiler, its flags and all sources."""
    version = subprocess.run(
        [*compiler, "--version"], capture_output=True, check=False, timeout=60
    ).stdout
    digest = hashlib.sha256(version + " ".join((*compiler, *flags)).encode())
    for path in sources:
        digest.update(f"{path.parent.name}/{path.name}".encode() + path.read_bytes())
    for name, text in sorted(generated.items()):
        digest.update(name.encode() + text.encode())
    return digest.hexdigest()[:20]


def _compile_with(command: Sequence[str], library: str) -> None:
    """Raises BuildError with the compiler's words."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{command[0]} did not run: {error}; check $CC") from error
    if done.returncode != 0:
        raise BuildError(
            f"{command[0]} could not build {library} (exit {done.returncode}); its words:\n"
            f"{done.stderr.strip()}"
        )
    if done.stderr.strip():
        print(done.stderr, file=sys.stderr)
