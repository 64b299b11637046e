"""Builds the simulated `libnvidia-ml.so.1` from its C sources, once per content.

Needs a C compiler: $CC or `cc`, else the `ziglang` package. The list of calls
that are not simulated comes from nvidia-ml-py itself: whatever it looks up and
the sources do not define answers NVML_ERROR_NOT_SUPPORTED.
"""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from simulator import facts

LIBRARY = "libnvidia-ml.so.1"
SOURCES = Path(__file__).parent / "nvml"

_LOOKED_UP = re.compile(r'_nvmlGetFunctionPointer\("(nvml\w+)"\)')
_DEFINED = re.compile(r"^API [\w ]+?\*?\b(nvml\w+)\(", re.MULTILINE)
_DEFINED_BY_TABLE = re.compile(r"^(?:LONG_)?(?:READING|FIXED)\((nvml\w+),", re.MULTILINE)
_FLAGS = ("-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden")
_WARNINGS = ("-Wall", "-Wextra")
_LINK = (f"-Wl,-soname,{LIBRARY}",)


class BuildError(Exception):
    """The library cannot be built; the message says what to do."""


def build() -> Path:
    """Return the path of the built library, building it if its content is new.

    Safe to call from several processes at once: the first to finish wins, all
    get the same file.
    """
    compiler = _compiler()
    generated = {"facts.h": facts.header(), "stubs.c": _stubs()}
    library = _cache() / f"nvml-{_key(compiler, generated)}" / LIBRARY
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        _compile(compiler, generated, library)
    return library


def simulated_calls() -> frozenset[str]:
    """Names of the NVML calls that the sources define."""
    texts = [path.read_text(encoding="utf-8") for path in SOURCES.glob("*.c")]
    return frozenset(
        name
        for text in texts
        for pattern in (_DEFINED, _DEFINED_BY_TABLE)
        for name in pattern.findall(text)
    )


def looked_up_calls() -> frozenset[str]:
    """Names of the NVML calls that the installed nvidia-ml-py looks up."""
    found = importlib.util.find_spec("pynvml")
    if found is None or found.origin is None:
        raise BuildError("nvidia-ml-py is not installed; run: pip install nvidia-ml-py")
    return frozenset(_LOOKED_UP.findall(Path(found.origin).read_text(encoding="utf-8")))


def _stubs() -> str:
    names = sorted(looked_up_calls() - simulated_calls())
    lines = (
        f"API nvmlReturn_t {name}(void) {{ return NVML_ERROR_NOT_SUPPORTED; }}" for name in names
    )
    return "\n".join(('#include "sim.h"', *lines, ""))


def _compiler() -> Sequence[str]:
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


def _key(compiler: Sequence[str], generated: dict[str, str]) -> str:
    version = subprocess.run(
        [*compiler, "--version"], capture_output=True, check=False, timeout=60
    ).stdout
    digest = hashlib.sha256(version + " ".join((*compiler, *_FLAGS, *_LINK)).encode())
    for path in sorted(SOURCES.glob("*.[ch]")):
        digest.update(path.name.encode() + path.read_bytes())
    for name, text in sorted(generated.items()):
        digest.update(name.encode() + text.encode())
    return digest.hexdigest()[:20]


def _cache() -> Path:
    chosen = os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "draguard"


def _compile(compiler: Sequence[str], generated: dict[str, str], library: Path) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent, prefix="build-") as folder:
        work = Path(folder)
        for name, text in generated.items():
            (work / name).write_text(text, encoding="utf-8")
        sources = [*map(str, sorted(SOURCES.glob("*.c"))), str(work / "stubs.c")]
        _run(
            [
                *(*compiler, *_FLAGS, *_WARNINGS, *_LINK, f"-I{work}", f"-I{SOURCES}"),
                *("-o", str(work / LIBRARY), *sources),
            ]
        )
        (work / LIBRARY).replace(library)


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{command[0]} did not run: {error}; check $CC") from error
    if done.returncode != 0:
        raise BuildError(
            f"{command[0]} could not build {LIBRARY} (exit {done.returncode}); its words:\n"
            f"{done.stderr.strip()}"
        )
    if done.stderr.strip():
        print(done.stderr, file=sys.stderr)
