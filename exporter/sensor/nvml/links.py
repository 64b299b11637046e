"""The NVLinks of a GPU: which are up, what they counted, how much went over them.

NVML counts the KiB since the driver was loaded; DCGM's bandwidth fields are
rates in MB/s (KiB/s divided by 1000), so a rate needs two passes and the first
has none. On a GPU in MIG mode NVLinks are off and their counters say nothing.
"""

import time
from collections.abc import Collection

from exporter.model.readings import LinkReading, Values
from exporter.sensor.nvml import library as nvml
from exporter.sensor.nvml import link_table as links
from exporter.sensor.nvml import units as unit
from exporter.sensor.nvml.fields import FieldKey, Fields, field_number, keys_of
from exporter.sensor.nvml.link_table import BOTH, SENT
from exporter.sensor.nvml.table import Field

_COUNT = (Field("NVML_FI_DEV_NVLINK_LINK_COUNT", unit.Unit("links", highest=72)),)
Counted = dict[str, int]
"""KiB by way, of one scope."""


def count_links(fields: Fields) -> int | None:
    """Return how many NVLinks a GPU has, which never changes; None when it could not be read."""
    count = fields.whole(_COUNT)
    if count is not None:
        return count
    number = field_number(_COUNT[0].name)
    answer = None if number is None else fields.answer((number, 0))
    none = (*nvml.ABSENT, nvml.INVALID_ARGUMENT)
    return 0 if number is None or (answer is not None and answer.code in none) else None


class Traffic:
    """Turns counters into rates: remembers what each link had counted in the pass before."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, int, str], tuple[float, int]] = {}

    def rate(self, gpu: str, scope: int, way: str, kibibytes: int, now: float) -> int | None:
        """Return MB/s since the pass before, None at first and after a counter began anew."""
        key = (gpu, scope, way)
        before = self._before.get(key)
        self._before[key] = (now, kibibytes)
        if before is None or now <= before[0]:
            return None
        # Below 0 after a counter began anew, and then refused.
        rate = (kibibytes - before[1]) / (now - before[0]) / 1000
        taken = unit.MEGABYTES_PER_SECOND.take(rate)
        return None if taken is None else int(taken)

    def keep(self, keys: set[str]) -> None:
        """Forget the GPUs that are not there any more."""
        self._before = {key: before for key, before in self._before.items() if key[0] in keys}


class Links:
    """Reads the NVLinks of one GPU in one pass."""

    def __init__(
        self, gpu: str, fields: Fields, requested: Collection[int], traffic: Traffic, *, count: int
    ) -> None:
        self._gpu = gpu
        self._fields = fields
        self._requested = requested
        self._traffic = traffic
        self._count = count
        self._now = time.monotonic()
        self.values: Values = {}
        """What is the GPU's: sums, totals, and DCGM's lane fields."""

    def keys(self) -> list[FieldKey]:
        """Return the field values that `read` will look at, to be read with the GPU's own."""
        sources = [
            source
            for link in range(self._count)
            for number, found in links.per_link(link).items()
            if number == links.STATE or number in self._requested
            for source in found
        ]
        if self._count:
            whole = links.counted(links.ALL_LINKS)
            sources += [
                source for n, found in whole.items() if n in self._requested for source in found
            ]
        scopes = [*range(self._count), *([links.ALL_LINKS] if self._count else [])]
        flows: list[Field] = []
        for scope in scopes:
            total = scope == links.ALL_LINKS
            tables = [links.RATE_TOTAL] if total else [links.RATE_PER_LINK, _lanes(scope)]
            # Only where somebody wants to see one of its ways.
            if any(n in self._requested for table in tables for n in table.values()):
                flows += _flows(scope)
        sums = [
            links.sum_field(number, link)
            for number in links.SUMS
            if number in self._requested
            for link in range(self._count)
        ]
        return keys_of((*sources, *flows, *sums))

    def read(self) -> tuple[LinkReading, ...]:
        """Return a reading per link, and fill `values`."""
        readings = tuple(self._link(link) for link in range(self._count))
        if self._count:
            self.values |= self._rates(links.ALL_LINKS, links.RATE_TOTAL)
            self.values |= self._fields.values(links.counted(links.ALL_LINKS), self._requested)
        self.values |= self._sums()
        return readings

    def _link(self, link: int) -> LinkReading:
        table = links.per_link(link)
        state = self._fields.whole(table[links.STATE])
        if state is None:
            state = self._fields.get("nvmlDeviceGetNvLinkState", link)
        found = self._fields.values(table, self._requested) | self._rates(link, links.RATE_PER_LINK)
        found |= self._rates(link, _lanes(link))
        self.values |= {number: value for number, value in found.items() if number in _LANE_FIELDS}
        return LinkReading(link=link, up=None if state is None else state != 0, values=found)

    def _rates(self, scope: int, numbers: dict[str, int]) -> Values:
        desired = {way: number for way, number in numbers.items() if number in self._requested}
        found: Values = {}
        for way, number in desired.items():
            sent, received = (self._fields.whole([flow]) for flow in _flows(scope))
            counted = sent if way == SENT else received
            if way == BOTH:
                counted = None if sent is None or received is None else sent + received
            # The lane's field and the link's share one counter but not one memory.
            key = f"{way} {number}"
            if counted is not None:
                rate = self._traffic.rate(self._gpu, scope, key, counted, self._now)
                found |= {} if rate is None else {number: rate}
        return found

    def _sums(self) -> Values:
        found: Values = {}
        for number in links.SUMS:
            if number in self._requested and self._count:
                parts = [
                    self._fields.whole([links.sum_field(number, link)])
                    for link in range(self._count)
                ]
                known = [part for part in parts if part is not None]
                # A sum with an unknown part is unknown. Counters that make sense one by one may
                # not all together.
                total = unit.NUMBER.take(sum(known) if len(known) == len(parts) else None)
                found |= {} if total is None else {number: total}
        return found


def _lanes(link: int) -> dict[str, int]:
    if link >= links.LINKS:
        return {}
    return {way: numbers[link] for way, numbers in links.RATE_LANES.items()}


_LANE_FIELDS = frozenset(
    number
    for lanes in (*links.ERROR_LANES.values(), *links.RATE_LANES.values())
    for number in lanes
)


def _flows(scope: int) -> tuple[Field, Field]:
    sent, received = links.SENT_FIELD, links.RECEIVED_FIELD
    return (Field(sent.name, sent.unit, scope), Field(received.name, received.unit, scope))
