"""Promises of the design that hold in any incident, found by making incidents up."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.model.node_health import GpuHealth, RecoveryAction, XidRecord
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import ChangeRule
from remediator.plan.view import NodeView
from tests.lab.examples import examples
from tests.remediator.builders import Stored, action, at, gpu, mig_gpu, view, with_fields, xid
from tests.remediator.playing import ENFORCE, effect_of, only_names_moved, settle, tick

_XIDS = st.builds(
    xid,
    st.sampled_from([13, 31, 43, 48, 63, 79, 94, 95, 119, 154, 9999]),
    seen=st.integers(0, 30),
    gi=st.sampled_from([None, 1, 5, 9]),
    reset=st.sampled_from([None, True, False]),
)
_ACTIONS = st.one_of(
    st.builds(action, st.integers(0, 9), st.integers(-50, 40), st.integers(0, 60)),
    st.just(RecoveryAction()),
    st.just(RecoveryAction(support="Unsupported")),
)


@st.composite
def _gpus(draw: st.DrawFn, index: int) -> GpuHealth:
    records: list[XidRecord] = draw(st.lists(_XIDS, max_size=3))
    build = draw(st.sampled_from([gpu, mig_gpu]))
    return build(
        index,
        *records,
        recovery_action=draw(_ACTIONS),
        presence=draw(st.sampled_from(["Present", "Present", "Lost", "Unknown"])),
    )


@st.composite
def _incidents(draw: st.DrawFn) -> list[tuple[float, NodeView]]:
    views = [view(draw(_gpus(0)), draw(_gpus(1))) for _ in range(draw(st.integers(1, 4)))]
    stale = draw(st.lists(st.sampled_from(["", "", "silent"]), min_size=4, max_size=4))
    times = sorted(draw(st.lists(st.integers(1, 900), min_size=4, max_size=4, unique=True)))
    return [
        (float(second), with_fields(seen, stale=why))
        for second, seen, why in zip(times, views, stale, strict=False)
    ]


@settings(max_examples=examples(150), deadline=None)
@given(_incidents(), st.data())
def test_a_crash_after_any_step_changes_nothing_in_the_end(
    incident: list[tuple[float, NodeView]], data: st.DataObject
) -> None:
    calm, broken = Stored(), Stored()
    for second, seen in incident:
        settle(calm, seen, second)
        steps = decide_node(broken.over(seen), broken.fleet(), ENFORCE, at(second)).steps
        for step in steps[: data.draw(st.integers(0, len(steps)))]:
            broken.take(step, at(second))
        settle(broken, seen, second)

        assert calm.effects() == broken.effects()
        assert _reported(calm) == _reported(broken)


def _reported(stored: Stored) -> dict[str, tuple[str, str]]:
    return {
        name: (incident.status.fault.fault_class, incident.status.phase)
        for name, incident in stored.incidents.items()
    }


@settings(max_examples=examples(150), deadline=None)
@given(_incidents())
def test_no_eviction_without_a_settled_taint_on_the_whole_scope(
    incident: list[tuple[float, NodeView]],
) -> None:
    stored = Stored()
    for second, seen in incident:
        reported = {
            known.spec.uuid: known.status for known in stored.incidents.values() if known.open
        }
        decision = tick(stored, seen, second)
        for step in decision.steps:
            if effect_of(step) != "NoExecute":
                continue
            assert isinstance(step, ChangeRule)
            if step.stored.effect == "NoExecute":
                continue  # it is not raised, only reported anew
            status = reported[step.rule.gpu]
            assert status.eviction.tainted_at is not None
            assert at(second) >= status.eviction.tainted_at + timedelta(seconds=3)
            recorded = {record.device for record in status.scope.rules if record.effect != "None"}
            (planned,) = [planned for _, planned in decision.pairs if planned.uuid == step.rule.gpu]
            assert {str(rule.device) for rule in planned.rules} <= recorded
        settle(stored, seen, second)


@settings(max_examples=examples(150), deadline=None)
@given(_incidents())
def test_what_a_blind_moment_shows_changes_no_rule_but_by_name(
    incident: list[tuple[float, NodeView]],
) -> None:
    stored = Stored()
    for second, seen in incident:
        before = dict(stored.rules)
        settle(stored, seen, second)
        if seen.agent.stale:
            only_names_moved(before, stored, seen)
