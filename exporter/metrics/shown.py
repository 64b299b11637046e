"""From settings to what the page shows."""

from exporter.metrics.counters import Counters
from exporter.metrics.labels import Options
from exporter.metrics.snapshot import Shown
from exporter.settings import Settings


def shown(settings: Settings, counters: Counters) -> Shown:
    """Return how pages look under these settings, with the counters now in force."""
    return Shown(
        counters=counters,
        options=Options(
            node=settings.node_name,
            preset=settings.labels,
            old_namespace=settings.old_namespace,
            hostname_label=settings.hostname_label,
            replace_blanks=settings.replace_blanks_in_model_name,
            pod_uid=settings.pod_uid,
        ),
        max_series=settings.max_series,
        xid_window=settings.xid_window,
        clock_window=settings.clock_events_window,
        ignored=settings.ignored,
    )
