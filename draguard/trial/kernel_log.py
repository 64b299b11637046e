"""How the nodes of a cluster read the kernel log, into the way that `explain` assumes. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from draguard.trial.signal import LOGS_READ, LogMode
from exporter.model.node_health import NodeDeviceHealth, Via
from remediator.plan.words import some

MODES: Mapping[Via, LogMode] = {"Device": "kmsg", "Journal": "journal", "Syslog": "syslog"}


class KernelLog(msgspec.Struct, frozen=True):
    mode: LogMode = "auto"
    why: str = "the chart's default"


ASSUMED = KernelLog()
"""Where the reports of no cluster can be read."""


def kernel_log_of(reports: Iterable[NodeDeviceHealth]) -> KernelLog:
    """Return the most common way, the nodes that read it otherwise, and how many do not say."""
    reports = tuple(reports)
    nodes: dict[LogMode, list[str]] = {}
    for report in reports:
        for source in report.status.sources:
            if source.name == "kmsg" and source.up and source.via:
                nodes.setdefault(MODES[source.via], []).append(report.metadata.name)
    if not nodes:
        return ASSUMED
    mode = max(nodes, key=lambda mode: len(nodes[mode]))
    total = f"{len(reports)} {'node' if len(reports) == 1 else 'nodes'}"
    others = [f"{LOGS_READ[its]} on {some(names)}" for its, names in nodes.items() if its != mode]
    unknown = len(reports) - sum(map(len, nodes.values()))
    others += [f"not known of {unknown}"] if unknown else []
    return KernelLog(mode, "; ".join((f"as on {len(nodes[mode])} of {total}", *others)))
