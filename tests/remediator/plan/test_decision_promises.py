"""Promises about a GPU's incident that hold whatever happens and whatever people say."""

from datetime import timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.model.node_health import GpuHealth, RecoveryAction
from remediator.diagnose.fault import Healthy
from remediator.model.intent import Intent, Kind
from remediator.model.taint_rule import EFFECTS
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import ChangeRule, CreateRule, DeleteRule
from remediator.plan.view import NodeView
from remediator.plan.words import severity
from remediator.policy.table import Policy, Repeat
from tests.lab.examples import examples
from tests.remediator.builders import (
    LASTS,
    Stored,
    action,
    at,
    dead,
    gpu,
    mig_gpu,
    policy,
    until,
    uuid,
    view,
    xid,
)
from tests.remediator.playing import only_names_moved, settle, tick

SHORT = policy(soak=timedelta(seconds=30), repeat=Repeat(count=2, within=timedelta(days=1)))
POLICIES = {"enforce": SHORT, "off": policy(mode="off"), "mild": policy(ceiling="NoSchedule")}
_SEEING = ("", "", "", "silent")
_WORDS: tuple[tuple[Kind, Intent | None], ...] = (
    ("Hold", LASTS),
    ("Ignore", until(300)),
    ("RepairConfirmed", LASTS),
    ("Hold", until(2)),
    ("Hold", None),
    ("Ignore", None),
)


class Moment(msgspec.Struct, frozen=True):
    """One thing that happens: the hardware, what is known of it, what people say and do."""

    seconds: float
    seen: NodeView
    rows: str = "enforce"
    word: tuple[Kind, Intent | None] | None = None
    deletes: bool = False


@st.composite
def _gpus(draw: st.DrawFn) -> GpuHealth:
    if draw(st.booleans()):
        return draw(st.sampled_from([dead(), gpu(0), mig_gpu(0)]))
    records = draw(
        st.lists(
            st.builds(
                xid,
                st.sampled_from([31, 48, 79, 94, 95, 119, 154]),
                seen=st.integers(0, 400),
                gi=st.sampled_from([None, 1, 5]),
            ),
            max_size=2,
        )
    )
    build = draw(st.sampled_from([gpu, mig_gpu]))
    requested = st.builds(action, st.integers(0, 4), st.integers(0, 500), st.integers(0, 900))
    return build(
        0,
        *records,
        recovery_action=draw(st.one_of(requested, st.just(RecoveryAction()))),
        epoch=draw(st.sampled_from([1, 1, 2])),
    )


@st.composite
def incidents(draw: st.DrawFn, *, policies: bool = True, people: bool = True) -> list[Moment]:
    times = sorted(draw(st.lists(st.integers(1, 900), min_size=2, max_size=6, unique=True)))
    found: list[Moment] = []
    for second in times:
        stale = draw(st.sampled_from(_SEEING))
        found.append(
            Moment(
                float(second),
                view(draw(_gpus()), stale=stale, nodes_known=bool(stale)),
                draw(st.sampled_from(["enforce", "enforce", *POLICIES])) if policies else "enforce",
                draw(st.one_of(st.none(), st.sampled_from(_WORDS))) if people else None,
                people and draw(st.integers(0, 5)) == 0,
            )
        )
    return found


def people_act(stored: Stored, moment: Moment) -> None:
    if moment.word and len(stored.incidents) == 1:
        stored.intend(*moment.word)
    if moment.deletes and stored.rules:
        del stored.rules[min(stored.rules)]


def rows_of(moment: Moment) -> Policy:
    return POLICIES[moment.rows]


@settings(max_examples=examples(60), deadline=None)
@given(incidents(people=False, policies=False))
def test_severity_falls_only_by_verified_recovery(incident: list[Moment]) -> None:
    stored = Stored()
    for moment in incident:
        before = {name: known for name, known in stored.incidents.items() if known.open}
        decision = tick(stored, moment.seen, moment.seconds, SHORT)
        for name, old in before.items():
            new = stored.incidents[name]
            assert severity(new.status.fault.fault_class) >= severity(old.status.fault.fault_class)
        (planned,) = [answer for _, answer in decision.pairs] or [None]
        for step in decision.steps:
            if isinstance(step, ChangeRule):
                assert EFFECTS.index(step.rule.effect) >= EFFECTS.index(step.stored.effect)
            if (
                isinstance(step, DeleteRule)
                and planned is not None
                and planned.course.kind != "closes"
            ):
                assert step.stored.fault == "contained"  # a source has named the slice
        settle(stored, moment.seen, moment.seconds, SHORT)


