"""A process that runs the real pynvml over a simulated node's library, line by line."""

import select

from simulator.node import SimulatedNode
from tests.simulator.line_client import LineClient

_PROGRAM = r"""
import ctypes, json, sys
from ctypes import *
import pynvml as p
names = {"p": p, **vars(p), **vars(ctypes)}

def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (p.nvmlFriendlyObject,)):
        return {k: plain(v) for k, v in vars(value).items()}
    if isinstance(value, ctypes.Structure):
        return {f[0]: plain(getattr(value, f[0])) for f in value._fields_}
    if isinstance(value, ctypes.Array) or isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, ctypes._SimpleCData):
        return value.value
    if isinstance(value, (ctypes._Pointer, ctypes.Union)):
        return str(type(value).__name__)
    return value

def run(line):
    try:
        code = compile(line, "line", "eval")
    except SyntaxError:
        exec(compile(line, "line", "exec"), names)
        return None
    return plain(eval(code, names))

for line in sys.stdin:
    try:
        answer = {"value": run(line.strip())}
    except p.NVMLError as error:
        answer = {"nvml": error.value}
    except Exception as error:
        answer = {"bug": repr(error)}
    print(json.dumps(answer), flush=True)
"""


class NvmlClient(LineClient):
    """Asks expressions in pynvml's own names."""

    refused = "nvml"

    def __init__(self, node: SimulatedNode) -> None:
        super().__init__(_PROGRAM, node.environment())

    def complaint(self, seconds: float = 60.0) -> str:
        """Return the next line that the library wrote to stderr."""
        assert self._process.stderr is not None
        assert select.select([self._process.stderr], [], [], seconds)[0], "no complaint in time"
        return self._process.stderr.readline().decode(errors="ignore")

    def complains(self) -> bool:
        """Whether there is something on stderr to be read."""
        assert self._process.stderr is not None
        return bool(select.select([self._process.stderr], [], [], 0)[0])

    def stderr_after_end(self) -> str:
        """End the process in peace and return what it wrote to stderr."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.stdin = None
        return self._process.communicate(timeout=60)[1].decode()
