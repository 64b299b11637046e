"""From settings to what the page shows."""

from exporter.metrics import counters
from exporter.metrics.shown import shown
from exporter.settings import Settings


def test_every_setting_of_the_page_reaches_it() -> None:
    settings = Settings(
        node_name="node-a",
        labels="full",
        old_namespace=True,
        hostname_label="hostname",
        replace_blanks_in_model_name=True,
        pod_uid=True,
        max_series=7,
        xid_window=60.0,
        clock_events_window=90.0,
    )
    found = shown(settings, counters.default())
    assert found.counters == counters.default()
    assert (found.max_series, found.xid_window, found.clock_window) == (7, 60.0, 90.0)
    options = found.options
    assert (options.node, options.preset, options.hostname_label) == ("node-a", "full", "hostname")
    assert (options.old_namespace, options.replace_blanks, options.pod_uid) == (True, True, True)
