"""States in which GPUs are of no use: whether a page shows each, and that nothing is tainted.

The exporter's own page is made of each sample, and the remediator's rows of each report. A state
counts as seen when what its alert reads names the GPU, or counts it, before the state ends.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from benchmarks.replay.agent import Agent, bus_id
from benchmarks.replay.generator import DAY, history_with
from benchmarks.replay.names import by_hardware
from benchmarks.replay.ours import enforced, play_with
from benchmarks.replay.rates import PROFILES, Kind, Parameters
from benchmarks.replay.scoring import Score, score_node
from benchmarks.replay.truth import Episode, NodeHistory
from benchmarks.replay.unusable import UNKNOWN_XID
from exporter.agent.report.inventory import other_drivers
from exporter.metrics.render import families
from exporter.metrics.snapshot import Snapshot
from exporter.metrics.view import view
from exporter.model.node_health import NodeDeviceHealth
from kubeapi.types import ObjectMeta
from remediator.metrics.mig import MigRequest, mig_rows
from remediator.model.node import NodeFacts
from serving.families import Rows

OFTEN = 100.0
"""Per million GPU-hours; no rate is published, so this one is high enough to be seen."""
REQUESTED = "all-1g.10gb"
"""What `nvidia.com/mig.config` requests of every node that is cut into slices."""

Shown = dict[str, dict[str, float]]
"""Samples of a page by family and label text."""
Sign = Callable[[Agent, int], bool]
"""Whether the pages of a node show the state of a GPU."""


class Class(NamedTuple):
    """One class of docs/alerts.md, "Unusable GPUs without a fault"."""

    kind: Kind
    labels: tuple[str, ...]
    """Of its episodes."""
    alert: str
    metric: str
    """The family that the alert reads."""
    sign: Sign


def _page(agent: Agent) -> Shown:
    seen = agent.seen
    snapshot = Snapshot(
        node=agent.name,
        at=seen.at,
        report=agent.report,
        seen=seen,
        other_drivers=other_drivers(seen, agent.published),
    )
    return {family.name: dict(family.samples) for family in families(view(snapshot))}


def _value(agent: Agent, metric: str, *names: str) -> float | None:
    """Return the sample of a family whose labels hold these texts."""
    samples = _page(agent).get(metric, {})
    found = (value for text, value in samples.items() if all(name in text for name in names))
    return next(found, None)


def _has_not_joined(agent: Agent, gpu: int) -> bool:
    return _value(agent, "draguard_fabric_state", agent.uuid(gpu)) in {1, 2}


def _has_failed_to_join(agent: Agent, gpu: int) -> bool:
    return _value(agent, "draguard_fabric_status", agent.uuid(gpu)) not in {None, 0}


def _has_other_driver(agent: Agent, gpu: int) -> bool:
    return _value(agent, "draguard_gpu_other_driver", bus_id(gpu)) == 1


def _is_not_published(agent: Agent, _gpu: int) -> bool:
    published = _value(agent, "draguard_gpus_expected", 'source="resourceslices"')
    seen = _value(agent, "draguard_gpus_seen")
    return published is not None and seen is not None and seen > published


def _is_missing(agent: Agent, gpu: int) -> bool:
    return _value(agent, "draguard_gpu_missing", bus_id(gpu)) == 1


def _had_unknown_xid(agent: Agent, gpu: int) -> bool:
    metric, code = "draguard_xid_last_seen_timestamp_seconds", f'code="{UNKNOWN_XID}"'
    return _value(agent, metric, agent.uuid(gpu), code) is not None


def _is_cut_otherwise(agent: Agent, _gpu: int) -> bool:
    facts = NodeFacts(name=agent.name, mig_config=REQUESTED, mig_state="success")
    report = NodeDeviceHealth(ObjectMeta(name=agent.name), agent.report)
    rows: Rows = mig_rows([MigRequest(facts, report)])
    return any(rows["node_mig_config_differs_gpus"].values())


CLASSES: dict[str, Class] = {
    "the fabric's service is down or never done": Class(
        "fabric-waits",
        ("fabric waits", "fabric not started"),
        "DraguardFabricNotReady",
        "draguard_fabric_state",
        _has_not_joined,
    ),
    "registration with the fabric failed": Class(
        "fabric-fails",
        ("fabric failed",),
        "DraguardFabricNotReady",
        "draguard_fabric_status",
        _has_failed_to_join,
    ),
    "nouveau or no driver has the GPU": Class(
        "other-driver",
        ("nouveau", "no driver"),
        "DraguardGpuOtherDriver",
        "draguard_gpu_other_driver",
        _has_other_driver,
    ),
    "on the bus, not published": Class(
        "not-published",
        ("not published",),
        "DraguardGpuNotPublished",
        "draguard_gpus_seen",
        _is_not_published,
    ),
    "published, not on the bus": Class(
        "off-bus",
        ("off the bus",),
        "DraguardGpuMissing",
        "draguard_gpu_missing",
        _is_missing,
    ),
    "an XID that no table knows": Class(
        "unknown-xid",
        ("unknown XID",),
        "DraguardXidUnknown",
        "draguard_xid_last_seen_timestamp_seconds",
        _had_unknown_xid,
    ),
    "other slices than the label asks for": Class(
        "cut-otherwise",
        ("cut otherwise",),
        "DraguardMigConfigNotApplied",
        "draguard_node_mig_config_differs_gpus",
        _is_cut_otherwise,
    ),
}


class Seen(msgspec.Struct, kw_only=True):
    """What became of one class in a fleet."""

    name: str
    alert: str
    gpus: int = 0
    """GPUs that were in such a state; one counts each time."""
    shown: int = 0
    """Of them, before the state ended."""
    too_early: int = 0
    """GPUs whose sign was there before the first of its node was in the state."""
    incidents: int = 0
    """GPUs of which one was opened while they were in the state."""
    tainted: int = 0
    """GPUs of which a device was tainted while they were in the state."""
    score: Score
    """Of the fleet's real faults, which go on beside."""


