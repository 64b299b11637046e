"""What holds of a handover, whatever the node looks like."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from remediator.diagnose.fault import NODE_LEVEL
from remediator.model.claim import Claim
from remediator.model.node import HARDWARE_READY, REPAIR_NEEDED, NodeCondition
from remediator.model.pod import PodFacts
from remediator.plan.board import Board
from remediator.plan.node_condition import (
    MESSAGE_LIMIT,
    OFF,
    HandoverOptions,
)
from remediator.plan.stages import Planned
from remediator.plan.view import NodeView
from tests.remediator.builders import at
from tests.remediator.plan.handover import (
    EKS,
    HEALTHY,
    ON,
    SICK,
    UNKNOWN,
    node,
    pair,
    pod,
    reported,
    stored,
)
from tests.remediator.playing import claim

verdicts = st.sampled_from([SICK, SICK, HEALTHY, UNKNOWN])
pairs_drawn = st.lists(
    st.builds(
        pair,
        st.integers(0, 7),
        st.sampled_from(["node-reboot", "node-reboot", "replacement", "gpu-reset"]),
        verdicts,
        deferred=st.sampled_from(["", "budget"]),
        closing=st.sampled_from([False, False, True]),
        cause=st.sampled_from(["xid-79", "gpu-lost", "é" * 700]),
        mode=st.sampled_from(["Enforce", "Enforce", "DryRun"]),
        since=st.sampled_from([None, at(0), at(3000)]),
    ),
    max_size=5,
    unique_by=lambda pair: pair[0].uuid,
)
conditions_drawn = st.sampled_from(
    [
        (),
        (stored(),),
        (stored("False"),),
        (stored(), stored("False", HARDWARE_READY)),
        (stored("False"), stored("True", HARDWARE_READY)),
    ]
)


def drawn_node(
    old: tuple[NodeCondition, ...], pods: tuple[PodFacts, ...] | None, claims: tuple[Claim, ...]
) -> NodeView:
    return node(*old, pods=pods, claims=claims)


nodes_drawn = st.builds(
    drawn_node,
    conditions_drawn,
    st.sampled_from([None, (), (pod("train-0"),)]),
    st.sampled_from([(), (claim("gpu-1"),)]),
)
options_drawn = st.sampled_from([OFF, ON, EKS])
moments = st.sampled_from([60.0, 3600.0, 7000.0])


@given(nodes_drawn, pairs_drawn, moments, options_drawn, st.sampled_from(["", "drill"]))
def test_promises_over_any_node(
    seen: NodeView,
    pairs: list[tuple[Board, Planned]],
    seconds: float,
    options: HandoverOptions,
    stopped: str,
) -> None:
    found = reported(seen, *pairs, seconds=seconds, options=options, stopped=stopped)
    assert seen.facts is not None
    before = {condition.type: condition for condition in seen.facts.conditions or ()}
    after = {**before, **found}

    for kind, condition in found.items():
        old = before.get(kind)
        assert len(condition.message.encode()) <= MESSAGE_LIMIT
        assert condition.reason.isalnum()
        same = old is not None and old.status == condition.status
        assert condition.last_transition_time == (at(-500) if same else at(seconds))
    turned = found.get(REPAIR_NEEDED)
    was = before.get(REPAIR_NEEDED)
    if turned and turned.status == "True" and not (was and was.status == "True"):
        assert options.enabled
        assert not stopped
        assert any(
            board.verdict is SICK
            and planned.demanded.repair.needs in NODE_LEVEL
            and not (planned.granted.deferred or planned.course.is_over)
            for board, planned in pairs
        )

    facts = msgspec.structs.replace(seen.facts, conditions=tuple(after.values()))
    settled = msgspec.structs.replace(seen, facts=facts)
    again = reported(settled, *pairs, seconds=seconds, options=options, stopped=stopped)
    assert again == {}, "a second look at what was written writes again"
    backwards = reported(seen, *pairs[::-1], seconds=seconds, options=options, stopped=stopped)
    assert backwards == found, "the order of observation matters"
