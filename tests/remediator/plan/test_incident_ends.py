"""The four reasons for which a rule goes, and moments that look like one and are none."""

from typing import Any

import msgspec
import pytest

from exporter.model.node_health import Inventory
from remediator.model.node import NodeFacts
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import DeleteRule
from remediator.plan.view import AgentView, NodeView, SliceView
from tests.remediator.builders import (
    LASTS,
    NODE,
    RESET,
    SLICE_5,
    Stored,
    action,
    at,
    dead,
    gpu,
    mig_gpu,
    policy,
    published,
    report,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import ENFORCE, claim, settle, tick

DAY = 86400.0


def texts(stored: Stored) -> list[str]:
    return [entry.text for entry in stored.incident.status.timeline]


def evicting() -> Stored:
    """A dead GPU that pods are being evicted from."""
    stored = Stored()
    for second in (1, 5):
        settle(stored, view(dead()), second)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    return stored


class TestARuleThatSomebodyDeletes:
    def tainted(self) -> tuple[Stored, NodeView]:
        stored, seen = Stored(), view(dead())
        for second in (1, 5, 20):
            settle(stored, seen, second)
        return stored, seen

    def test_is_made_again_and_settles_anew(self) -> None:
        stored, seen = self.tainted()
        stored.rules.clear()

        settle(stored, seen, 100)
        assert stored.effects() == {"gpu-0": "NoSchedule"}
        settle(stored, seen, 104)
        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_keeps_new_work_away_while_nothing_is_known(self) -> None:
        stored, seen = self.tainted()
        stored.rules.clear()

        for second in (100, 200):
            settle(stored, with_fields(seen, stale="silent"), second)

        assert stored.effects() == {"gpu-0": "NoSchedule"}

    def test_stays_away_while_it_is_ignored(self) -> None:
        stored, seen = self.tainted()
        stored.intend("Ignore", LASTS)

        for second in (100, 200):
            settle(stored, seen, second)

        assert stored.effects() == {}

    def test_a_deletion_of_ours_that_a_crash_cut_off_is_decided_anew(self) -> None:
        """A mode is lowered, the process dies after the deletion, and the mode is raised again."""
        stored, seen = self.tainted()
        now = at(100)
        for step in decide_node(stored.over(seen), stored.fleet(), policy(mode="off"), now).steps:
            stored.take(step, now)
            if isinstance(step, DeleteRule):
                break
        assert stored.effects() == {}

        for second in (101, 105):
            settle(stored, seen, second)

        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_another_board_under_the_name_is_tainted_whatever_was_deleted(self) -> None:
        stored, _ = self.tainted()
        stored.rules.clear()
        fresh = dead(uuid=uuid(77))

        for second in (100, 104):
            settle(stored, view(fresh), second)

        assert stored.effects() == {"gpu-0": "NoExecute"}


class TestNodeGone:
    GONE = NodeView(
        node=NODE,
        nodes_known=True,
    )

    def test_after_seven_days_the_rules_go_and_the_incident_says_so(self) -> None:
        stored = evicting()

        decision = settle(stored, self.GONE, 100)
        assert stored.incident.status.stay.node_gone_since == at(100)
        assert decision.wake_at == at(100 + 7 * DAY)
        settle(stored, self.GONE, 99 + 7 * DAY)
        assert stored.effects() == {"gpu-0": "NoExecute"}

        settle(stored, self.GONE, 100 + 7 * DAY)
        assert stored.effects() == {}
        assert stored.incident.status.phase == "Closed"
        assert stored.incident.status.message == "node node-a has been gone for 7 days"
        assert {condition.status for condition in stored.incident.status.conditions} == {"False"}

    def test_a_node_that_comes_back_starts_it_anew(self) -> None:
        stored = evicting()
        settle(stored, self.GONE, 100)
        back = NodeView(
            node=NODE,
            nodes_known=True,
            facts=NodeFacts(name=NODE),
        )
        settle(stored, back, 6 * DAY)
        assert stored.incident.status.stay.node_gone_since is None

        settle(stored, self.GONE, 6.5 * DAY)
        settle(stored, self.GONE, 8 * DAY)

        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_a_node_that_is_back_when_we_look_again_after_a_week_is_not_gone(self) -> None:
        stored = evicting()
        settle(stored, self.GONE, 100)
        back = NodeView(
            node=NODE,
            nodes_known=True,
            facts=NodeFacts(name=NODE),
        )

        settle(stored, back, 8 * DAY)

        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert stored.incident.open

    def test_a_node_that_is_reported_is_not_gone(self) -> None:
        stored = Stored()
        settle(stored, view(dead()), 1)

        for day in (1, 9):
            settle(stored, view(dead(), nodes_known=True), day * DAY)

        assert stored.effects() != {}
        assert stored.incident.open

    def test_a_moment_without_nodes_costs_none_of_the_week(self) -> None:
        stored = evicting()
        settle(stored, self.GONE, 100)
        for day in range(1, 7):
            settle(stored, with_fields(self.GONE, nodes_known=False), day * DAY)
            settle(stored, self.GONE, day * DAY + 60)

        settle(stored, self.GONE, 100 + 7 * DAY)

        assert stored.effects() == {}

    def test_nodes_that_are_not_read_are_not_gone(self) -> None:
        stored = evicting()

        for day in (1, 9, 30):
            settle(
                stored,
                NodeView(
                    node=NODE,
                ),
                day * DAY,
            )

        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_a_fault_that_stands_when_the_node_is_back_is_tainted_again(self) -> None:
        stored = evicting()
        for second in (100, 100 + 7 * DAY):
            settle(stored, self.GONE, second)

        for second in (0, 4):
            settle(stored, view(dead()), 8 * DAY + second)

        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert len(stored.incidents) == 2


class TestMoves:
    def there(self, **fields: object) -> NodeView:
        """The board of node-a's gpu-0, sick as before, in node-b."""
        sick = with_fields(dead(), presence="Present", recovery_action=RESET, **fields)
        return view(sick, node="node-b")

    def test_the_incident_goes_on_where_the_board_is(self) -> None:
        stored = Stored()
        settle(stored, view(dead()), 1)

        settle(stored, self.there(), 1000)

        assert stored.incident.node == "node-b"
        assert len(stored.incidents) == 1
        assert {rule.device.pool for rule in stored.rules.values()} == {"node-a", "node-b"}

    @pytest.mark.parametrize(
        "seen",
        [
            NodeView(
                node=NODE,
                slices=SliceView(decided_by={uuid(0): "node-b"}),
            ),
            NodeView(
                node=NODE,
                agent=AgentView(
                    report=report(),
                ),
                slices=SliceView(decided_by={uuid(0): "node-b"}),
            ),
        ],
    )
    def test_a_node_with_a_rule_alone_leaves_the_incident_to_the_other(
        self, seen: NodeView
    ) -> None:
        stored = Stored()
        settle(stored, view(dead()), 1)
        settle(stored, self.there(), 1000)

        assert tick(stored, seen, 1001).steps == []

    def test_the_old_node_takes_its_rule_down_when_it_reports_without_the_board(self) -> None:
        stored = Stored()
        settle(stored, view(dead()), 1)
        settle(stored, self.there(), 1000)
        empty = NodeView(
            node=NODE,
            agent=AgentView(
                report=report(),
            ),
            slices=SliceView(
                elsewhere={uuid(0): ("node-b",)},
                decided_by={uuid(0): "node-b"},
            ),
        )

        self.alone(stored, empty, 1001)
        settle(stored, self.there(), 1002)

        assert {rule.device.pool for rule in stored.rules.values()} == {"node-b"}

    def alone(self, stored: Stored, seen: NodeView, seconds: float) -> None:
        """Reconcile a node with what the world shows of it: its own rules and incidents."""
        own = with_fields(
            stored.over(seen),
            rules=tuple(rule for rule in stored.rules.values() if rule.node == seen.node),
            incidents=tuple(
                incident for incident in stored.incidents.values() if incident.node == seen.node
            ),
        )
        for step in decide_node(own, stored.fleet(), ENFORCE, at(seconds)).steps:
            stored.take(step, at(seconds))

    def test_another_board_under_the_old_name_frees_it_and_opens_no_second_incident(self) -> None:
        stored = Stored()
        settle(stored, view(dead()), 1)
        settle(stored, self.there(), 1000)
        fresh = gpu(0, uuid=uuid(77))
        seen = view(fresh, elsewhere={uuid(0): ("node-b",)}, decided_by={uuid(0): "node-b"})

        self.alone(stored, seen, 1001)

        assert {rule.device.pool for rule in stored.rules.values()} == {"node-b"}
        assert len(stored.incidents) == 1

    def test_of_several_old_names_only_the_one_with_another_board_is_freed(self) -> None:
        stored = Stored()
        settle(stored, view(mig_gpu(0, recovery_action=RESET)), 1)
        (slot,) = [device for device in published(mig_gpu(0)) if device.device.device == SLICE_5]
        other = msgspec.structs.replace(slot, uuid="MIG-9", parent_uuid=uuid(77))
        seen = NodeView(
            node=NODE,
            slices=SliceView(
                inventory=(other,),
                elsewhere={uuid(0): ("node-b",)},
                decided_by={uuid(0): "node-b"},
            ),
        )
        stored.incidents.clear()  # it is stored under node-b, where the world shows it

        self.alone(stored, seen, 1000)

        assert len(stored.effects()) == 6
        assert stored.incidents == {}

    @pytest.mark.parametrize("why", ["the agent of node-a has been silent", ""])
    def test_a_claim_of_another_node_alone_frees_nothing(self, why: str) -> None:
        stored = evicting()
        claimed = {uuid(0): ("node-b",)}
        seen = view(dead(), elsewhere=claimed) if not why else view(stale=why, elsewhere=claimed)

        settle(stored, seen, 1000)

        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_recovery_where_the_board_is_frees_the_old_name_too(self) -> None:
        stored = Stored()
        settle(stored, view(dead()), 1)
        mended = view(gpu(0), node="node-b")

        for second in (1000, 1600):
            settle(stored, mended, second)

        assert stored.effects() == {}
        assert stored.incident.status.phase == "Recovered"


class TestLeftovers:
    def test_of_two_open_incidents_the_older_leads_and_the_younger_is_closed(self) -> None:
        stored, seen = Stored(), view(dead())
        settle(stored, seen, 1)
        first = stored.incident
        second = msgspec.structs.replace(
            first,
            metadata=msgspec.structs.replace(
                first.metadata, name=first.name[:-1] + "2", uid="uid-2", resource_version="7"
            ),
        )
        stored.incidents[second.name] = second

        settle(stored, seen, 5)

        assert stored.incidents[first.name].open
        younger = stored.incidents[second.name].status
        assert (younger.phase, younger.history.duplicate_of) == ("Closed", first.name)
        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert {rule.incident for rule in stored.rules.values()} == {first.name}

    def test_an_old_error_of_a_lost_status_is_none_of_the_later_incident(self) -> None:
        stored, first, second = Stored(), xid(94, gi=1), xid(94, 900, gi=5)

        def both(now: float) -> NodeView:
            sick = mig_gpu(0, first, second, recovery_action=action(0, observed=now))
            return view(sick, report=report(sick, observed_at=at(now)))

        for now in (2, 6, 700):
            sick = mig_gpu(0, first, recovery_action=action(0, observed=now))
            settle(stored, view(sick, report=report(sick, observed_at=at(now))), now)
        for now in (902, 906):
            settle(stored, both(now), now)
        old, new = sorted(stored.incidents)
        assert not stored.incidents[old].open

        stored.loses_status(old)
        tick(stored, both(1000), 1000)

        assert stored.effects().keys() == {SLICE_5}
        assert not any("instance 1" in line for line in stored.incidents[new].status.fault.evidence)

    def test_an_incident_without_a_status_is_gone_on_with(self) -> None:
        stored, seen = Stored(), view(dead())
        decision = decide_node(stored.over(seen), stored.fleet(), ENFORCE, at(1))
        for step in decision.steps[:2]:
            stored.take(step, at(1))

        for second in (10, 14):
            settle(stored, seen, second)

        assert stored.incident.status.phase == "Evicting"

    def test_a_second_rule_on_the_same_device_goes(self) -> None:
        stored, seen = Stored(), view(dead())
        for second in (1, 5, 20):
            settle(stored, seen, second)
        (rule,) = stored.rules.values()
        copy = msgspec.structs.replace(rule, uid="uid-copy", stored_as="a-copy")

        seen = with_fields(seen, leftovers=(copy,))
        decision = decide_node(stored.over(seen), stored.fleet(), ENFORCE, at(21))

        assert [step.stored.uid for step in decision.steps if isinstance(step, DeleteRule)] == [
            "uid-copy"
        ]

    def test_a_lowered_mode_takes_the_rule_down_in_one_write(self) -> None:
        stored, seen = Stored(), view(dead())
        for second in (1, 5, 20):
            settle(stored, seen, second)

        decision = tick(stored, seen, 21, policy(mode="incident-only"))

        assert [type(step).__name__ for step in decision.steps] == ["DeleteRule"]

    def test_rules_go_while_the_incident_grows_worse(self) -> None:
        stored = Stored()
        settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), 1)

        worse = view(gpu(0, xid(95), xid(79, seen=4), recovery_action=RESET))
        decision = tick(stored, worse, 5, policy(mode="incident-only"))
        settle(stored, worse, 5, policy(mode="incident-only"))

        assert [type(step).__name__ for step in decision.steps] == ["DeleteRule", "WriteStatus"]
        for second in (6, 10):
            settle(stored, worse, second)
        assert stored.incident.status.fault.cause == "xid-79"
        assert stored.effects() == {"gpu-0": "NoExecute"}


