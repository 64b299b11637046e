"""Builds the simulated `libnvidia-ml.so.1` from its C sources, once per content.

Needs a C compiler: $CC or `cc`, else the `ziglang` package. The list of calls
that are not simulated comes from nvidia-ml-py itself: whatever it looks up and
the sources do not define answers NVML_ERROR_NOT_SUPPORTED.
"""

import importlib.util
import re
from pathlib import Path

from simulator import facts
from simulator.compiler import BuildError, build_library

LIBRARY = "libnvidia-ml.so.1"
SOURCES = Path(__file__).parent / "nvml"
READERS = Path(__file__).parent / "ini"
"""Sources that both simulated libraries have: what reads their files."""

_LOOKED_UP = re.compile(r'_nvmlGetFunctionPointer\("(nvml\w+)"\)')
_DEFINED = re.compile(r"^API [\w ]+?\*?\b(nvml\w+)\(", re.MULTILINE)
_DEFINED_BY_TABLE = re.compile(r"^[A-Z_]+\((nvml\w+),", re.MULTILINE)
_FLAGS = ("-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden")
_LINK = (f"-Wl,-soname,{LIBRARY}",)


def build() -> Path:
    """Return the path of the built library, building it if its content is new.

    Safe to call from several processes at once. Raises BuildError.
    """
    stubs = "".join(
        f"API nvmlReturn_t {name}(void) {{ return NVML_ERROR_NOT_SUPPORTED; }}\n"
        for name in sorted(looked_up_calls() - simulated_calls())
    )
    generated = {"facts.h": facts.header(), "stubs.c": f'#include "abi.h"\n{stubs}'}
    return build_library(LIBRARY, (READERS, SOURCES), generated, _FLAGS, _LINK)


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
