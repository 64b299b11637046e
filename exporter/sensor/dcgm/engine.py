"""One engine of DCGM, sample by sample: what it tells, what happened, what ails.

Runs in the DCGM child only. An embedded engine is run in manual mode: it has no
reason to wake up between samples, so it reads the driver when a sample is
requested and at no other time. A host engine reads by itself, at half the
interval, so that a value is older than its sample by no more than that; what
it profiles is an average, which has to cover the whole interval.
"""

import time
from collections.abc import Sequence
from datetime import datetime

from exporter.model.readings import DcgmReading
from exporter.model.signals import Signal
from exporter.sensor.dcgm import node_parts
from exporter.sensor.dcgm.abi import Kind, Status
from exporter.sensor.dcgm.entities import Entities, Place, Topology, makes_links
from exporter.sensor.dcgm.error import ENGINE_BLANK, ENGINE_FROZEN, DcgmError
from exporter.sensor.dcgm.freshness import Freshness
from exporter.sensor.dcgm.groups import Groups
from exporter.sensor.dcgm.health_watch import HealthWatch
from exporter.sensor.dcgm.library import Library
from exporter.sensor.dcgm.listing import Listing
from exporter.sensor.dcgm.node_parts import NodeParts
from exporter.sensor.dcgm.options import UNIX, Options
from exporter.sensor.dcgm.reading import (
    all_blank,
    entities_of,
    identities_of,
    never_watched,
    not_watched,
    signals_of,
)
from exporter.sensor.dcgm.requested_fields import LINK_FIELDS
from exporter.sensor.dcgm.values import Answer, Entity
from exporter.sensor.dcgm.watch import Cadence, Part, Watches
from exporter.sensor.supervisor.call_notes import Slot
from kubeapi import clock

_CONNECT_MS = 5000
_SHORTEST = 1.0
"""Seconds between two samples at least (`exporter.sensor.supervisor.child`)."""
_KEEP = 120.0
"""Seconds of history at least."""
_LONGEST_PAUSE = 60.0
_FROZEN_INTERVALS = 3
_FROZEN = 10.0
"""Seconds for which a GPU's values may stay as old as they are, at least."""


class Sampler:
    """Reads one engine."""

    def __init__(self, slot: Slot, options: Options) -> None:
        self._library = Library(slot)
        self._options = options
        self._listing, self._groups = Listing(self._library), Groups(self._library)
        self._entities = Entities(self._listing)
        self._version = ""
        self._watching: _Watching | None = None
        self._health = HealthWatch(
            self._groups, every=options.interval, keep=_kept(options.interval)
        )
        self._freshness = Freshness(max(_FROZEN, _FROZEN_INTERVALS * options.interval))

    def sample(self, desired: Sequence[int]) -> DcgmReading:
        """Read what is requested and there; raises DcgmError when the engine is no use.

        The first time loads the library and reaches the engine.
        """
        watching = self._watching or self._open()
        at, started = clock.now(), time.perf_counter()
        links = makes_links(self._version) and not LINK_FIELDS.isdisjoint(desired)
        topology = self._entities.read(links=links)
        beside = node_parts.read(self._listing, self._options.chosen, desired, self._version)
        answers, fresh = watching.read(topology, tuple(sorted(desired)), beside)
        places = self._read_now(topology, answers, at)
        return DcgmReading(
            at=at,
            version=self._version,
            entities=entities_of(answers, places, frozenset(desired)),
            health=self._health.check(topology, fresh=fresh) if self._options.health else None,
            gpus=tuple(
                sorted(place.uuid for (kind, _), place in places.items() if kind == Kind.GPU)
            ),
            identities=identities_of(answers, places),
            node_parts=node_parts.with_values(answers, beside.places, desired),
            remarks=beside.remarks,
            unsupported=watching.unsupported,
            detached=topology.detached,
            took=time.perf_counter() - started,
        )

    def signals(self) -> list[Signal]:
        """Return the XIDs that were read since the last time, also by a sample that failed."""
        return [] if self._watching is None else self._watching.signals()

    def _read_now(
        self, topology: Topology, answers: Sequence[Answer], at: datetime
    ) -> dict[Entity, Place]:
        """Return the entities of GPUs that the engine still reads; raises DcgmError for none."""
        first = not self._freshness.knows_any
        frozen = self._freshness.frozen(answers, at, time.monotonic())
        uuids = {topology.places[gpu].uuid for gpu in frozen if gpu in topology.places}
        places = {
            entity: place for entity, place in topology.places.items() if place.uuid not in uuids
        }
        # The first time says nothing: the engine's clock may be another one.
        if uuids and not places and not first:
            text = "no GPU's values are newer than they were"
            raise DcgmError("dcgmEntitiesGetLatestValues", Status.NO_DATA, text, ENGINE_FROZEN)
        return places

    def _open(self) -> "_Watching":
        address = self._options.address
        self._library.load()
        if self._options.embedded:
            self._library.start_embedded()
        else:
            path, unix = address.removeprefix(UNIX), address.startswith(UNIX)
            self._library.connect(path, unix=unix, timeout_ms=_CONNECT_MS)
        self._version = self._library.version()
        self._watching = _Watching(self._groups, self._options)
        return self._watching