def seen_of_each(parameters: Parameters, profile: str) -> Iterator[Seen]:
    """Play a fleet with the profile's own faults once for each class."""
    quiet = msgspec.structs.replace(parameters, app_rate=0.0, churn=False, upgrade=False)
    for name, row in CLASSES.items():
        cut = quiet.mig_share if row.kind != "cut-otherwise" else 1.0
        drawn = msgspec.structs.replace(quiet, mig_share=cut)
        fails = PROFILES[profile]
        fails = msgspec.structs.replace(fails, rates={**fails.rates, row.kind: OFTEN})
        found = Seen(name=name, alert=row.alert, score=Score(policy=name))
        for node in range(drawn.nodes):
            _play(found, row, history_with(drawn, fails, node), drawn.days * DAY)
        yield found


def _play(found: Seen, row: Class, history: NodeHistory, end: float) -> None:
    episodes = [episode for episode in history.episodes if episode.label in row.labels]
    first = min((episode.begin for episode in episodes), default=end)
    waiting, early = list(episodes), set[int]()

    def look(agent: Agent, at: float) -> None:
        if at < first:
            early.update(episode.gpu for episode in episodes if row.sign(agent, episode.gpu))
        for episode in tuple(waiting):
            if episode.begin <= at <= episode.until and row.sign(agent, episode.gpu):
                waiting.remove(episode)

    player = play_with(history, enforced(), look)
    taints = list(player.store.taints.all())
    score_node(found.score, history, taints, end)
    found.gpus += len(episodes)
    found.shown += len(episodes) - len(waiting)
    found.too_early += len(early)
    begun = [(taint.device[0], taint.begin) for taint in by_hardware(history, taints)]
    for episode in episodes:
        found.incidents += any(_in(episode, gpu, at) for gpu, at in player.reported)
        found.tainted += any(_in(episode, gpu, at) for gpu, at in begun)


def _in(episode: Episode, gpu: int, at: float) -> bool:
    return episode.gpu == gpu and episode.begin <= at <= episode.until
