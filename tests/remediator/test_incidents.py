"""Whole incidents through the pure core: views in, steps out, taken by a store in memory."""

import pytest

from remediator.plan.node_decision import decide_node
from remediator.plan.view import Fleet, NodeView
from remediator.policy.table import Policy
from tests.remediator.builders import (
    DRIVER,
    NODE,
    SLICE_5,
    Stored,
    action,
    at,
    dead,
    gpu,
    mig_gpu,
    policy,
    report,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import EVICTS_LATER, claim, effect_of, pod, settle, tick
from tests.remediator.policy.budgets import limits_of


def names(*indexes: int) -> set[str]:
    return {f"gpu-0-mig-1g10gb-19-{index}" for index in indexes}


def test_healthy_gpus_and_application_xids_write_nothing() -> None:
    stored = Stored()
    seen = view(*(gpu(index, xid(31, count=900), xid(43)) for index in range(8)))

    decision = settle(stored, seen, 1)

    assert not stored.taken
    assert decision.sentence == "node-a: 8 healthy, 0 sick, 0 unknown"


def test_the_log_names_two_reasons_why_gpus_are_unknown_and_no_more() -> None:
    away = (gpu(index, presence="Unknown", presence_reason=f"reason {index}") for index in range(3))

    sentence = settle(Stored(), view(*away), 1).sentence

    assert sentence.startswith("node-a: 0 healthy, 0 sick, 3 unknown; unknown: ")
    assert [reason in sentence for reason in ("reason 0", "reason 1", "reason 2")] == [
        True,
        True,
        False,
    ]


def test_a_gpu_off_the_bus_is_tainted_at_once_and_emptied_after_the_settle_time() -> None:
    stored = Stored()
    seen = view(*(dead(3) if index == 3 else gpu(index) for index in range(8)))
    claims = (claim("gpu-3"), claim("gpu-4", "other-0"))
    seen = with_fields(seen, claims=claims, pods=(pod("train-0"),))

    decision = settle(stored, seen, 1)
    assert f"{uuid(3)} xid-79 (" in decision.sentence
    assert stored.effects() == {"gpu-3": "NoSchedule"}
    assert {rule.cause for rule in stored.rules.values()} == {"xid-79"}
    assert stored.incident.status.phase == "Tainted"
    assert [affected.pod for affected in stored.incident.status.scope.affected] == ["train-0"]

    settle(stored, seen, 3.5)
    assert stored.effects() == {"gpu-3": "NoSchedule"}
    assert "settling for 3 s" in stored.incident.status.message

    settle(stored, seen, 4)
    assert stored.effects() == {"gpu-3": "NoExecute"}
    assert stored.incident.status.phase == "Evicting"

    gone = with_fields(seen, claims=(claim("gpu-4", "other-0"),), pods=())
    settle(stored, gone, 5)
    assert stored.incident.status.phase == "Evicting"
    settle(stored, gone, 15)
    assert stored.incident.status.phase == "Drained"
    assert [affected.pod for affected in stored.incident.status.eviction.evicted] == ["train-0"]


def test_new_work_is_kept_away_first_and_reported_right_after() -> None:
    stored = Stored()

    tick(stored, view(dead(0), dead(1)), 1)

    assert [type(step).__name__ for step in stored.taken] == [
        "CreateRule",
        "CreateRule",
        "OpenIncident",
        "OpenIncident",
    ]


def test_a_contained_error_taints_its_slice_and_no_other() -> None:
    stored = Stored()
    seen = view(mig_gpu(0, xid(94, gi=5, reset=False), recovery_action=action(observed=0.1)))

    settle(stored, seen, 1)
    settle(stored, seen, 5)

    assert stored.effects() == {SLICE_5: "NoExecute"}
    assert stored.incident.status.scope.summary == "1 of 7 slices"


def test_the_second_source_names_the_slice_before_anything_is_tainted() -> None:
    stored = Stored()
    without = view(mig_gpu(0, xid(94), recovery_action=action(observed=0.1)))
    with_instance = view(mig_gpu(0, xid(94, gi=5), recovery_action=action(observed=0.1)))

    settle(stored, without, 0.1)
    assert stored.effects() == {}
    assert stored.incident.status.phase in ("Suspected", "Verifying")
    settle(stored, with_instance, 0.3)
    settle(stored, with_instance, 4)

    assert stored.effects() == {SLICE_5: "NoExecute"}


def test_a_contained_error_that_nobody_places_never_moves_a_pod() -> None:
    stored = Stored()
    seen = view(mig_gpu(0, xid(94), recovery_action=action(observed=-1)))

    for second in range(0, 500, 5):
        settle(stored, seen, second)

    assert set(stored.effects()) == names(*range(7))
    assert set(stored.effects().values()) == {"NoSchedule"}


def test_an_uncontained_error_taints_every_slice_before_it_empties_any() -> None:
    stored = Stored()
    seen = view(mig_gpu(0, xid(95), recovery_action=action(1, 1, 1)))

    for second in (1, 2, 3, 4, 5, 9):
        settle(stored, seen, second)

    order = [effect_of(step) for step in stored.taken if effect_of(step)]
    assert order == ["NoSchedule"] * 7 + ["NoExecute"] * 7


def test_recovery_releases_only_after_the_whole_soak_time() -> None:
    stored = Stored()
    sick = view(gpu(0, xid(95), recovery_action=action(1, 1, 1)))
    mended = view(gpu(0, xid(95), recovery_action=action(0, since=100, observed=100)))
    settle(stored, sick, 1)
    settle(stored, sick, 5)

    settle(stored, mended, 100)
    settle(stored, mended, 699)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    settle(stored, mended, 700)

    assert stored.effects() == {}
    assert stored.incident.status.phase == "Recovered"
    assert stored.incident.status.history.closed_at == at(700)
    phases = [entry.phase for entry in stored.incident.status.timeline]
    assert phases == ["Tainted", "Evicting", "Verifying", "Recovered"]


def test_a_closed_incident_is_not_opened_again_and_a_new_fault_is_a_new_one() -> None:
    stored = Stored()
    settle(stored, view(gpu(0, xid(95), recovery_action=action(1, 1, 1))), 1)
    mended = view(gpu(0, xid(95), recovery_action=action(0, since=10, observed=10)))
    for second in (10, 700, 800):
        settle(stored, mended, second)
    assert len(stored.incidents) == 1

    settle(stored, view(gpu(0, xid(95, seen=900), recovery_action=action(1, 901, 901))), 902)

    assert [name[-2:] for name in sorted(stored.incidents)] == ["-1", "-2"]


@pytest.mark.parametrize(
    "blind",
    [
        {"stale": "the agent of node-a has been silent"},
        {"report": None},
        {"elsewhere": {uuid(0): ("node-b",)}},
        {"report": report(), "stale": ""},
    ],
)
def test_not_knowing_adds_nothing_and_takes_nothing_away(blind: dict[str, object]) -> None:
    tainted = Stored()
    sick = view(dead(0))
    settle(tainted, sick, 1, EVICTS_LATER)
    before = tainted.effects()
    for second in (2, 10, 5000):
        settle(tainted, with_fields(sick, **blind), second)
    assert tainted.effects() == before == {"gpu-0": "NoSchedule"}

    fresh = Stored()
    settle(fresh, with_fields(sick, **blind), 1)
    assert not fresh.taken


def test_a_node_that_is_gone_with_its_slices_keeps_its_rules() -> None:
    stored = Stored()
    for second in (1, 5):
        settle(stored, view(dead(0)), second)

    settle(
        stored,
        NodeView(
            node=NODE,
        ),
        5000,
    )

    assert stored.effects() == {"gpu-0": "NoExecute"}


def test_incident_only_names_devices_and_pods_and_writes_no_rule() -> None:
    stored = Stored()
    seen = view(dead(0), claims=(claim("gpu-0"),))

    settle(stored, seen, 1, Policy())
    settle(stored, seen, 60, Policy())

    assert stored.effects() == {}
    status = stored.incident.status
    assert [(taint.device, taint.effect) for taint in status.scope.would_taint] == [
        (f"{DRIVER}/{NODE}/gpu-0", "NoExecute")
    ]
    assert [pod.pod for pod in status.scope.affected] == ["train-0"]


def test_dry_run_marks_only_devices_that_somebody_holds() -> None:
    stored = Stored()
    seen = view(mig_gpu(0, xid(95), recovery_action=action(1, 1, 1)), claims=(claim(SLICE_5),))

    settle(stored, seen, 2, policy(mode="dry-run"))

    assert stored.effects() == {SLICE_5: "None"}


@pytest.mark.parametrize("blind", ["", "the agent of node-a has been silent"])
def test_a_lowered_mode_takes_rules_down_at_once(blind: str) -> None:
    stored = Stored()
    seen = view(dead(0))
    settle(stored, seen, 1)
    settle(stored, seen, 5)
    assert stored.effects() == {"gpu-0": "NoExecute"}

    settle(stored, with_fields(seen, stale=blind), 6, Policy())

    assert stored.effects() == {}


def test_a_ceiling_of_no_schedule_lowers_what_stands() -> None:
    stored = Stored()
    seen = view(dead(0))
    settle(stored, seen, 1)
    settle(stored, seen, 5)

    settle(stored, seen, 6, policy(ceiling="NoSchedule"))

    assert stored.effects() == {"gpu-0": "NoSchedule"}


def test_severity_only_rises_within_an_incident() -> None:
    stored = Stored()
    worse = view(mig_gpu(0, xid(95), recovery_action=action(1, 1, 1)))
    settle(stored, worse, 2)

    later = view(mig_gpu(0, xid(95), xid(94, seen=3, gi=5), recovery_action=action(1, 1, 4)))
    settle(stored, later, 5)

    assert stored.incident.status.fault.fault_class == "gpu"
    assert set(stored.effects()) == names(*range(7))


def test_the_budget_of_a_node_holds_the_third_eviction_and_says_so() -> None:
    stored = Stored()
    seen = view(*(dead(index) for index in range(3)))
    settle(stored, seen, 1)

    settle(stored, seen, 5)

    assert sorted(stored.effects().values()) == ["NoExecute", "NoExecute", "NoSchedule"]
    held = [
        condition.message
        for incident in stored.incidents.values()
        for condition in incident.status.conditions
        if condition.type == "Deferred" and condition.status == "True"
    ]
    assert held == ["NoExecute deferred: budget evict.node=2 is used up (2/2 GPUs of node node-a)"]


def test_the_budget_of_the_cluster_counts_other_nodes_and_reopens_by_itself() -> None:
    stored = Stored()
    tight = policy(limits_of({"evict_gpus_per_cluster": 1}))
    seen = view(dead(0))
    other = Stored()
    settle(other, view(dead(5)), 1)
    settle(other, view(dead(5)), 5)
    elsewhere = tuple(other.rules.values())

    for second in (1, 5, 6):
        for step in decide_node(
            stored.over(seen), Fleet(rules=(*stored.rules.values(), *elsewhere)), tight, at(second)
        ).steps:
            stored.take(step, at(second))
    assert stored.effects() == {"gpu-0": "NoSchedule"}

    settle(stored, seen, 9, tight)
    assert stored.effects() == {"gpu-0": "NoExecute"}


def test_old_faults_that_are_over_open_nothing_when_draguard_is_new() -> None:
    stored = Stored()
    seen = view(gpu(0, xid(95, seen=-4000), recovery_action=action(0, since=-10, observed=0)))

    settle(stored, seen, 1)

    assert not stored.taken
