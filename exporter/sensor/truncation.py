"""What is left out of an observation that is too large to be sent to the agent.

What costs most and matters least goes first, until the rest fits; the source that
it is of says so. Health comes last: values of a GPU before the GPU itself. Pure.
"""

from collections.abc import Callable, Iterator

import msgspec

from exporter.model.node_health import SourceHealth
from exporter.model.readings import Observation

REASON = "TooLarge"


def cuts(seen: Observation) -> Iterator[Observation]:
    """Give the observation with less and less in it."""
    for source, left_out, cut in _CUTS:
        seen = _marked(cut(seen), source, left_out)
        yield seen


def _each_gpu(seen: Observation, **fields: object) -> Observation:
    if seen.nvml is None:
        return seen
    gpus = tuple(msgspec.structs.replace(gpu, **fields) for gpu in seen.nvml.gpus)
    return msgspec.structs.replace(seen, nvml=msgspec.structs.replace(seen.nvml, gpus=gpus))


def _without_node_parts(seen: Observation) -> Observation:
    if seen.dcgm is None:
        return seen
    return msgspec.structs.replace(seen, dcgm=msgspec.structs.replace(seen.dcgm, node_parts=()))


_CUTS: tuple[tuple[str, str, Callable[[Observation], Observation]], ...] = (
    ("nvml", "the processes on each GPU", lambda seen: _each_gpu(seen, processes=None)),
    ("dcgm", "DCGM's values of NVSwitches, CPUs and their parts", _without_node_parts),
    ("dcgm", "DCGM's values", lambda seen: msgspec.structs.replace(seen, dcgm=None)),
    (
        "podresources",
        "which pod uses which device",
        lambda seen: msgspec.structs.replace(seen, containers=None),
    ),
    (
        "nvml",
        "values of GPUs and links",
        lambda seen: _each_gpu(seen, values={}, links=(), peers=()),
    ),
    ("nvml", "NVML's values", lambda seen: msgspec.structs.replace(seen, nvml=None)),
)


def _marked(seen: Observation, source: str, left_out: str) -> Observation:
    message = f"{left_out} would make the message to the agent too large, and is left out"
    anything_left = {"nvml": seen.nvml, "dcgm": seen.dcgm}.get(source) is not None

    def mark(of: SourceHealth) -> SourceHealth:
        if of.name != source:
            return of
        state = "Up" if anything_left else "Down"
        return msgspec.structs.replace(of, state=state, reason=REASON, message=message)

    return msgspec.structs.replace(seen, sources=tuple(map(mark, seen.sources)))
