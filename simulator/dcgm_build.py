"""Builds the simulated `libdcgm.so.4` from its C sources, once per content.

The scenario is read by the simulated NVML's own readers: those of its sources
that define no call of NVML's are compiled in. Needs a C compiler, as
`simulator.build` does.
"""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from simulator import build, dcgm_fields, facts
from simulator.compiler import cache_folder, compile_with, find_compiler, key_of

LIBRARY = "libdcgm.so.4"
SOURCES = Path(__file__).parent / "dcgm"

_DEFINED = re.compile(r"^API [\w ]+?\*?\b((?:dcgm|Dcgm|errorString)\w*)\(", re.MULTILINE)
_CALL_OF_NVML = re.compile(r"^(?:API |[A-Z_]+\(nvml)", re.MULTILINE)
_FLAGS = (
    *("-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden"),
    *("-ffunction-sections", "-fdata-sections"),
)
_WARNINGS = ("-Wall", "-Wextra")
_LINK = (f"-Wl,-soname,{LIBRARY}", "-Wl,--gc-sections", "-Wl,-z,defs", "-lm")


def build_library() -> Path:
    """Return the path of the built library, building it if its content is new.

    Safe to call from several processes at once. Raises `build.BuildError`.
    """
    chosen = find_compiler()
    generated = {"facts.h": facts.header(), "fields.h": dcgm_fields.header()}
    sources = [*sorted(SOURCES.glob("*.c")), *_readers()]
    headers = [*SOURCES.glob("*.h"), *build.SOURCES.glob("*.h")]
    read = [*sources, *sorted(headers)]
    key = key_of(chosen, (*_FLAGS, *_LINK), read, generated)
    library = cache_folder() / f"dcgm-{key}" / LIBRARY
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        _compile(chosen, generated, sources, library)
    return library


def simulated_calls() -> frozenset[str]:
    """Names of the DCGM calls that the sources define."""
    texts = [path.read_text(encoding="utf-8") for path in SOURCES.glob("*.c")]
    return frozenset(name for text in texts for name in _DEFINED.findall(text))


def _readers() -> list[Path]:
    """The sources of the simulated NVML that only read the scenario."""
    return [
        path
        for path in sorted(build.SOURCES.glob("*.c"))
        if not _CALL_OF_NVML.search(path.read_text(encoding="utf-8"))
    ]


def _compile(
    command: Sequence[str], generated: dict[str, str], sources: Sequence[Path], library: Path
) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent, prefix="build-") as folder:
        work = Path(folder)
        for name, text in generated.items():
            (work / name).write_text(text, encoding="utf-8")
        options = [*_FLAGS, *_WARNINGS, f"-I{work}", "-o", str(work / LIBRARY)]
        compile_with([*command, *options, *map(str, sources), *_LINK], LIBRARY)
        (work / LIBRARY).replace(library)
