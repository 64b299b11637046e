"""The keys of dcgm-exporter's YAML file (4.8.4), and what becomes of each here. Pure data."""

from typing import Literal, NamedTuple

Meaning = Literal["in force", "always so", "interval", "not done"]
"""`interval`: in force where it is the shortest. `not done`: reported, without effect."""


class Key(NamedTuple):
    """One key of theirs: its path, with [] for each entry of a list."""

    path: str
    meaning: Meaning
    text: str
    versions: tuple[int, ...] = (1, 2)


_KEPT = "DCGM keeps what one look needs"
_PUBLISHED_BY_DRIVER = "the driver reports it"

KEYS: tuple[Key, ...] = (
    Key("version", "in force", "1 or 2"),
    Key("metrics.file", "in force", "--collectors"),
    Key("metrics.fields[].name", "in force", "rows in the place of a counters file"),
    Key("metrics.fields[].prometheusType", "in force", "rows in the place of a counters file"),
    Key("metrics.fields[].help", "in force", "rows in the place of a counters file"),
    Key("metrics.enableExporterMetrics", "always so", "always on"),
    Key("server.maxConcurrentScrapes", "in force", "--max-scrapes"),
    Key("server.address", "in force", "--listen"),
    Key("sources.dcgm.detectBindUnbind.enabled", "always so", "always on"),
    Key("sources.dcgm.detectBindUnbind.pollInterval", "always so", _PUBLISHED_BY_DRIVER),
    Key("sources.dcgm.watch.maxKeepAge", "not done", _KEPT, (2,)),
    Key("sources.dcgm.watch.maxKeepSamples", "not done", _KEPT, (2,)),
    Key("collections[].name", "in force", "in messages", (2,)),
    Key("collections[].every", "interval", "--interval, where it is the shortest", (2,)),
    Key("collections[].metrics.include[]", "in force", "`*` alone: all fields", (2,)),
    Key("collections[].sources.dcgm.watch.maxKeepAge", "not done", _KEPT, (2,)),
    Key("collections[].sources.dcgm.watch.maxKeepSamples", "not done", _KEPT, (2,)),
    Key("collection.interval", "interval", "--interval, where it is the shortest", (1,)),
    Key("collection.retention.maxAge", "not done", _KEPT, (1,)),
    Key("collection.retention.maxSamples", "not done", _KEPT, (1,)),
    Key("collection.watchGroups[].name", "in force", "in messages", (1,)),
    Key("collection.watchGroups[].interval", "interval", "--interval, where it is shortest", (1,)),
    Key("collection.watchGroups[].fields[]", "in force", "in messages", (1,)),
    Key("collection.watchGroups[].retention.maxAge", "not done", _KEPT, (1,)),
    Key("collection.watchGroups[].retention.maxSamples", "not done", _KEPT, (1,)),
)
