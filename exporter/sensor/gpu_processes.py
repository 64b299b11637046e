"""Which pod each process on a GPU is of."""

import msgspec

from exporter.model.node_health import SourceHealth
from exporter.model.readings import GpuReading, NvmlReading
from exporter.sensor.kernel_log import pid_namespace
from exporter.sensor.kernel_log.cgroups import Cgroups
from exporter.settings import Settings

SOURCE = "processes"
HOST_PID_OFF = "HostPIDOff"
"""Reason: nobody looks at the node's processes, so who uses how much of a GPU is not known."""


def source(settings: Settings) -> SourceHealth:
    """Say whether the node's processes can be told apart by their pods from here."""
    hidden = pid_namespace.certainly_apart(settings.proc_dir) if settings.processes else ""
    if settings.processes and not hidden:
        return SourceHealth(name=SOURCE, state="Up")
    why = hidden or "--processes is off"
    return SourceHealth(
        name=SOURCE,
        state="Down",
        reason=HOST_PID_OFF,
        message=f"{why}, so there are no draguard_pod_* series: the share of each pod of a GPU is "
        "unknown. The chart's exporter.podShares turns it on, but not on a node that itself is a "
        "container; docs/security.md says what it costs",
    )


def with_pods(reading: NvmlReading, cgroups: Cgroups) -> NvmlReading:
    """Return a reading whose processes name their pods, as far as /proc tells.

    Where the driver does not tell us of the node's processes, none are known.
    """
    if cgroups.apart:
        gpus = tuple(msgspec.structs.replace(gpu, processes=None) for gpu in reading.gpus)
        return msgspec.structs.replace(reading, gpus=gpus)
    pids = {process.pid for gpu in reading.gpus for process in gpu.processes or ()}
    if not pids:
        return reading
    places = cgroups.placements(pids)
    placed: list[GpuReading] = []
    for gpu in reading.gpus:
        found = tuple(
            process
            if (place := places.get(process.pid)) is None
            else msgspec.structs.replace(
                process, pod_uid=place.pod_uid, container_id=place.container_id
            )
            for process in gpu.processes or ()
        )
        placed.append(msgspec.structs.replace(gpu, processes=found) if found else gpu)
    return msgspec.structs.replace(reading, gpus=tuple(placed))
