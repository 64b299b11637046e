"""The processes on a GPU: who they are, their memory, and their share of the SMs."""

from typing import Any

from exporter.model.device import NO_INSTANCE_ID
from exporter.model.readings import ProcessReading
from exporter.sensor.nvml.fields import Fields
from exporter.sensor.nvml.units import Unit

_LISTS = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
)
_BYTES = Unit("bytes", highest=1 << 50)
_PERCENT = Unit("%", highest=100)
_PID = Unit("process id", lowest=1, highest=0xFFFF_FFFF)
_MOST = 4096
"""Processes of one GPU; the frame to the sensor has a limit."""
Key = tuple[int, int | None, int | None]


class ProcessShares:
    """Reads process lists and, between two passes, how long each process ran."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        """Time stamp of the newest sample seen (microseconds, NVML's clock), by GPU."""

    def read(self, gpu: str, fields: Fields, *, mig: bool) -> tuple[ProcessReading, ...] | None:
        """Return the processes of a GPU, None when they are not all known."""
        lists = [fields.get(name) for name in _LISTS]
        answered = [listed is not None for listed in lists]
        failed = not all(
            fields.lacks(name) for name, known in zip(_LISTS, answered, strict=True) if not known
        )
        if failed or not any(answered):
            return None
        entries = [entry for listed in lists for entry in listed or ()]
        if any(_PID.take(entry.pid) is None for entry in entries):
            # Pid 0 is a process that the asker's pid namespace has no number for.
            return None
        # A process with a compute and a graphics context is in both lists.
        merged: dict[Key, int | None] = {}
        for entry in entries:
            gi, ci = _instance(entry.gpuInstanceId), _instance(entry.computeInstanceId)
            key, memory = (int(entry.pid), gi, ci), _BYTES.take(entry.usedGpuMemory)
            reported = [merged.get(key), None if memory is None else int(memory)]
            merged[key] = max((size for size in reported if size is not None), default=None)
        ordered = sorted(merged.items(), key=lambda item: [-1 if n is None else n for n in item[0]])
        shares = None if mig else self._shares(gpu, fields)
        return tuple(
            ProcessReading(
                pid=pid,
                gi=gi,
                ci=ci,
                memory=memory,
                sm_util=None if shares is None else shares.get(pid, 0),
            )
            for (pid, gi, ci), memory in ordered[:_MOST]
        )

    def keep(self, keys: set[str]) -> None:
        """Forget the GPUs that are not there any more."""
        self._since = {key: since for key, since in self._since.items() if key in keys}

    def _shares(self, gpu: str, fields: Fields) -> dict[int, int | None] | None:
        """Return the SM percent of each process that ran since the pass before, None at first.

        A share that makes no sense is None: the process ran, so it is not 0.
        """
        since = self._since.get(gpu)
        samples = fields.get("nvmlDeviceGetProcessUtilization", since or 0)
        if samples is None:
            return None
        stamps = [int(sample.timeStamp) for sample in samples]
        self._since[gpu] = max([since or 0, *(s for s in stamps if s < 1 << 62)])
        if since is None:
            return None
        newest = sorted(samples, key=lambda sample: int(sample.timeStamp))
        shares = {int(s.pid): _PERCENT.take(s.smUtil) for s in newest if s.timeStamp > since}
        return {pid: None if share is None else int(share) for pid, share in shares.items()}


def _instance(number: Any) -> int | None:
    return None if number in (None, NO_INSTANCE_ID) else int(number)
