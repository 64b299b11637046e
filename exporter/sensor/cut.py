"""What is left out of an observation that is too large to be told to the agent.

What costs most and matters least goes first, until the rest fits; the source that
it is of says so. Health comes last: values of a GPU before the GPU itself. Pure.
"""

from collections.abc import Callable, Iterator

import msgspec

from exporter.model.node_health import SourceHealth
from exporter.model.readings import GpuReading, Observation

REASON = "TooLarge"


def cuts(seen: Observation) -> Iterator[Observation]:
    """Give the observation with less and less in it."""
    for source, left_out, cut in _CUTS:
        seen = _marked(cut(seen), source, left_out)
        yield seen


def _each_gpu(seen: Observation, cut: Callable[[GpuReading], GpuReading]) -> Observation:
    if seen.nvml is None:
        return seen
    nvml = msgspec.structs.replace(seen.nvml, gpus=tuple(map(cut, seen.nvml.gpus)))
    return msgspec.structs.replace(seen, nvml=nvml)


def _without_processes(seen: Observation) -> Observation:
    return _each_gpu(seen, lambda gpu: msgspec.structs.replace(gpu, processes=None))


def _without_node_parts(seen: Observation) -> Observation:
    if seen.dcgm is None:
        return seen
    return msgspec.structs.replace(seen, dcgm=msgspec.structs.replace(seen.dcgm, node_parts=()))


def _without_dcgm(seen: Observation) -> Observation:
    return msgspec.structs.replace(seen, dcgm=None)


def _without_values(seen: Observation) -> Observation:
    def cut(gpu: GpuReading) -> GpuReading:
        return msgspec.structs.replace(gpu, values={}, links=(), peers=())

    return _each_gpu(seen, cut)


def _without_containers(seen: Observation) -> Observation:
    return msgspec.structs.replace(seen, containers=None)


def _without_gpus(seen: Observation) -> Observation:
    return msgspec.structs.replace(seen, nvml=None)


_CUTS: tuple[tuple[str, str, Callable[[Observation], Observation]], ...] = (
    ("nvml", "the processes on each GPU", _without_processes),
    ("dcgm", "what DCGM tells of NVSwitches, CPUs and their parts", _without_node_parts),
    ("dcgm", "what DCGM tells", _without_dcgm),
    ("podresources", "who holds what", _without_containers),
    ("nvml", "values of GPUs and links", _without_values),
    ("nvml", "what NVML tells", _without_gpus),
)


def _marked(seen: Observation, source: str, left_out: str) -> Observation:
    message = f"{left_out} would make the message to the agent too large, and is left out"

    def mark(one: SourceHealth) -> SourceHealth:
        if one.name != source:
            return one
        state = "Up" if _tells(seen, source) else "Down"
        return msgspec.structs.replace(one, state=state, reason=REASON, message=message)

    return msgspec.structs.replace(seen, sources=tuple(map(mark, seen.sources)))


def _tells(seen: Observation, source: str) -> bool:
    """Say whether anything of a source is left."""
    left = {"nvml": seen.nvml, "dcgm": seen.dcgm}
    return left.get(source) is not None
