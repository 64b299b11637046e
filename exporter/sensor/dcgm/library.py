"""The one door to libdcgm: each call is noted in shared memory, each failure is a DcgmError.

Runs in the DCGM child only. A handle to one engine is kept, embedded in this
process or reached over a socket. `listing` and `groups` make plain values of
what is answered.
"""

import ctypes
from collections.abc import Callable
from typing import Any

from exporter.sensor.dcgm import abi
from exporter.sensor.dcgm.error import CONNECT, DcgmError
from exporter.sensor.dcgm.values import text_of
from exporter.sensor.supervisor.call_notes import Slot

_NO_GPU = -1


class Library:
    """One loaded libdcgm, and after `start_embedded` or `connect` one engine."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._functions: dict[str, Callable[..., int]] = {}
        self._handle = ctypes.c_size_t()
        self._loaded: ctypes.CDLL | None = None

    def load(self) -> None:
        """Load and initialise the library; LD_LIBRARY_PATH is honoured by the loader."""
        self._slot.begin(_NO_GPU, "dlopen")
        try:
            self._loaded = ctypes.CDLL(abi.SONAME)
        except OSError as error:
            code = abi.Status.LIBRARY_NOT_FOUND
            raise DcgmError("dlopen", code, f"{abi.SONAME} cannot be loaded: {error}") from error
        finally:
            self._slot.end()
        self._call("dcgmInit")

    def start_embedded(self) -> None:
        """Run an engine in this process that reads the driver in `Groups.update_all` only."""
        self._call("dcgmStartEmbedded", abi.MODE_MANUAL, ctypes.byref(self._handle))

    def connect(self, address: str, *, unix: bool, timeout_ms: int) -> None:
        """Connect to an nv-hostengine, which forgets our watches when the connection ends."""
        params = abi.ConnectParams(abi.CONNECT_PARAMS_VERSION, 0, timeout_ms, int(unix))
        handle = ctypes.byref(self._handle)
        self._call(CONNECT, address.encode(), ctypes.byref(params), handle)

    def version(self) -> str:
        """Return the engine's version, such as `4.6.0`; "" when it does not say."""
        info = abi.VersionInfo(abi.VERSION_INFO_VERSION)
        self.ask("dcgmHostengineVersionInfo", ctypes.byref(info))
        words = [part.partition(":") for part in text_of(info.build).split(";")]
        return next((value for name, _, value in words if name == "version"), "")

    def ask(self, name: str, *arguments: Any) -> None:
        """Make a call about the engine; raises DcgmError."""
        self._call(name, self._handle, *arguments)

    def look_up(self, name: str, code: int) -> int | None:
        """Ask a table of the library, which no engine and no GPU can delay."""
        try:
            return (self._functions.get(name) or self._find(name))(code)
        except DcgmError:
            return None

    def _call(self, name: str, *arguments: Any) -> None:
        function = self._functions.get(name) or self._find(name)
        self._slot.begin(_NO_GPU, name)
        try:
            code = function(*arguments)
        finally:
            self._slot.end()
        if code != abi.Status.OK:
            raise DcgmError(name, code)

    def _find(self, name: str) -> Callable[..., int]:
        try:
            found = getattr(self._loaded, name)
        except AttributeError as error:
            code = abi.Status.FUNCTION_NOT_FOUND
            raise DcgmError(name, code, f"this {abi.SONAME} has no such call") from error
        found.argtypes = abi.SIGNATURES[name]
        self._functions[name] = found
        return found