@settings(max_examples=examples(60), deadline=None)
@given(incidents())
def test_a_rule_goes_only_for_the_four_reasons(incident: list[Moment]) -> None:
    stored = Stored()
    for moment in incident:
        people_act(stored, moment)
        for _ in range(4):
            open_before = [known for known in stored.incidents.values() if known.open]
            decision = tick(stored, moment.seen, moment.seconds, rows_of(moment))
            gone = [step.stored for step in decision.steps if isinstance(step, DeleteRule)]
            published = {device.device: device.uuid for device in moment.seen.slices.inventory}
            for rule in gone:
                (case, planned) = next(pair for pair in decision.pairs if pair[1].uuid == rule.gpu)
                verified = (planned.course.kind == "closes") and isinstance(case.verdict, Healthy)
                other = published.get(rule.device) not in (None, rule.uuid)
                ends = planned.course.kind == "ends"
                gone_for_a_week = ends and planned.course.reason.startswith("node ")
                person = moment.rows != "enforce" or ends
                person |= any(intent.kind == "Ignore" for intent in planned.record.intents)
                narrowed = rule.fault == "contained" and rule.effect != "NoExecute"
                assert verified or other or gone_for_a_week or person or narrowed, rule
                if verified:
                    (reported,) = open_before
                    since = reported.status.recovery.healthy_since
                    assert since is not None
                    assert at(moment.seconds) - since >= timedelta(seconds=30)


@settings(max_examples=examples(60), deadline=None)
@given(incidents(policies=False))
def test_not_knowing_changes_no_rule_but_by_name_or_by_a_persons_word(
    incident: list[Moment],
) -> None:
    stored = Stored()
    for moment in incident:
        people_act(stored, moment)
        ignored = any("Ignore" in known.spec.intents for known in stored.incidents.values())
        before = dict(stored.rules)
        settle(stored, moment.seen, moment.seconds, SHORT)
        if moment.seen.agent.stale and not ignored:
            only_names_moved(before, stored, moment.seen)


@settings(max_examples=examples(60), deadline=None)
@given(incidents())
def test_nothing_is_made_or_raised_under_a_hold_or_an_ignore(incident: list[Moment]) -> None:
    stored = Stored()
    for moment in incident:
        people_act(stored, moment)
        for _ in range(3):
            decision = tick(stored, moment.seen, moment.seconds, rows_of(moment))
            for _, planned in decision.pairs:
                counts = {
                    intent.kind for intent in planned.record.intents if intent.state == "InForce"
                }
                if not counts & {"Hold", "Ignore"}:
                    continue
                for step in decision.steps:
                    if isinstance(step, CreateRule):
                        assert step.rule in planned.demanded.renamed
                        assert "Ignore" not in counts
                    if isinstance(step, ChangeRule):
                        weaker = EFFECTS.index(step.rule.effect) <= EFFECTS.index(
                            step.stored.effect
                        )
                        assert weaker


@settings(max_examples=examples(60), deadline=None)
@given(incidents(), st.data())
def test_a_crash_after_any_step_leads_to_the_same_end(
    incident: list[Moment], data: st.DataObject
) -> None:
    calm, broken = Stored(), Stored()
    for moment in incident:
        for cluster in (calm, broken):
            people_act(cluster, moment)
        settle(calm, moment.seen, moment.seconds, rows_of(moment))
        now = at(moment.seconds)
        for _ in range(2):
            seen = broken.over(moment.seen)
            steps = decide_node(seen, broken.fleet(), rows_of(moment), now).steps
            for step in steps[: data.draw(st.integers(0, len(steps)))]:
                broken.take(step, now)
        settle(broken, moment.seen, moment.seconds, rows_of(moment))

        assert calm.effects() == broken.effects()
        assert _reported(calm) == _reported(broken)


def _reported(stored: Stored) -> dict[str, tuple[object, ...]]:
    return {
        name: (
            incident.spec,
            incident.status.phase,
            incident.status.recovery.untaint,
            incident.status.history.recurrence,
            incident.status.scope.hardware,
            incident.status.policy.intents,
        )
        for name, incident in stored.incidents.items()
    }


@settings(max_examples=examples(60), deadline=None)
@given(incidents())
def test_the_timeline_says_nothing_twice_at_one_moment(incident: list[Moment]) -> None:
    stored = Stored()
    for moment in incident:
        people_act(stored, moment)
        settle(stored, moment.seen, moment.seconds, rows_of(moment))
    for known in stored.incidents.values():
        stated = [(entry.time, entry.text) for entry in known.status.timeline]
        assert len(stated) == len(set(stated))


def test_the_incidents_do_reach_what_they_are_about() -> None:
    """A guard for the generators: the words and the short soak work as they are written here."""
    stored = Stored()
    settle(stored, view(dead()), 1, SHORT)
    stored.intend(*_WORDS[1])
    settle(stored, view(dead()), 10, SHORT)
    assert stored.effects() == {}
    for second in (301, 305):
        settle(stored, view(dead()), second, SHORT)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert stored.incident.spec.uuid == uuid(0)
