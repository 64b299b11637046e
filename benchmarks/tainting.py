"""From an XID to a tainted GPU to a deleted pod, many times, each beside two bare writes.

A round is one incident. Two bare rules are created as a yardstick. Then one GPU falls off the bus
with an XID 79 and is tainted, its pod is deleted, and the GPU is repaired and untainted. The round
ends when the node has nothing more to report.
"""

import time

import msgspec

from benchmarks import audit
from benchmarks.figures import Figure, Section, milliseconds, percentile, ratios
from benchmarks.stage import GPUS, NODE, RULES, Stage
from benchmarks.tape import Seen
from benchmarks.waiting import Say, await_true
from exporter.model.node_health import NodeDeviceHealth
from kubeapi.client import Client
from simulator import driver_messages

_YARDSTICK = "bench-"
_APART = 0.2
"""Seconds between the bare pair and the fault, so that neither is in the other's way."""
_QUIET = 2.2
"""Seconds without a report after which the next fault meets an idle node."""
_AUDIT_DELAY = 2.0


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What one round took, in seconds; `written`, `read` and `seen` are wall times."""

    pair: float
    taint: float
    written: float
    read: float
    seen: float


def measure(stage: Stage, rounds: int, say: Say) -> Section:
    """Run the rounds. Raises TooLate when a step of a round does not happen."""
    client = stage.client.sibling()
    found: list[Round] = []
    for number in range(rounds):
        found.append(_round(stage, client, number))
        if number % 5 == 4 or number + 1 == rounds:
            middle = percentile(milliseconds(timing.taint for timing in found), 0.5)
            say(f"tainting: {number + 1} of {rounds} rounds, p50 so far {middle:.0f} ms")
    client.close()
    time.sleep(_AUDIT_DELAY)
    return _section(found, stage.audited())


def _round(stage: Stage, client: Client, number: int) -> Round:
    for tape in (stage.rules, stage.pods, stage.reports):
        tape.forget()
    pair = _bare_pair(client)
    time.sleep(_APART)
    gpu = number % GPUS
    line = driver_messages.xid(stage.node.gpu(gpu).pci, 79)
    stage.node.set_recovery_action(gpu, 1, kernel=False, nvml=False)
    stage.node.lose(gpu)
    written, begun = time.time(), time.monotonic()
    stage.node.kernel_log.write(line)
    rule = stage.rules.first(
        "a rule",
        lambda change: change.old is None and not change.key.startswith(_YARDSTICK),
        since=begun,
    )
    stage.pods.first(
        "a pod's deletion",
        lambda change: change.new is None or change.new.metadata.deletion_timestamp is not None,
        since=begun,
    )
    stage.node.heal(gpu)
    _await_peace(stage)
    return Round(
        pair=pair,
        taint=rule.at - begun,
        written=written,
        read=_read_at(stage.reports.since(begun), written),
        seen=rule.wall,
    )


def _bare_pair(client: Client) -> float:
    """Return the seconds that two rules take, one after the other, on one connection."""
    client.get("/version")  # the connection is open before the clock runs
    begun = time.monotonic()
    for name in ("one", "two"):
        client.create(RULES, _bare_rule(name))
    took = time.monotonic() - begun
    for name in ("one", "two"):
        client.delete(f"{RULES}/{_YARDSTICK}{name}")
    return took


def _bare_rule(name: str) -> dict[str, object]:
    selector = {"driver": "bench.draguard.dev", "pool": "nowhere", "device": name}
    taint = {"key": "draguard.dev/bench", "value": "yardstick", "effect": "NoSchedule"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": f"{_YARDSTICK}{name}"},
        "spec": {"deviceSelector": selector, "taint": taint},
    }


def _await_peace(stage: Stage) -> None:
    """Wait until no rule is left, all pods run again and the node has nothing to report."""
    await_true("the rule is taken down", lambda: not stage.rules.items())
    await_true("all pods run again", lambda: stage.running() == GPUS)
    await_true(
        "the incident is closed",
        lambda: not any(incident.open for incident in stage.incidents.items().values()),
    )
    await_true("the node is quiet", lambda: not stage.reports.since(time.monotonic() - _QUIET))


def _read_at(reports: list[Seen[NodeDeviceHealth]], written: float) -> float:
    """Return when the sensor read the line, in wall time, by the first report of it."""
    for seen in reports:
        gpus = seen.change.new.status.gpus if seen.change.new else ()
        times = [
            record.last_seen.timestamp() for gpu in gpus for record in gpu.xids if record.code == 79
        ]
        after = [time for time in times if time >= written]
        if after:
            return min(after)
    raise LookupError(f"no report about the XID written on {NODE}")


def _section(found: list[Round], log: tuple[audit.Request, ...]) -> Section:
    pairs, taints = [timing.pair for timing in found], [timing.taint for timing in found]
    legs_of_rounds = [
        legs
        for timing in found
        if (legs := audit.legs(log, written=timing.written, read=timing.read, seen=timing.seen))
    ]
    evictions = [audit.eviction(log, written=timing.written) for timing in found]
    parts = tuple(
        Figure(
            what=name,
            unit="ms",
            values=milliseconds(stages[place] for stages in legs_of_rounds),
            part=True,
        )
        for place, name in enumerate(audit.LEGS)
    )
    return Section(
        f"XID 79 in the kernel log to a tainted GPU (etcd with fsync, {len(found)} rounds)",
        (
            Figure(what="two bare rule creates", unit="ms", values=milliseconds(pairs)),
            Figure(
                what="line written to first stored rule",
                unit="ms",
                values=milliseconds(taints),
                budget="p99 150",
            ),
            *parts,
            Figure(
                what="ratio to the bare pair of the round",
                unit="x",
                values=ratios(taints, pairs),
                budget="p50 2",
                digits=2,
            ),
            Figure(
                what="NoExecute decided to the pod's deletion",
                unit="ms",
                values=milliseconds(seconds for seconds in evictions if seconds is not None),
                budget="p99 1,000",
            ),
        ),
    )
