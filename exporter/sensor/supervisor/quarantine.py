"""GPUs that made NVML hang, or took too long, are left out of sampling for a while.

Longer each time. Otherwise each new child would hang on the same GPU and none would be seen.
Pure: monotonic seconds come in.
"""

import msgspec

from exporter.model.readings import CallNote, GpuReading, Hang, NvmlReading

LONGEST = 600.0
"""Seconds."""
HUNG, TOO_LONG = "hung", "took too long"
"""Why a GPU is left out, for a sentence."""


class _Entry(msgspec.Struct, frozen=True):
    call: str
    how: str
    until: float
    seconds: float
    """How long this turn is; the next one is twice that."""


class Quarantine:
    def __init__(self, first: float) -> None:
        self._first = first
        self._again = 0.0
        """For how long one was left out whose number was forgotten: its turns go on from there."""
        self._entries: dict[int, _Entry] = {}
        self._last: dict[int, GpuReading] = {}
        """Who a GPU is, by NVML index, from when it was last read."""
        self._listed: int | None = None
        """How many NVML listed then."""

    def put(self, note: CallNote, now: float, *, how: str = HUNG) -> str:
        """Leave out the GPU of a call; returns its UUID, "" when not known."""
        if note.gpu is None:
            return ""
        before = self._entries.get(note.gpu)
        seconds = min(2 * before.seconds, LONGEST) if before else max(self._first, self._again)
        self._entries[note.gpu] = _Entry(note.call, how, now + seconds, seconds)
        known = self._last.get(note.gpu)
        return known.uuid if known else ""

    def left_out(self, now: float) -> frozenset[int]:
        return frozenset(gpu for gpu, entry in self._entries.items() if now < entry.until)

    def complete(self, reading: NvmlReading, skipped: frozenset[int]) -> NvmlReading:
        """Add the GPUs that were skipped to a reading; forget the hangs of those that answered.

        Where GPUs went or came, an index is another GPU: it is not known which was skipped, and
        the next reading skips none for what another did.
        """
        if self._renumbered(reading):
            turns = (entry.seconds for entry in self._entries.values())
            self._again = max(turns, default=self._again)
            self._entries.clear()
            self._last.clear()
        elif not skipped:
            self._again = 0.0
        self._listed = reading.listed
        for gpu in reading.gpus:
            self._last[gpu.index] = gpu
            if not gpu.hung_call:
                self._entries.pop(gpu.index, None)
        # After a GPU went or came, one that was skipped may have been read at another index.
        read = {gpu.uuid for gpu in reading.gpus}
        skipped_now = [self._unread(index) for index in sorted(skipped) if index in self._last]
        absent = [gpu for gpu in skipped_now if gpu.uuid not in read]
        # They were read under the number that is left out, and no number has changed since.
        unidentified = max(0, reading.unidentified - len(absent))
        gpus = (*reading.gpus, *absent)
        return msgspec.structs.replace(reading, gpus=gpus, unidentified=unidentified)

    def named(self, names: frozenset[str]) -> frozenset[int]:
        """Return the GPUs, as last read, whose UUID or bus id is among `names`."""
        return frozenset(
            index for index, gpu in self._last.items() if names & {gpu.uuid, gpu.bus_id}
        )

    def sentence(self) -> str:
        """Say which GPUs are left out, "" when none is."""
        return "; ".join(
            f"GPU {index} {entry.how} in {entry.call} and is left out for {entry.seconds:.0f} s"
            for index, entry in sorted(self._entries.items())
        )

    def nameless(self) -> Hang | None:
        """Return a GPU that is left out and never said its UUID, as it has no reading."""
        for index, entry in sorted(self._entries.items()):
            if index not in self._last:
                return Hang(entry.call, index)
        return None

    def _renumbered(self, reading: NvmlReading) -> bool:
        known = self._last
        return self._listed not in (None, reading.listed) or any(
            gpu.index in known and known[gpu.index].uuid != gpu.uuid for gpu in reading.gpus
        )

    def _unread(self, index: int) -> GpuReading:
        known, entry = self._last[index], self._entries.get(index)
        return GpuReading(
            index=index,
            uuid=known.uuid,
            bus_id=known.bus_id,
            serial=known.serial,
            minor=known.minor,
            product=known.product,
            hung_call=entry.call if entry else "",
            released=entry is None,
        )