def test_an_observed_class_neither_taints_nor_waits() -> None:
    stored = Stored()
    seen = view(dead(), claims=(claim("gpu-0"),))
    decision = settle(stored, seen, 1, policy(ceiling="observe"))

    assert stored.effects() == {}
    assert stored.incident.status.phase == "Suspected"
    assert decision.wake_at is None or decision.wake_at > at(3)


class TestARepairThatWasConfirmedBeforeTheGpuWentAway:
    """A user has reset it, and its node is rebooted in the soak time."""

    def rebooted(self, confirmed_at: float, **inventory: Any) -> Stored:
        stored = evicting()
        well = gpu(0, epoch=2, epoch_started=at(60), recovery_action=action(0, 60, 70))
        seen = view(
            gpu(1), report=report(gpu(1), boot_id="boot-2", inventory=Inventory(**inventory))
        )
        for second in (70, 80, 300, 302, 400):
            if second == confirmed_at:
                stored.intend("RepairConfirmed", LASTS)
            settle(stored, view(well, gpu(1)) if second < 300 else seen, second)
        return stored

    @pytest.mark.parametrize(
        "inventory",
        [
            {"seen": 1, "on_bus": 2, "set_aside": 1},
            {"seen": 1, "on_bus": 2, "missing": ("0000:01:00.0",)},
            {"seen": 1, "on_bus": 1, "set_aside": 0},
        ],
        ids=["another driver has it", "it is on the bus", "it is gone"],
    )
    def test_says_nothing_of_its_removal(self, inventory: dict[str, Any]) -> None:
        stored = self.rebooted(70, **inventory)
        assert (stored.effects(), stored.incident.open) == ({"gpu-0": "NoExecute"}, True)

    def test_is_another_one_than_that_of_a_gpu_that_was_taken_out(self) -> None:
        stored = self.rebooted(302, seen=1, on_bus=1, set_aside=0)
        assert stored.effects() == {}
        assert stored.incident.status.phase == "Closed"

    def test_counts_for_a_removal_where_the_bus_cannot_be_read(self) -> None:
        assert self.rebooted(302, seen=1).effects() == {}
