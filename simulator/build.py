"""Builds the simulated `libnvidia-ml.so.1` from its C sources, once per content.

Needs a C compiler: $CC or `cc`, else the `ziglang` package. The list of calls
that are not simulated comes from nvidia-ml-py itself: whatever it looks up and
the sources do not define answers NVML_ERROR_NOT_SUPPORTED.
"""

import importlib.util
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from simulator import facts
from simulator.compiler import BuildError, cache_folder, compile_with, find_compiler, key_of

LIBRARY = "libnvidia-ml.so.1"
SOURCES = Path(__file__).parent / "nvml"

_LOOKED_UP = re.compile(r'_nvmlGetFunctionPointer\("(nvml\w+)"\)')
_DEFINED = re.compile(r"^API [\w ]+?\*?\b(nvml\w+)\(", re.MULTILINE)
_DEFINED_BY_TABLE = re.compile(r"^[A-Z_]+\((nvml\w+),", re.MULTILINE)
_FLAGS = ("-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden")
_WARNINGS = ("-Wall", "-Wextra")
_LINK = (f"-Wl,-soname,{LIBRARY}",)


def build() -> Path:
    """Return the path of the built library, building it if its content is new.

    Safe to call from several processes at once: the first to finish wins, all
    get the same file.
    """
    compiler = find_compiler()
    generated = {"facts.h": facts.header(), "stubs.c": _stubs()}
    key = key_of(compiler, (*_FLAGS, *_LINK), sorted(SOURCES.glob("*.[ch]")), generated)
    library = cache_folder() / f"nvml-{key}" / LIBRARY
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


def _compile(compiler: Sequence[str], generated: dict[str, str], library: Path) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent, prefix="build-") as folder:
        work = Path(folder)
        for name, text in generated.items():
            (work / name).write_text(text, encoding="utf-8")
        sources = [*map(str, sorted(SOURCES.glob("*.c"))), str(work / "stubs.c")]
        compile_with(
            [
                *(*compiler, *_FLAGS, *_WARNINGS, *_LINK, f"-I{work}", f"-I{SOURCES}"),
                *("-o", str(work / LIBRARY), *sources),
            ],
            LIBRARY,
        )
        (work / LIBRARY).replace(library)
