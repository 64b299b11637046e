"""Builds the simulated `libdcgm.so.4` from its C sources, once per content.

The scenario is read by the same sources as in the simulated NVML
(`build.READERS`). Needs a C compiler, as `simulator.build` does.
"""

import re
from pathlib import Path

from simulator import build, compiler, dcgm_fields, facts

LIBRARY = "libdcgm.so.4"
SOURCES = Path(__file__).parent / "dcgm"

_DEFINED = re.compile(r"^API [\w ]+?\*?\b((?:dcgm|Dcgm|errorString)\w*)\(", re.MULTILINE)
_FLAGS = (
    *("-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden"),
    *("-ffunction-sections", "-fdata-sections"),
)
_LINK = (f"-Wl,-soname,{LIBRARY}", "-Wl,--gc-sections", "-Wl,-z,defs", "-lm")


def build_library() -> Path:
    """Return the path of the built library, building it if its content is new.

    Safe to call from several processes at once. Raises `build.BuildError`.
    """
    generated = {"facts.h": facts.header(), "fields.h": dcgm_fields.header()}
    return compiler.build_library(LIBRARY, (build.READERS, SOURCES), generated, _FLAGS, _LINK)


def simulated_calls() -> frozenset[str]:
    """Names of the DCGM calls that the sources define."""
    texts = [path.read_text(encoding="utf-8") for path in SOURCES.glob("*.c")]
    return frozenset(name for text in texts for name in _DEFINED.findall(text))
