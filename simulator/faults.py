"""Makes the GPUs of a simulated node fail, and heals them.

Each act writes what a real driver would let be seen: a kernel-log line, an NVML
event, a changed answer of a call.
"""

import threading
from functools import partial
from pathlib import Path

from simulator import build, driver_messages, grammar, system_files
from simulator.gpu import HEALTHY, Failure, Gpu
from simulator.kernel_log import KernelLog
from simulator.scenario_file import ScenarioFile

_RESET_BY_REPAIR = ("remap_pending", "ecc_sbe_volatile", "ecc_dbe_volatile")


class FaultError(Exception):
    """A failure that cannot be simulated; the message says what to ask for."""


class Faults:
    """What can be done to the GPUs of the node in `root`; `gpu` is a section's number."""

    def __init__(self, root: Path) -> None:
        self.scenario = ScenarioFile(root / "scenario.ini", partial(system_files.sync, root))
        self.kernel_log = KernelLog(root / "kmsg")
        self._introduced: set[str] = set()
        self._timers: list[threading.Timer] = []

    def inject_xid(
        self,
        gpu: int,
        code: int,
        *,
        gi: int | None = None,
        ci: int | None = None,
        text: str | None = None,
        pid: int | None = None,
        process: str | None = None,
        kernel: bool = True,
        kernel_instance: bool = False,
        reset: bool | None = None,
        drain_reset: bool | None = None,
        nvml: bool = True,
        nvml_delay: float = 0.0,
    ) -> None:
        """Let an XID be seen: as a kernel-log line, and `nvml_delay` seconds later as an event.

        The open kernel modules print no `GPU-I`; `kernel_instance` prints it as
        the closed ones do. `gi` and `ci` always go into the event.
        """
        board = self.gpu(gpu)
        if kernel:
            printed = (gi, ci) if kernel_instance else (None, None)
            line = driver_messages.xid(
                board.pci,
                code,
                text,
                pid=pid,
                process=process,
                gi=printed[0],
                ci=printed[1],
                reset=reset,
                drain_reset=drain_reset,
            )
            before = [] if text else driver_messages.before_xid(board.pci, code, printed)
            self.kernel_log.write_all([*self._introduction(board), *before, line])
        if nvml and nvml_delay > 0:
            timer = threading.Timer(nvml_delay, self._event, (gpu, "xid", code, gi, ci))
            timer.daemon = True
            timer.start()
            self._timers = [*(later for later in self._timers if later.is_alive()), timer]
        elif nvml:
            self._event(gpu, "xid", code, gi, ci)

    def set_recovery_action(
        self, gpu: int, value: int | None, *, kernel: bool = True, nvml: bool = True
    ) -> None:
        """Change NVML field 230, with the XID 154 line and the event that go with it.

        None makes the field unsupported, as before driver R565.
        """
        with self.scenario.edit() as scenario:
            board = board_of(scenario.gpus, gpu)
            old = board.value("recovery_action")
            board.values["recovery_action"] = value
            if nvml and value is not None and value != old:
                scenario.add_event(gpu, "recovery", value)
        if kernel and value is not None and value != old:
            line = driver_messages.recovery_action(board.pci, old or 0, value)
            self.kernel_log.write_all([*self._introduction(board), line])

    def set_value(self, gpu: int, name: str, value: int | None) -> None:
        """Set one number of `grammar.VALUES`; None is unsupported."""
        if name not in grammar.VALUE_NAMES:
            known = ", ".join(grammar.VALUE_NAMES)
            raise FaultError(f'there is no value "{name}"; use one of: {known}')
        with self.scenario.edit() as scenario:
            board_of(scenario.gpus, gpu).values[name] = value

    def set_failure(self, gpu: int, failure: Failure) -> None:
        """Set how calls on this GPU fail."""
        if failure.call:
            _check_call(failure.call)
        with self.scenario.edit() as scenario:
            board_of(scenario.gpus, gpu).failure = failure

    def set_node_failure(self, failure: Failure) -> None:
        """Set how the library fails for calls about no GPU, such as nvmlInitWithFlags."""
        if failure.call:
            _check_call(failure.call)
        with self.scenario.edit() as scenario:
            scenario.failure = failure

    def lose(self, gpu: int, *, gone: bool = False) -> None:
        """Let every call answer GPU_IS_LOST; with `gone`, NVML also stops listing the GPU.

        The kernel still lists it: removing a device is its own step (`Topology.remove_gpu`).
        """
        self.set_failure(gpu, Failure("gone" if gone else "lost"))

    def hang(self, gpu: int, call: str | None = None) -> None:
        """Let every call on this GPU, or one, block until `heal`."""
        self.set_failure(gpu, Failure("hung", call=call or ""))

    def segfault(self, gpu: int, call: str | None = None) -> None:
        """Let every call on this GPU, or one, kill the process that makes it."""
        self.set_failure(gpu, Failure("segfault", call=call or ""))

    def error(self, gpu: int, code: int, call: str | None = None) -> None:
        """Let every call on this GPU, or one, answer this nvmlReturn_t."""
        self.set_failure(gpu, Failure("error", code, call or ""))

    def garbage(self, gpu: int, call: str | None = None) -> None:
        """Let every call on this GPU, or one, answer nonsense with SUCCESS."""
        self.set_failure(gpu, Failure("garbage", call=call or ""))

    def miscount(self, count: int | None) -> None:
        """Let nvmlDeviceGetCount answer this number, whatever is there; None is the truth."""
        with self.scenario.edit() as scenario:
            scenario.count = count

    def show_uuid(self, gpu: int, uuid: str) -> None:
        """Let NVML report this UUID for the GPU, even that of another GPU; "" restores its own."""
        with self.scenario.edit() as scenario:
            board_of(scenario.gpus, gpu).shown_uuid = uuid

    def set_link(self, gpu: int, link: int, **numbers: int | None) -> None:
        """Set numbers of `quantities.LINK_VALUES` of one NVLink: `set_link(3, 7, state=0)`."""
        with self.scenario.edit() as scenario:
            board = board_of(scenario.gpus, gpu)
            board.links[link] = {**board.links.get(link, {}), **numbers}

    def slow(self, gpu: int, milliseconds: int, call: str | None = None) -> None:
        """Let every call on this GPU, or one, take this long."""
        self.set_failure(gpu, Failure("slow", milliseconds, call or ""))

    def heal(self, gpu: int) -> None:
        """Repair the GPU as a reset does: no failure, recovery action 0, volatile state clean."""
        with self.scenario.edit() as scenario:
            board = board_of(scenario.gpus, gpu)
            board.failure = HEALTHY
            for name in _RESET_BY_REPAIR:
                board.values.pop(name, None)
        if board.value("recovery_action") is not None:
            self.set_recovery_action(gpu, 0)

    def swap(self, gpu: int, uuid: str, serial: str = "1650999999999") -> None:
        """Put another board into the slot: same minor and bus, another UUID, healthy."""
        with self.scenario.edit() as scenario:
            board = board_of(scenario.gpus, gpu)
            board.uuid, board.serial, board.failure = uuid, serial, HEALTHY
            board.values["recovery_action"] = 0

    def gpu(self, gpu: int) -> Gpu:
        """Return the GPU as the scenario has it now."""
        return board_of(self.scenario.load().gpus, gpu)

    def finish(self) -> None:
        """Wait for events that are still to come."""
        for timer in self._timers:
            timer.join()
        self._timers.clear()

    def stop(self) -> None:
        """Drop events that were to come later."""
        for timer in self._timers:
            timer.cancel()
            timer.join()
        self._timers.clear()

    def _event(self, gpu: int, kind: str, data: int, gi: int | None, ci: int | None) -> None:
        with self.scenario.edit() as scenario:
            scenario.add_event(gpu, kind, data, gi=gi, ci=ci)

    def _introduction(self, board: Gpu) -> list[str]:
        """The lines that the driver writes before a GPU's first XID of a boot."""
        lines = driver_messages.identity(board.pci, board.uuid, board.serial)
        known = board.uuid in self._introduced or lines[0] in self.kernel_log.text()
        self._introduced.add(board.uuid)
        return [] if known else lines


def board_of(gpus: list[Gpu], number: int) -> Gpu:
    """Return a GPU by its section's number; raises FaultError."""
    if not 0 <= number < len(gpus):
        raise FaultError(f"there is no GPU {number}; use a number from 0 to {len(gpus) - 1}")
    return gpus[number]


def _check_call(call: str) -> None:
    known = build.simulated_calls()
    if call not in known and not any(name.startswith(f"{call}_v") for name in known):
        raise FaultError(f"{call} is not simulated; use one of: {', '.join(sorted(known))}")
