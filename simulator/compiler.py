"""A C compiler, and the cache folder that keeps what it made.

$CC or `cc`, else the `ziglang` package from PyPI.
"""

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


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


def key_of(
    compiler: Sequence[str],
    flags: Sequence[str],
    sources: Iterable[Path],
    generated: Mapping[str, str],
) -> str:
    """Return a name for what comes out: of the compiler, its flags and all sources."""
    version = subprocess.run(
        [*compiler, "--version"], capture_output=True, check=False, timeout=60
    ).stdout
    digest = hashlib.sha256(version + " ".join((*compiler, *flags)).encode())
    for path in sources:
        digest.update(f"{path.parent.name}/{path.name}".encode() + path.read_bytes())
    for name, text in sorted(generated.items()):
        digest.update(name.encode() + text.encode())
    return digest.hexdigest()[:20]


def compile_with(command: Sequence[str], library: str) -> None:
    """Run the compiler; raises BuildError with its words."""
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
