"""Which pod each process on a GPU is of."""

from collections.abc import Mapping

import msgspec

from exporter.kernel.cgroups import Cgroups, Placement
from exporter.readings import GpuReading, NvmlReading, ProcessReading


def with_pods(reading: NvmlReading, cgroups: Cgroups) -> NvmlReading:
    """Return a reading whose processes name their pods, as far as /proc tells.

    Where the driver does not tell us of the node's processes, none are known.
    """
    if cgroups.apart:
        gpus = tuple(msgspec.structs.replace(gpu, processes=None) for gpu in reading.gpus)
        return msgspec.structs.replace(reading, gpus=gpus)
    pids = {one.pid for gpu in reading.gpus for one in gpu.processes or ()}
    if not pids:
        return reading
    places = cgroups.placements(pids)
    gpus = tuple(_placed(gpu, places) for gpu in reading.gpus)
    return msgspec.structs.replace(reading, gpus=gpus)


def _placed(gpu: GpuReading, places: Mapping[int, Placement]) -> GpuReading:
    if not gpu.processes:
        return gpu
    return msgspec.structs.replace(
        gpu, processes=tuple(_of_pod(one, places.get(one.pid)) for one in gpu.processes)
    )


def _of_pod(process: ProcessReading, place: Placement | None) -> ProcessReading:
    if place is None:
        return process
    return msgspec.structs.replace(process, pod_uid=place.pod_uid, container_id=place.container_id)
