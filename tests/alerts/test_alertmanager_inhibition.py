"""Inhibition between alerts, on a real Alertmanager with the shipped rules.

Each case has its own cluster on one server: every rule requires equal clusters.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.alerts.test_alertmanager_config import SEVERITIES, SHIPPED
from tests.exporter.running import free_port
from tests.lab.alertmanager import Alertmanager, rehearsed
from tests.lab.cluster import await_true

NODE = {"node": "node-a"}
OTHER_NODE = {"node": "node-b"}
GPU = {**NODE, "UUID": "GPU-1"}
OTHER_GPU = {**NODE, "UUID": "GPU-2"}
MOVED = {**OTHER_NODE, "UUID": "GPU-1"}
"""The same GPU on another node, or a node that reports it."""
THIRD_GPU = {**NODE, "UUID": "GPU-3"}
CLAIM = {"dra_claim_namespace": "ml", "dra_claim_name": "train"}
GONE = "DraguardGpuGone"
TAINTED = "DraguardDeviceTainted"
DOWN = "DraguardExporterDown"
VANISHED = "DraguardExporterGone"
NODE_DOWN = "KubeNodeNotReady"
Labels = dict[str, str]


class Alert(NamedTuple):
    name: str
    labels: Labels


class Case(NamedTuple):
    """`source` fires. It inhibits each of `muted`; nothing inhibits those of `notified`."""

    source: Alert
    muted: tuple[Alert, ...]
    notified: tuple[Alert, ...]


def of(labels: Labels, *names: str) -> tuple[Alert, ...]:
    return tuple(Alert(name, labels) for name in names)


CASES = {
    "a node that is down inhibits alerts on its GPUs, and not on other nodes": Case(
        Alert(NODE_DOWN, NODE),
        (
            *of(GPU, GONE, TAINTED, "DraguardDeviceNotTainted"),
            *of(NODE, DOWN, "DraguardAgentStale"),
        ),
        (
            *of({**OTHER_NODE, "UUID": "GPU-9"}, GONE),
            *of({**OTHER_NODE, "source": "dcgm"}, "DraguardSourceDown"),
            *of(OTHER_GPU, "DraguardNeedsHuman"),
            *of({}, "DraguardNoLeader", "DraguardWatchdog"),
            *of(CLAIM, "DraguardClaimPending"),
            *of(NODE, "KubePodNotReady"),
        ),
    ),
    "a GPU off the bus inhibits its other alerts, also those of other tools": Case(
        Alert(GONE, GPU),
        (
            *of(GPU, "DraguardDeviceSick", "DraguardMemoryFault", "DraguardRowRemapPending"),
            *of(GPU, TAINTED, "GpuDoubleBitEcc", "GpuTooHot"),
            *of({"Hostname": "node-a", "UUID": "GPU-1"}, "DcgmGpuThermalViolation"),
        ),
        (
            *of(GPU, "DraguardDeviceNotTainted"),
            *of(MOVED, "DraguardDeviceSick", "DraguardDeviceNotTainted"),
            *of(OTHER_GPU, "DraguardDeviceSick", "GpuDoubleBitEcc"),
            *of(THIRD_GPU, GONE),
            *of(NODE, "DraguardGpuMissing", "NodeTooHot"),
            *of({}, "DraguardNoLeader"),
        ),
    ),
    "an exporter that is down inhibits a missing GPU, and not one that is gone": Case(
        Alert(DOWN, NODE),
        (
            *of(NODE, "DraguardGpuMissing", "DraguardAgentStale", "DraguardSensorSilent"),
            *of({**NODE, "source": "dcgm"}, "DraguardSourceDown"),
        ),
        (
            *of(GPU, GONE),
            *of(OTHER_GPU, "DraguardDeviceNotTainted"),
            *of(THIRD_GPU, TAINTED),
            *of(OTHER_NODE, "DraguardGpuMissing"),
            *of({}, "DraguardNoLeader"),
        ),
    ),
    "an exporter that is gone inhibits its agent, and not a GPU that is gone": Case(
        Alert(VANISHED, NODE),
        of(NODE, "DraguardAgentStale"),
        (
            *of({**OTHER_NODE, "UUID": "GPU-9"}, GONE),
            *of(OTHER_NODE, "DraguardAgentStale"),
            *of(OTHER_GPU, "DraguardDeviceNotTainted", TAINTED),
            *of({}, "DraguardNoLeader"),
        ),
    ),
    "a GPU that is gone inhibits the alert on its exporter": Case(
        Alert(GONE, GPU),
        of(NODE, VANISHED),
        (*of(OTHER_NODE, VANISHED), *of(NODE, "DraguardGpuMissing")),
    ),
    "a cluster without exporters is one ticket": Case(
        Alert("DraguardNoExporter", {}),
        (*of(NODE, VANISHED), *of(OTHER_NODE, "DraguardAgentStale")),
        (*of(GPU, "DraguardDeviceNotTainted"), *of({}, "DraguardNoLeader")),
    ),
    "a stale sensor inhibits alerts on its readings": Case(
        Alert("DraguardSensorSilent", NODE),
        (*of(NODE, "DraguardGpuMissing"), *of({**NODE, "source": "nvml"}, "DraguardSourceDown")),
        (*of(NODE, "DraguardAgentStale"), *of(GPU, GONE)),
    ),
    "a stale agent inhibits stuck incidents, and not a GPU that is gone": Case(
        Alert("DraguardAgentStale", NODE),
        of(GPU, "DraguardIncidentStuck"),
        (
            *of(OTHER_GPU, GONE),
            *of(NODE, "DraguardGpuMissing"),
            *of({**OTHER_NODE, "UUID": "GPU-9"}, "DraguardIncidentStuck"),
        ),
    ),
    "a device under remediation is known to be faulty": Case(
        Alert(TAINTED, GPU),
        (
            *of(GPU, "DraguardSliceFault", "DraguardFabricFault", "DraguardRowRemapPending"),
            *of(GPU, "DraguardApplicationErrors"),
        ),
        (
            *of(GPU, "DraguardIncidentStuck", "DraguardNeedsHuman", "DraguardDeferredByBudget"),
            *of(MOVED, "DraguardDeviceSick"),
            *of(OTHER_GPU, "DraguardDeviceSick"),
            *of(THIRD_GPU, "DraguardSliceFault"),
            *of(CLAIM, "DraguardClaimIdle"),
        ),
    ),
    "a page on an untainted GPU ends with the taint": Case(
        Alert(TAINTED, GPU),
        of(GPU, "DraguardDeviceSick", "DraguardMemoryFault"),
        of(OTHER_GPU, "DraguardMemoryFault"),
    ),
    "a failed switch explains the failed links of its GPUs": Case(
        Alert("DraguardSwitchFault", NODE),
        of(GPU, "DraguardFabricFault"),
        (*of(OTHER_GPU, GONE), *of({**OTHER_NODE, "UUID": "GPU-9"}, "DraguardFabricFault")),
    ),
    "without a remediator there is no leader and no progress": Case(
        Alert("DraguardRemediatorDown", {}),
        (
            *of({}, "DraguardNoLeader", "DraguardRemediatorBehind"),
            *of(GPU, "DraguardIncidentStuck"),
        ),
        (
            *of(OTHER_GPU, GONE),
            *of(THIRD_GPU, "DraguardDeviceNotTainted"),
            *of({}, "DraguardPolicyFileBad"),
        ),
    ),
    "without a leader there is no progress": Case(
        Alert("DraguardNoLeader", {}),
        (*of({}, "DraguardRemediatorBehind"), *of(GPU, "DraguardIncidentStuck")),
        of(OTHER_GPU, "DraguardDeviceNotTainted"),
    ),
    "without an explainer nobody is blind, and claims alert as long as they are known": Case(
        Alert("DraguardExplainerDown", {}),
        of({}, "DraguardExplainerBlind"),
        (*of(CLAIM, "DraguardClaimPending"), *of({}, "DraguardRemediatorBlind")),
    ),
    "a page on a GPU inhibits its tickets": Case(
        Alert("DraguardDeviceNotTainted", GPU),
        of(GPU, "DraguardNeedsHuman", "DraguardApplicationErrors"),
        (
            *of(GPU, "GpuTooHot"),
            *of(MOVED, "DraguardRowRemapPending"),
            *of(OTHER_GPU, GONE),
            *of(THIRD_GPU, "DraguardNeedsHuman"),
            *of({**NODE, "source": "dcgm"}, "DraguardSourceDown"),
            *of({}, "DraguardRulesNotServed"),
        ),
    ),
    "a GPU on two nodes inhibits nothing": Case(
        Alert("DraguardGpuOnTwoNodes", {"UUID": "GPU-1"}),
        (),
        (
            *of(GPU, "DraguardRowRemapPending", "DraguardDeferredByBudget", "DraguardSliceFault"),
            *of({**OTHER_NODE, "UUID": "GPU-1"}, "DraguardNeedsHuman"),
            *of(THIRD_GPU, "DraguardApplicationErrors"),
        ),
    ),
    "a node that is down does not inhibit a GPU on two nodes": Case(
        Alert(NODE_DOWN, NODE),
        of(GPU, GONE),
        of({"UUID": "GPU-2"}, "DraguardGpuOnTwoNodes"),
    ),
    "a ticket on a GPU inhibits its context": Case(
        Alert("DraguardIncidentStuck", GPU),
        of(GPU, "DraguardApplicationErrors"),
        (
            *of(OTHER_GPU, "DraguardApplicationErrors"),
            *of(MOVED, "DraguardApplicationErrors"),
            *of(CLAIM, "DraguardClaimIdle"),
        ),
    ),
}


def posted(alert: Alert, cluster: str) -> dict[str, Any]:
    severity = SEVERITIES.get(alert.name, "warning")
    labels = {"alertname": alert.name, "severity": severity, **alert.labels}
    started = datetime.now(UTC).isoformat()  # noqa: TID251 - a server compares it with its clock
    return {"labels": {**labels, **({"cluster": cluster} if cluster else {})}, "startsAt": started}


@pytest.fixture(scope="module")
def server(
    alertmanager_built: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Alertmanager]:
    folder = tmp_path_factory.mktemp("alertmanager")
    with started(alertmanager_built, folder, mute(folder)) as one:
        yield one


def mute(folder: Path) -> Path:
    """Return the shipped configuration with receivers that send nothing."""
    copy = rehearsed(SHIPPED, folder, "")
    config = yaml.safe_load(copy.read_text(encoding="utf-8"))
    config["receivers"] = [{"name": receiver["name"]} for receiver in config["receivers"]]
    copy.write_text(yaml.safe_dump(config), encoding="utf-8")
    return copy


def started(programs: Path, folder: Path, config: Path) -> Alertmanager:
    return Alertmanager(programs, folder, config, port=free_port())


def inhibited(server: Alertmanager, cluster: str) -> dict[str, set[str]]:
    """Return for each alert of a cluster, by name and device, what inhibits it."""
    found = server.alerts()
    names = {alert["fingerprint"]: alert["labels"]["alertname"] for alert in found}
    return {
        key(alert["labels"]): {names.get(by, by) for by in alert["status"]["inhibitedBy"]}
        for alert in found
        if alert["labels"].get("cluster", "") == cluster
    }


def key(labels: Labels) -> str:
    where = (labels.get("node"), labels.get("Hostname"), labels.get("UUID"))
    return " ".join([labels["alertname"], *(place for place in where if place)])


def keys(alerts: tuple[Alert, ...]) -> set[str]:
    return {key({"alertname": alert.name, **alert.labels}) for alert in alerts}


@pytest.mark.parametrize("name", CASES)
def test_inhibition(server: Alertmanager, name: str) -> None:
    case = CASES[name]
    everything = (case.source, *case.muted, *case.notified)
    server.post([posted(alert, name) for alert in everything])
    desired = {
        **{alert: {case.source.name} for alert in keys(case.muted)},
        **{alert: set[str]() for alert in keys((case.source, *case.notified))},
    }
    with suppress(AssertionError):
        await_true("the expected inhibition", lambda: inhibited(server, name) == desired)
    assert inhibited(server, name) == desired


def test_every_inhibition_rule_has_a_case_that_it_decides() -> None:
    sources = {case.source.name for case in CASES.values()}
    rules = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))["inhibit_rules"]
    named = [
        re.findall(r'alertname =~? "([^"]+)"', rule["source_matchers"][0])[0] for rule in rules
    ]

    assert [
        name for name in named if not any(re.fullmatch(name, source) for source in sources)
    ] == []


NOWHERE = (Alert(NODE_DOWN, {}), Alert("DraguardNoLeader", {}), Alert("DraguardWatchdog", {}))
"""Two that lack the label `node`, and one that lacks it by mistake."""


def test_alerts_that_both_lack_a_label_do_not_inhibit_each_other(
    alertmanager_built: Path, tmp_path: Path
) -> None:
    """Not in any cluster either, so that every label of `equal` is missing on both sides."""
    with started(alertmanager_built, tmp_path, mute(tmp_path)) as server:
        source = (Alert(NODE_DOWN, NODE), Alert(DOWN, NODE))
        server.post([posted(alert, "") for alert in (*NOWHERE, *source)])

        await_true("the source is inhibited", lambda: inhibited(server, "").get(f"{DOWN} node-a"))
        found = inhibited(server, "")
        assert [found[alert.name] for alert in NOWHERE] == [set(), set(), set()]


def test_without_the_guard_they_would(alertmanager_built: Path, tmp_path: Path) -> None:
    """This is why the shipped rules require each label on both sides."""
    config = mute(tmp_path)
    unguarded = config.read_text(encoding="utf-8").replace('- node =~ ".+"\n', '- node =~ ".*"\n')
    config.write_text(unguarded, encoding="utf-8")
    with started(alertmanager_built, tmp_path, config) as server:
        server.post([posted(alert, "") for alert in NOWHERE])

        await_true(
            "DraguardNoLeader is inhibited", lambda: inhibited(server, "")["DraguardNoLeader"]
        )
