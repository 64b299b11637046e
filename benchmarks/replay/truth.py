"""What really happened: labelled episodes, and the happenings that a node shows of them.

Times are seconds since the history began. A device is (GPU index, slice index),
with slice -1 for a GPU that is offered whole. Pure.
"""

from typing import Literal

import msgspec

Device = tuple[int, int]
Repair = Literal["reset", "reboot", "board", "by hand"]
Answers = Literal["truly", "always 0", "never"]
"""What a driver that has the recovery action (field 230) answers for it; `never`: reading fails."""
WHOLE = -1
GPUS = 8
SLICES = 7

TruthClass = Literal[
    "app noise",
    "information",
    "sympathetic",
    "mig-contained",
    "gpu-reset",
    "gpu-reboot",
    "no-XID loss",
    "silent corruption",
    "link at peer",
    "of no use",
]


class Episode(msgspec.Struct, kw_only=True):
    """One cause on one GPU, and what a perfect policy would taint for it."""

    truth: TruthClass
    label: str
    """In words, for a reader of misses: `119 GSP timeouts`."""
    node: int
    gpu: int
    begin: float
    """The first sign that could be seen."""
    until: float = float("inf")
    """Repaired, or over."""
    must: frozenset[Device] = frozenset()
    """Devices that have to be tainted."""
    may: frozenset[Device] = frozenset()
    """Devices on which NVIDIA's sources disagree: a taint is neither right nor wrong."""
    signalled: bool = True
    resets: bool = False
    """The whole GPU needs a reset or more."""
    needs: Repair | None = None
    """What the hardware needs to be repaired, whatever was done."""


HappeningKind = Literal[
    "xid",
    "sxid",
    "link-down",
    "asks",
    "gone",
    "reset",
    "down",
    "booted",
    "remap",
    "nvml-down",
    "nvml-up",
    "state",
    "numbered",
]

State = Literal[
    "",
    "fabric waits",
    "fabric not started",
    "fabric failed",
    "nouveau",
    "no driver",
    "not published",
    "off the bus",
    "cut otherwise",
]
"""What makes a GPU of no use though nothing fails; "" is none."""


class Happening(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that a node shows at a moment.

    `xid`: a kernel-log line, and the NVML event of it if the driver sends one.
    `sxid`: a line about the node's NVSwitch.
    `link-down`: NVML reports that a link of the GPU is down. `asks`: the driver sets the recovery
    action. `gone`: NVML reports it lost, or no longer lists it. `down`, `booted`: the node.
    `state`: the GPU is of no use from now on, or again of use. `numbered`: the driver enumerates
    the GPUs anew; before the `booted` or `nvml-up` of which it is a part.
    """

    at: float
    kind: HappeningKind
    gpu: int = -1
    code: int = 0
    gi: int | None = None
    """What the NVML event names."""
    gi_printed: bool = False
    """The log line has `GPU-I` too (not with open kernel modules)."""
    reset: bool | None = None
    drain_reset: bool | None = None
    caused_by: int | None = None
    message: str = ""
    action: int = 0
    """Of `asks`, and of an XID 154."""
    listed: bool = True
    """Of `gone`: NVML still lists the GPU and reports that it is lost."""
    failure: bool = False
    """Of `remap`: rows cannot be remapped; else a remap is pending, until the next epoch."""
    boards: tuple[int, ...] = ()
    """Of `booted`: GPUs that are other boards now."""
    state: State = ""
    order: tuple[int, ...] = ()
    """Of `numbered`: GPUs by their new number; those that are not in it are absent."""


class NodeHistory(msgspec.Struct, frozen=True, kw_only=True):
    node: int
    mig: bool
    has_action: bool
    """The driver is R565 or newer."""
    answers: Answers = "truly"
    unsent: frozenset[int] = frozenset()
    """XIDs of which the driver sends no NVML event, to any policy."""
    boot: float = 300.0
    """Seconds that a reboot takes."""
    product: str
    driver: str
    happenings: tuple[Happening, ...]
    episodes: tuple[Episode, ...]

    @property
    def reads_action(self) -> bool:
        """Whether a policy that reads the recovery action gets a value."""
        return self.has_action and self.answers != "never"

    @property
    def action_supported(self) -> bool | None:
        """What a sensor makes of the recovery action: unknown where reading it fails."""
        return self.reads_action or (None if self.has_action else False)

    def devices(self, gpu: int) -> frozenset[Device]:
        return devices(gpu, mig=self.mig)


def devices(gpu: int, *, mig: bool) -> frozenset[Device]:
    """Return what a node offers of one GPU."""
    return frozenset((gpu, part) for part in (range(SLICES) if mig else (WHOLE,)))
