"""A simulated node as data: its GPUs, their slices, processes, failures, and events.

`simulator.scenario` reads and writes it as text. Mutable, because a scenario is
there to be edited. Pure.
"""

import msgspec

from simulator import facts, grammar
from simulator.product import MigProfile, Product


class Failure(msgspec.Struct, frozen=True):
    """How a GPU, or with the node the library, misbehaves.

    `lost`: every call answers GPU_IS_LOST. `gone`: it is not listed any more
    and old handles answer GPU_IS_LOST. `unbound`: as `gone`, and no driver
    holds it. `removed`: as `gone`, and the kernel lists it no more either.
    `hung`: the call blocks until the scenario says otherwise. `segfault`: the
    process dies. `error`: answers `number` (nvmlReturn_t). `slow`: sleeps
    `number` milliseconds first. `garbage`: answers SUCCESS with all bits set,
    NaN, and bytes that are no text.
    """

    kind: str = "none"
    number: int = 0
    call: str = ""
    """NVML call that it is limited to, with or without version suffix; "" is every call."""

    def __str__(self) -> str:
        number = f"={self.number}" if self.kind in grammar.FAILURES_WITH_NUMBER else ""
        return f"{self.kind}{number}" + (f" on {self.call}" if self.call else "")


HEALTHY = Failure()


class Instance(msgspec.Struct, kw_only=True):
    """A MIG slice: one GPU instance with one compute instance that fills it."""

    gi: int
    ci: int = 0
    profile: MigProfile
    start: int
    uuid: str
    values: dict[str, int | None] = {}
    """By name of `quantities.SLICE_VALUES`; absent is the healthy value, None is unsupported."""


class Process(msgspec.Struct, kw_only=True):
    """A process that runs on the GPU, `gi` and `ci` None when it is not in a slice."""

    pid: int
    memory_mib: int = 0
    gi: int | None = None
    ci: int | None = None
    graphics: bool = False
    mps: bool = False
    """A client of the multi-process service."""
    pod: str = ""
    """UID of the pod that it belongs to, "" for none; NVML does not know."""
    container: str = ""
    """Its container's id, 64 hexadecimal digits as container runtimes have them."""
    values: dict[str, int | None] = {}
    """By name of `grammar.PROCESS_VALUES`."""


class Gpu(msgspec.Struct, kw_only=True):
    """One physical GPU."""

    product: Product
    uuid: str
    minor: int
    pci: str
    """`dddd:bb:dd.0`, lower case."""
    serial: str
    shown_uuid: str = ""
    """What NVML reports instead of `uuid`: two boards with one identity."""
    cluster_uuid: str = ""
    """Of its NVLink fabric; "" is all zeros."""
    mig: bool = False
    failure: Failure = HEALTHY
    values: dict[str, int | None] = {}
    """By name of `grammar.VALUES`; absent is the healthy value, None is unsupported."""
    instances: list[Instance] = []
    processes: list[Process] = []
    links: dict[int, dict[str, int | None]] = {}
    """By number of the NVLink, by name of `quantities.LINK_VALUES`."""

    @property
    def pcie_root(self) -> str:
        """The kernel's name of its root complex, the bus before its own: `pci0000:17`."""
        domain, bus, _ = self.pci.lower().split(":")
        return f"pci{domain}:{max(int(bus, 16) - 1, 0):02x}"

    def value(self, name: str) -> int | None:
        return self.values.get(name, _DEFAULTS[name])


_DEFAULTS = {value.name: value.default for value in grammar.VALUES}


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An NVML event; each event set that was created before it delivers it once."""

    number: int
    gpu: int
    """Number of the GPU's section."""
    type: str
    """A name of `grammar.EVENT_TYPES`."""
    data: int = 0
    """XID code, or the recovery action."""
    gi: int | None = None
    ci: int | None = None


class Scenario(msgspec.Struct, kw_only=True):
    """Everything that the simulated library answers from."""

    driver: str = facts.DEFAULT_DRIVER
    nvml: str = facts.DEFAULT_NVML
    cuda: int = facts.DEFAULT_CUDA
    count: int | None = None
    """What nvmlDeviceGetCount returns; None: the real number of GPUs."""
    failure: Failure = HEALTHY
    """Of calls that are about no GPU, such as `error=9 on nvmlInitWithFlags`."""
    gpus: list[Gpu] = []
    events: list[Event] = []

    def add_event(
        self, gpu: int, kind: str, data: int = 0, *, gi: int | None = None, ci: int | None = None
    ) -> None:
        """Append an event under the next number; the oldest go when there are too many."""
        number = self.events[-1].number + 1 if self.events else 1
        event = Event(number=number, gpu=gpu, type=kind, data=data, gi=gi, ci=ci)
        self.events = [*self.events, event][-grammar.MAX_EVENTS :]
