"""Whether the driver can have been loaded just now, by how long NVML has it open.

A file under /dev/nvidia* that is open keeps the kernel module (`.owner = THIS_MODULE` in NVIDIA's
open kernel module, nv.c), and NVML has such files open from its start to its end. So a driver that
NVML keeps using was not loaded meanwhile, whatever a record says: another part of the kernel may
have printed a record that begins with a user's text. Pure: monotonic time comes in.
"""

SETTLED = 60.0
"""Seconds for which NVML must have answered: a load is reported late where the log is read in
turns, or where journald is slow."""


class DriverUse:
    """Since when NVML has answered without a gap."""

    def __init__(self) -> None:
        self._since: float | None = None

    def note(self, now: float, *, answers: bool) -> None:
        if not answers:
            self._since = None
        elif self._since is None:
            self._since = now

    def rules_out_load(self, now: float) -> bool:
        """Say whether a load that is logged now cannot be one."""
        return self._since is not None and now - self._since >= SETTLED
