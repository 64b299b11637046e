"""The real NVML child on a simulated node, queried over its own socket."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from exporter import protocol
from exporter.model.readings import GpuReading, NvmlReading
from exporter.model.signals import Signal
from exporter.sensor.supervisor import call_notes
from simulator.node import SimulatedNode
from tests.exporter.running import PATIENCE, ROOT, wait_for


class NvmlChild:
    """One `python -m exporter.sensor.nvml.child`; ends with the block."""

    def __init__(self, node: SimulatedNode) -> None:
        self.signals: list[Signal] = []
        self.failed: protocol.Failed | None = None
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE)
        self._notes_fd, self._notes = call_notes.create()
        descriptors = (theirs.fileno(), self._notes_fd)
        with theirs:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "exporter.sensor.nvml.child",
                    *map(str, (*descriptors, os.getpid())),
                ],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=ROOT,
                env={**os.environ, **node.environment()},
            )
        self._channel = protocol.Channel(ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._channel.close()
        self._notes.close()
        os.close(self._notes_fd)

    def sample(
        self, desired: Iterable[int] = (), *, skip: tuple[int, ...] = (), processes: bool = True
    ) -> NvmlReading:
        """Return one pass; events that come meanwhile are kept in `signals`."""
        self.ask(desired, skip=skip, processes=processes)
        while True:
            received = self._hear()
            if isinstance(received, protocol.Sampled):
                return received.reading

    def ask(
        self, desired: Iterable[int] = (), *, skip: tuple[int, ...] = (), processes: bool = True
    ) -> None:
        """Ask for a pass and do not wait for it."""
        self._channel.send(protocol.SampleRequest(skip, tuple(desired), processes))

    def await_call(self, gpu: int) -> None:
        """Wait until a pass has come to a GPU."""

        def called() -> bool:
            note = call_notes.read(self._notes, call_notes.SAMPLING)
            return note is not None and note.gpu == gpu

        wait_for(called, what=f"a call on GPU {gpu}")

    def gpu(self, index: int, desired: Iterable[int] = ()) -> GpuReading:
        """Return one GPU of a new pass."""
        return next(gpu for gpu in self.sample(desired).gpus if gpu.index == index)

    def wait_signal(self, kind: str) -> Signal:
        """Return the next event of a kind."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = [signal for signal in self.signals if signal.kind == kind]
            if found:
                self.signals.remove(found[0])
                return found[0]
            self._hear()
        raise AssertionError(f"no {kind}: {self.signals}")

    def wait_failure(self) -> protocol.Failed:
        """Return what the child says before it ends by itself."""
        while self.failed is None:
            self._hear()
        assert self.process.wait(PATIENCE) == 0
        return self.failed

    def _hear(self) -> protocol.FromChild:
        received = self._channel.receive(protocol.from_child)
        if isinstance(received, protocol.Happened):
            self.signals.append(received.signal)
        elif isinstance(received, protocol.Failed):
            self.failed = received
        return received
