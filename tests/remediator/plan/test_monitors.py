"""The node's metrics exporter holds the device by admin access: the incident says that it goes."""

import msgspec
import pytest

from remediator.controller.debug_plan import node_plan
from remediator.model.claim import Claim, Toleration
from remediator.model.pod import PodFacts
from remediator.plan.spared import EVICTS_MONITOR
from remediator.plan.view import NodeView
from remediator.policy.table import Evict, Mode, Policy
from tests.remediator.builders import Stored, dead, policy, view
from tests.remediator.playing import ENFORCE, EVICTS_LATER, claim, pod, settle, tick

EXPORTER = pod("dcgm-exporter-x", owner="DaemonSet/dcgm-exporter")
EVERYTHING = Toleration(operator="Exists", effect="NoExecute")


def looks(*tolerations: Toleration, admin: bool = True) -> Claim:
    """The claim of a metrics exporter: it looks at the device and does not use it."""
    return claim("gpu-0", EXPORTER.name, admin_access=admin, tolerations=tolerations)


def watched(*claims: Claim, facts: PodFacts = EXPORTER) -> NodeView:
    return view(dead(), claims=claims or (looks(),), pods=(facts,))


def stated(stored: Stored) -> str:
    conditions = stored.incident.status.conditions
    found = (stated for stated in conditions if stated.type == EVICTS_MONITOR)
    return next((stated.message for stated in found if stated.status == "True"), "")


def played(seen: NodeView, rows: Policy = ENFORCE, until: float = 1) -> Stored:
    stored = Stored()
    for second in (1.0, until):
        settle(stored, seen, second, rows)
    return stored


def test_the_incident_names_the_exporter_before_it_is_evicted_and_how_to_keep_it() -> None:
    stored = played(watched(), EVICTS_LATER)

    assert stored.effects() == {"gpu-0": "NoSchedule"}
    who = "a pod that watches the GPU (such as a metrics exporter), team/dcgm-exporter-x: "
    assert stated(stored).startswith(f"NoExecute evicts {who}")
    assert "admission.adminAccessNamespaces" in stated(stored)
    assert "docs/install.md" in stated(stored)


def test_the_plan_says_so_too_while_the_taint_settles() -> None:
    stored = played(watched())

    (shown,) = node_plan(tick(stored, watched(), 2), everything=False).gpus
    assert shown.why.startswith("settling for 3 s; NoExecute evicts a pod that watches the GPU")


def test_it_blocks_nothing() -> None:
    stored = played(watched(), until=10)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert stated(stored)
    settle(stored, view(dead(), pods=()), 20)
    assert not stated(stored), "it is gone"


@pytest.mark.parametrize("mode", ["dry-run", "incident-only"])
def test_a_milder_mode_says_what_enforce_would_do(mode: Mode) -> None:
    assert stated(played(watched(), policy(mode=mode), until=10))


@pytest.mark.parametrize(
    "toleration",
    [EVERYTHING, Toleration(key="draguard.dev/lost", operator="Exists", effect="NoExecute")],
)
def test_one_that_tolerates_the_taint_is_not_named(toleration: Toleration) -> None:
    assert not stated(played(watched(looks(toleration))))


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration(key="draguard.dev/gpu", operator="Exists", effect="NoExecute"),
        Toleration(operator="Exists", effect="NoSchedule"),
        Toleration(operator="Exists", effect="NoExecute", toleration_seconds=300),
    ],
)
def test_another_toleration_does_not_keep_it(toleration: Toleration) -> None:
    assert stated(played(watched(looks(toleration))))


def test_a_pod_that_uses_the_device_or_is_of_no_daemonset_is_not_named() -> None:
    assert not stated(played(watched(looks(admin=False))))
    assert not stated(played(watched(facts=msgspec.structs.replace(EXPORTER, owner="Job/look"))))


@pytest.mark.parametrize(
    "rows", [policy(ceiling="NoSchedule"), policy(evict=Evict(then="wait")), policy(mode="off")]
)
def test_nothing_is_reported_where_noexecute_never_comes(rows: Policy) -> None:
    stored = Stored()
    for second in (1.0, 10.0):
        for _ in range(4):
            tick(stored, watched(), second, rows)

    assert "NoExecute" not in stored.effects().values()
    assert not stored.incidents or not stated(stored)