class _Watching:
    """Keeps the right things watched, and the place in the history of XIDs."""

    def __init__(self, groups: Groups, options: Options) -> None:
        self._groups = groups
        self._options = options
        self._cadence = cadence_of(options)
        self._watches: Watches | None = None
        self._shape: object = None
        """What the watches were made for."""
        self._given_up: frozenset[tuple[Entity, int]] = frozenset()
        """Not watched although just requested; not tried again for this shape."""
        self._places: dict[Entity, Place] = {}
        """Of the entities of `_watches`; a number of DCGM's may be another entity's later."""
        self._news: list[Signal] = []
        self._since: dict[Part, int] = {}
        self.unsupported: tuple[int, ...] = ()

    def read(
        self, topology: Topology, desired: tuple[int, ...], beside: NodeParts
    ) -> tuple[list[Answer], bool]:
        """Return the latest values, and whether they are the first of new watches."""
        shape = (tuple(topology.places.items()), desired, tuple(beside.places))
        watches, fresh = self._watches, False
        if watches is None or shape != self._shape or not watches.complete:
            watches, fresh = self._watch(topology, desired, beside), True
            self._shape, self._given_up = shape, frozenset()
        answers = self._latest(watches, update=fresh)
        if not not_watched(answers) <= self._given_up:
            # A GPU that was unbound and bound again since the last sample has lost its watches.
            watches, fresh = self._watch(topology, desired, beside), True
            answers = self._latest(watches, update=True)
            self._given_up = never_watched(answers)
        if all_blank(answers):
            answers = self._once_more(watches, fresh=fresh)
        return answers, fresh

    def signals(self) -> list[Signal]:
        """Return the XIDs that were reported since the last time."""
        signals, self._news = self._news, []
        return signals

    def _hear(self, watches: Watches) -> None:
        self._news += signals_of(watches.xids(self._since), self._places)

    def _watch(self, topology: Topology, desired: tuple[int, ...], beside: NodeParts) -> Watches:
        if self._watches is not None:
            self._hear(self._watches)
            self._watches.end()
        self._watches, self._places = Watches(self._groups, self._cadence), topology.places
        self.unsupported = self._watches.begin(topology, desired, beside)
        # At once, so that what happens from now on is news.
        self._hear(self._watches)
        return self._watches

    def _latest(self, watches: Watches, *, update: bool) -> list[Answer]:
        if update or self._options.embedded:
            self._groups.update_all()
        self._hear(watches)
        return list(watches.read())

    def _once_more(self, watches: Watches, *, fresh: bool) -> list[Answer]:
        if fresh:
            # The first value after a watch may be none; the second one counts.
            time.sleep(min(self._cadence.every, _LONGEST_PAUSE))
        answers = self._latest(watches, update=True)
        if all_blank(answers):
            text = "the engine lists GPUs, and no field of any of them has a value"
            raise DcgmError("dcgmEntitiesGetLatestValues", Status.NO_DATA, text, ENGINE_BLANK)
        return answers


def cadence_of(options: Options) -> Cadence:
    """Return how often what is read. A profiled value is an average since the one before it."""
    half = options.interval / 2
    if options.embedded:
        return Cadence(min(half, _SHORTEST), half, _kept(options.interval), half)
    return Cadence(half, options.interval, _kept(options.interval), half)


def _kept(interval: float) -> float:
    """Return for how many seconds the engine keeps values."""
    return max(_KEEP, 4 * interval)
