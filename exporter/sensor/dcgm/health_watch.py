"""DCGM's health of the GPUs, by a group of our own.

An engine keeps one mask of watches per group, whichever client set it. All clients
share the group of all GPUs: what we set there would undo what `dcgmi health` has set,
and once another client clears the mask the engine finds no incidents, which looks
healthy (modules/health/DcgmHealthWatch.cpp of DCGM 4.6).
"""

import uuid

from exporter.model.readings import HealthFinding
from exporter.sensor.dcgm.abi import HEALTH_WATCH_ALL, Kind
from exporter.sensor.dcgm.entities import Topology
from exporter.sensor.dcgm.error import DcgmError
from exporter.sensor.dcgm.groups import Groups
from exporter.sensor.dcgm.health import ABOUT_GPUS, findings


class HealthWatch:
    """Watches all that DCGM calls health, on every GPU of a topology."""

    def __init__(self, groups: Groups, *, every: float, keep: float) -> None:
        self._groups = groups
        self._every = every
        self._keep = keep
        self._group: int | None = None

    def check(self, topology: Topology, *, fresh: bool) -> tuple[HealthFinding, ...] | None:
        """Return what ails the GPUs; None when that is not known. `fresh`: watch them anew.

        Raises DcgmError when the engine is lost.
        """
        try:
            if self._group is None or fresh:
                self._begin(topology)
            if self._group is None:
                return None
            if self._groups.health_watches(self._group) & ABOUT_GPUS != ABOUT_GPUS:
                # Somebody took watches away: what a check leaves out now is not health.
                self._set(self._group)
                return None
            return findings(self._groups.check_health(self._group), topology.places)
        except DcgmError as error:
            if error.lost:
                raise
            return None

    def _begin(self, topology: Topology) -> None:
        old, self._group = self._group, None
        if old is not None:
            self._end(old)
        group = self._groups.create_group(f"draguard-{uuid.uuid4().hex[:12]}-health")
        try:
            for entities in topology.of(Kind.GPU).values():
                for entity in entities:
                    self._groups.add_entity(group, *entity)
            self._set(group)
        except DcgmError as error:
            if not error.lost:
                self._end(group)
            raise
        self._group = group

    def _set(self, group: int) -> None:
        self._groups.watch_health(group, HEALTH_WATCH_ALL, every=self._every, keep=self._keep)

    def _end(self, group: int) -> None:
        try:
            self._groups.destroy_group(group)
        except DcgmError as error:
            if error.lost:
                raise
