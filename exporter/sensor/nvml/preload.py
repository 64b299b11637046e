"""libnvidia-ml.so.1 by its path: folders to search in, into a library that is loaded.

The loader's own search path (LD_LIBRARY_PATH) would not do. The folder is often a system folder of
the node, with a C library of its own: the loader would start the whole process with that one, and
the process would end at once. A later load of libnvidia-ml.so.1, by nvidia-ml-py or libdcgm,
gets the library that is loaded already.
"""

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path

from exporter.sensor.supervisor.call_notes import Slot

SONAME = "libnvidia-ml.so.1"
_VARIABLE = "DRAGUARD_NVML_LIBRARY_DIRS"
_NO_GPU = -1


def variables(folders: Sequence[str]) -> dict[str, str]:
    """Return the variables by which a child learns where to search; in this order."""
    return {_VARIABLE: ",".join(folders)} if folders else {}


def load(environment: Mapping[str, str], slot: Slot) -> str:
    """Load the library from the first folder that has one for this machine.

    Returns why none could be loaded, "" when one was, or when no folder was named. The call is
    noted in `slot`, because a folder of the node can hang.
    """
    folders = [folder for folder in environment.get(_VARIABLE, "").split(",") if folder]
    wrong: list[str] = []
    slot.begin(_NO_GPU, "dlopen")
    try:
        for folder in folders:
            path = Path(folder) / SONAME
            if path.exists():
                try:
                    ctypes.CDLL(str(path))
                except OSError as error:
                    # Of another architecture, for example.
                    wrong.append(str(error))
                else:
                    return ""
    finally:
        slot.end()
    if not folders:
        return ""
    return "; ".join(wrong) or f"{SONAME} is in none of {', '.join(folders)}"
