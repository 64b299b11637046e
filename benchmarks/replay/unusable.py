"""GPUs of no use though nothing fails, and errors that no table knows, as scripts. Pure.

Each is a class of docs/alerts.md, "Unusable GPUs without a fault". Only a failed registration with
the fabric demands a taint.
"""

from collections.abc import Callable

from benchmarks.replay.drawing import NodeDrawing
from benchmarks.replay.rates import Kind
from benchmarks.replay.truth import GPUS, State

UNKNOWN_XID = 999
"""A code that is in no table of Draguard's and not in NVIDIA's catalogue."""
REPORTED = 3600.0
"""Seconds for which an alert reports an XID that no table knows."""

Script = Callable[[NodeDrawing, int, float], None]
"""Takes the node, the GPU's index and when it begins."""


def _service_down(node: NodeDrawing, _gpu: int, at: float) -> None:
    """The Fabric Manager stops, or never finishes: no GPU of the node joins its fabric."""
    state = _either(node, "fabric waits", "fabric not started")
    for gpu in range(GPUS):
        if gpu not in node.broken:
            node.of_no_use(state, gpu, at)


def _unknown_xid(node: NodeDrawing, gpu: int, at: float) -> None:
    node.tell("of no use", "unknown XID", gpu, at, until=at + REPORTED)
    node.line(at, gpu, UNKNOWN_XID, gi=node.any_gi())


def _cut_otherwise(node: NodeDrawing, gpu: int, at: float) -> None:
    if node.mig:
        node.of_no_use("cut otherwise", gpu, at)


def _either(node: NodeDrawing, first: State, second: State) -> State:
    # assumption: no share is published
    return first if node.random.random() < 0.5 else second


SCRIPTS: dict[Kind, Script] = {
    "fabric-waits": _service_down,
    # NVML reports that the registration ended with an error: a fault of the class `fabric`.
    "fabric-fails": lambda node, gpu, at: node.of_no_use(
        "fabric failed", gpu, at, node.all_of(gpu)
    ),
    "other-driver": lambda node, gpu, at: node.of_no_use(
        _either(node, "nouveau", "no driver"), gpu, at
    ),
    "not-published": lambda node, gpu, at: node.of_no_use("not published", gpu, at),
    "off-bus": lambda node, gpu, at: node.of_no_use("off the bus", gpu, at),
    "unknown-xid": _unknown_xid,
    "cut-otherwise": _cut_otherwise,
}
