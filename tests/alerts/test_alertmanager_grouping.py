"""Grouping of alerts by a real Alertmanager with the shipped routing."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.alerts.test_alertmanager_config import SEVERITIES
from tests.exporter.running import free_port
from tests.lab.alertmanager import Alertmanager, Pager, rehearsed
from tests.lab.cluster import await_true
from tests.lab.paging import CONFIG

EAST = {"cluster": "east"}
GPU_1 = {**EAST, "node": "node-a", "UUID": "GPU-1"}
GPU_2 = {**EAST, "node": "node-a", "UUID": "GPU-2"}
MOVED = {**EAST, "node": "node-b", "UUID": "GPU-1"}
NODE = {**EAST, "node": "node-a"}
WAITING = "DraguardClaimPending"
STUCK = "DraguardIncidentStuck"
DOWN = "DraguardSourceDown"


def claim(namespace: str, number: int) -> dict[str, str]:
    return {**EAST, "dra_claim_namespace": namespace, "dra_claim_name": f"train-{number}"}


TICKETS: tuple[tuple[str, dict[str, str]], ...] = (
    (STUCK, GPU_1),
    ("DraguardNeedsHuman", GPU_1),
    (STUCK, GPU_2),
    (STUCK, MOVED),
    (DOWN, {**NODE, "source": "kmsg"}),
    (DOWN, {**NODE, "source": "dcgm"}),
    ("DraguardPolicyFileBad", EAST),
    *((WAITING, claim("ml", number)) for number in range(50)),
    ("DraguardClaimMemoryExceeded", claim("ml", 7)),
    (WAITING, claim("research", 0)),
)
GROUPS = {
    frozenset(GPU_1.items()): 2,
    frozenset(GPU_2.items()): 1,
    frozenset(MOVED.items()): 1,
    frozenset(NODE.items()): 2,
    frozenset(EAST.items()): 1,
    frozenset({**EAST, "dra_claim_namespace": "ml"}.items()): 51,
    frozenset({**EAST, "dra_claim_namespace": "research"}.items()): 1,
}
"""The labels of each notification, and how many alerts are in it."""
Groups = dict[frozenset[tuple[str, str]], int]


def posted(name: str, labels: dict[str, str], started: str) -> dict[str, Any]:
    return {
        "labels": {"alertname": name, "severity": SEVERITIES[name], **labels},
        "annotations": {"description": f"{name} of {labels}"},
        "startsAt": started,
    }


def notified(pager: Pager) -> Groups:
    """Return the labels of each group, and how many alerts its largest notification had."""
    groups: Groups = {}
    for notification in pager.taken("/draguard-ticket"):
        labels = frozenset(notification["groupLabels"].items())
        groups[labels] = max(groups.get(labels, 0), len(notification["alerts"]))
    return groups


def test_a_gpu_a_node_and_the_claims_of_a_namespace_are_one_notification_each(
    alertmanager_built: Path, tmp_path: Path
) -> None:
    started = datetime.now(UTC).isoformat()  # noqa: TID251 - a server compares it with its clock
    with Pager() as pager:
        config = rehearsed(CONFIG, tmp_path, pager.url, minute=1)
        with Alertmanager(alertmanager_built, tmp_path, config, port=free_port()) as server:
            server.post([posted(name, labels, started) for name, labels in TICKETS])
            with suppress(AssertionError):
                await_true("each group", lambda: notified(pager) == GROUPS)
            assert notified(pager) == GROUPS
