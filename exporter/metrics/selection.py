"""Which GPUs and MIG slices the page shows: dcgm-exporter's `--devices`. Pure.

`f` is everything: GPUs, and the slices of those in MIG mode. A GPU's id is its NVML index; a
slice's counts from 0 over all slices of the node, by GPU and GPU instance.
"""

import msgspec

from exporter.model.device_option import ALL, Selection
from exporter.model.readings import GpuReading, NvmlReading


def selected(reading: NvmlReading, selection: Selection) -> NvmlReading:
    """Return the reading with what is chosen.

    A GPU whose slices alone are chosen keeps its place without values of its own.
    """
    if selection == ALL:
        return reading
    gpus: list[GpuReading] = []
    number = 0
    for gpu in reading.gpus:
        parts = gpu.instances or ()
        own = [
            part
            for place, part in enumerate(parts, start=number)
            if selection.parts is None or place in selection.parts
        ]
        number += len(parts)
        whole = selection.has(gpu.index)
        if whole or own:
            kept = gpu if whole else _without_values(gpu)
            gpus.append(msgspec.structs.replace(kept, instances=tuple(own) or None))
    return msgspec.structs.replace(reading, gpus=tuple(gpus))


def _without_values(gpu: GpuReading) -> GpuReading:
    return GpuReading(
        index=gpu.index,
        uuid=gpu.uuid,
        bus_id=gpu.bus_id,
        minor=gpu.minor,
        product=gpu.product,
        mig=gpu.mig,
        lost=gpu.lost,
        hung_call=gpu.hung_call,
        released=gpu.released,
    )
