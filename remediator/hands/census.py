"""Every GPU's place, kept up as reports, slices and claims change, for budgets to count on."""

from collections import Counter

from exporter.report import NodeHealth
from exporter.slices import SliceDevice
from remediator.decide.fleet import Changed, GpuPlace, Ground
from remediator.objects.claims import Claim


class Census:
    """An index; `World` feeds it under its lock."""

    def __init__(self) -> None:
        self.places: dict[str, GpuPlace] = {}
        self.totals: Counter[tuple[Ground, str]] = Counter()
        self.changes: dict[str, Changed] = {}

    def published(self, node: str, devices: tuple[SliceDevice, ...]) -> None:
        """Take in what a node publishes now."""

    def reported(self, node: str, health: NodeHealth | None) -> None:
        """Take in a node's report; None when it is gone."""

    def claimed(self, old: Claim | None, new: Claim | None) -> None:
        """Take in a change of a claim."""

    def peers(self, uuid: str) -> tuple[str, ...]:
        """Return the GPUs in one NVLink domain with this one, as `node/uuid`."""
        del uuid
        return ()
