"""The rows of what DCGM tells of no GPU: NVSwitches, their links, CPUs and cores. Pure.

Labels from fields are those that the entity itself reported, and the driver's version, as with
dcgm-exporter.
"""

from collections.abc import Iterator

import msgspec

from exporter.metrics import labels
from exporter.metrics.labels import Options
from exporter.metrics.snapshot import Snapshot
from exporter.model.readings import Values

_DRIVER_VERSION = 1


class NodeRow(msgspec.Struct, frozen=True):
    """One of them, with what is shown of it."""

    labels: str
    values: Values


def node_rows(snapshot: Snapshot, options: Options) -> Iterator[NodeRow]:
    """Give the rows in DCGM's order."""
    parts = snapshot.dcgm.node_parts if snapshot.dcgm else ()
    fields = () if options.preset == "lean" else snapshot.shown.counters.labels
    version = snapshot.nvml.driver_version if snapshot.nvml else ""
    for part in parts:
        known = ({_DRIVER_VERSION: version} if version else {}) | part.values
        own = [(row.name, str(known[row.field.id])) for row in fields if row.field.id in known]
        named = labels.joined(labels.node_part(options, part), labels.text(sorted(own)))
        yield NodeRow(named, part.values)
