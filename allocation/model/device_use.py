"""What a pod has of a device and does with it, as the exporter of its node sees it. Pure."""

import msgspec


class DeviceUse(msgspec.Struct, frozen=True, order=True):
    """A device that the kubelet has given to a pod."""

    device: str
    memory: int | None = None
    """Bytes of its memory that the pod's processes use; 0: none of them uses it. None: unknown."""
    sm: float | None = None
    """Share of its SM time that they had in the last sample; NVML has none for MIG slices."""

    @property
    def idle(self) -> bool:
        """Whether it is known that the pod does nothing with it."""
        return self.memory == 0 or self.sm == 0

    def __str__(self) -> str:
        memory = "unknown" if self.memory is None else f"{self.memory / (1 << 30):.1f} GiB"
        time = "" if self.sm is None else f", {self.sm:.0%} of its SM time"
        return f"{self.device}: memory in use {memory}{time}"
