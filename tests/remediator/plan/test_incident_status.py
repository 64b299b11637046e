"""What the status of an incident tells: phases, affected pods, what others did, in bounds."""

import msgspec
import pytest

from exporter.model.node_health import MemoryHealth
from exporter.model.resource_slices import Taint
from remediator.model.incident_status import PODS_LIMIT, SCHEMA_VERSION, TIMELINE_LIMIT
from remediator.model.node import NodeFacts
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import ForeignRule
from remediator.plan.view import NodeView
from tests.remediator.builders import (
    DRIVER,
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
    report_with,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import ENFORCE, EVICTS_LATER, claim, pod, settle, tick


class TestDrained:
    def evicting(self, pods: tuple[PodFacts, ...] | None) -> tuple[Stored, NodeView]:
        stored = Stored()
        seen = view(dead(), claims=(claim("gpu-0"),), pods=pods)
        for second, rows in ((1, EVICTS_LATER), (5, ENFORCE)):
            settle(stored, seen, second, rows)
        assert stored.incident.status.phase == "Evicting"
        return stored, seen

    def test_empty_means_seen_twice_ten_seconds_apart(self) -> None:
        stored, _ = self.evicting(pods=(pod(),))
        empty = view(dead(), pods=())

        assert settle(stored, empty, 20).wake_at == at(30)
        settle(stored, empty, 29)
        assert stored.incident.status.phase == "Evicting"
        settle(stored, empty, 30)
        assert stored.incident.status.phase == "Drained"
        assert stored.incident.status.eviction.drained_at == at(30)

    def test_somebody_who_comes_back_starts_it_anew(self) -> None:
        stored, seen = self.evicting(pods=(pod(),))
        settle(stored, view(dead(), pods=()), 20)
        settle(stored, seen, 25)
        settle(stored, view(dead(), pods=()), 29)

        settle(stored, view(dead(), pods=()), 38)
        assert stored.incident.status.phase == "Evicting"
        settle(stored, view(dead(), pods=()), 39)
        assert stored.incident.status.phase == "Drained"

    def test_a_pod_that_gave_its_claim_back_and_still_runs_is_not_gone(self) -> None:
        stored, _ = self.evicting(pods=(pod(),))

        for second in (20, 40):
            settle(stored, view(dead(), pods=(pod(terminating=True),)), second)
        assert stored.incident.status.phase == "Evicting"

        for second in (50, 60):
            settle(stored, view(dead(), pods=(pod(running=False),)), second)
        assert stored.incident.status.phase == "Drained"

    def test_pods_that_still_run_are_looked_at_again_less_and_less_often(self) -> None:
        stored, seen = self.evicting(pods=(pod(),))
        still = view(dead(), pods=(pod(terminating=True),))

        assert settle(stored, seen, 6).wake_at is None
        assert settle(stored, still, 7).wake_at == at(12)
        assert settle(stored, still, 45).wake_at == at(65)
        assert settle(stored, still, 1000).wake_at == at(1060)

    def test_a_pod_on_another_slice_ends_no_looks(self) -> None:
        stored, one = Stored(), mig_gpu(0, xid(94, gi=5))
        mine, others = claim(SLICE_5), claim("gpu-0-mig-1g10gb-19-0", "other")
        seen = view(one, claims=(mine, others), pods=(pod(), pod("other")))
        for second in (1, 5):
            settle(stored, seen, second)
        assert stored.incident.status.phase == "Evicting"

        still = view(one, claims=(others,), pods=(pod(terminating=True), pod("other")))

        assert settle(stored, still, 7).wake_at == at(12)

    def test_a_pod_of_the_same_name_is_another_pod(self) -> None:
        stored, _ = self.evicting(pods=(pod(),))

        for second in (20, 30):
            settle(stored, view(dead(), pods=(pod(uid="u-2"),)), second)

        assert stored.incident.status.phase == "Drained"

    def test_pods_that_could_not_be_listed_are_not_gone(self) -> None:
        stored, _ = self.evicting(pods=(pod(),))

        for second in (20, 40):
            settle(stored, view(dead(), pods=None), second)
        assert stored.incident.status.phase == "Evicting"

    def test_who_never_held_anything_need_not_be_listed(self) -> None:
        stored = Stored()
        for second in (1, 5, 11):
            settle(stored, view(dead()), second)

        assert stored.incident.status.phase == "Drained"

    def test_a_pod_with_admin_access_that_stays_uses_nothing(self) -> None:
        look = claim("gpu-0", "dcgm", admin_access=True)
        stored, both = Stored(), (pod(), pod("dcgm"))
        for second in (1, 5):
            settle(stored, view(dead(), claims=(claim("gpu-0"), look), pods=both), second)
        assert stored.incident.status.phase == "Evicting"

        for second in (20, 30):
            settle(stored, view(dead(), claims=(look,), pods=(pod("dcgm"),)), second)
        assert stored.incident.status.phase == "Drained"


class TestRepair:
    def drained(self) -> Stored:
        stored = Stored()
        for second in (1, 5, 11):
            settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), second)
        assert stored.incident.status.phase == "Drained"
        assert stored.incident.status.repair.needs == "GPUReset"
        return stored

    def test_a_reset_is_seen_by_its_epoch_and_then_verified(self) -> None:
        stored = self.drained()
        away = gpu(0, xid(95), epoch=3, presence="Unknown", recovery_action=action(1, 1, 1))
        settle(stored, view(away), 100)
        assert stored.incident.status.phase == "Repairing"

        back = gpu(0, xid(95), epoch=3, epoch_started=at(100), recovery_action=action(0, 110, 110))
        settle(stored, view(back), 120)
        assert stored.incident.status.phase == "Verifying"
        assert stored.incident.status.repair.needs == "Nothing"

    def test_a_reset_that_has_not_helped_yet_says_what_was_seen(self) -> None:
        stored = self.drained()

        settle(stored, view(gpu(0, xid(95), epoch=3, recovery_action=RESET)), 100)

        assert stored.incident.status.phase == "Repairing"
        assert "reset seen: epoch 3" in stored.incident.status.message

    @pytest.mark.parametrize(
        ("ceiling", "phase"), [("NoSchedule", "Repairing"), ("NoExecute", "Evicting")]
    )
    def test_pods_are_in_the_way_of_a_repair_only_where_they_are_evicted(
        self, ceiling: str, phase: str
    ) -> None:
        stored, rows = Stored(), policy(ceiling=ceiling)
        used = view(gpu(0, xid(95), recovery_action=RESET), claims=(claim("gpu-0"),), pods=(pod(),))
        for second in (1, 5, 6):
            settle(stored, used, second, rows)

        reset = view(gpu(0, xid(95), epoch=3, recovery_action=RESET))
        settle(stored, with_fields(used, report=reset.agent.report), 100, rows)

        assert stored.incident.status.phase == phase

    def test_a_fault_after_the_reset_is_not_a_repair(self) -> None:
        stored = self.drained()

        again = gpu(0, xid(95, seen=150, epoch=3), epoch=3, recovery_action=action(1, 151, 151))
        settle(stored, view(again), 160)

        assert stored.incident.status.phase == "Drained"
        assert stored.incident.status.stay.epoch == 3

    def test_a_reboot_is_seen_by_its_boot_id(self) -> None:
        stored = self.drained()
        seen = view(gpu(0, xid(95), recovery_action=RESET))
        after = with_fields(seen, report=report_with(seen, boot_id="boot-2"))

        settle(stored, after, 100)

        assert stored.incident.status.phase == "Repairing"
        assert "reboot seen: boot boot-2" in stored.incident.status.message

    def test_a_gpu_that_is_away_after_draining_is_being_repaired(self) -> None:
        stored = self.drained()

        settle(stored, view(gpu(1)), 100)

        assert stored.incident.status.phase == "Repairing"
        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_a_silent_agent_is_no_repair(self) -> None:
        stored = self.drained()

        settle(stored, view(gpu(1), stale="silent"), 100)

        assert stored.incident.status.phase == "Drained"

    def test_what_is_needed_is_remembered_while_nothing_is_known(self) -> None:
        stored = self.drained()

        settle(stored, view(gpu(1), stale="silent"), 100)

        assert stored.incident.status.repair.needs == "GPUReset"


class TestVerifying:
    @pytest.mark.parametrize(("errors", "released"), [(2, True), (3, False), (0, True)])
    def test_a_memory_error_more_starts_the_soak_anew(self, errors: int, released: bool) -> None:
        stored = Stored()
        settle(stored, view(gpu(0, recovery_action=RESET)), 1)
        healthy = gpu(0, recovery_action=action(0, 9, 9), memory=MemoryHealth(dbe_aggregate=2))
        settle(stored, view(healthy), 10)
        assert stored.incident.status.recovery.dbe_aggregate == 2

        later = msgspec.structs.replace(healthy, memory=MemoryHealth(dbe_aggregate=errors))
        settle(stored, view(later), 300)
        settle(stored, view(later), 610)
        assert (stored.effects() == {}) is released

        settle(stored, view(later), 900)
        assert stored.effects() == {}

    def test_a_memory_error_in_the_last_moment_of_the_soak_releases_nothing(self) -> None:
        stored = Stored()
        for second in (1, 5):
            settle(stored, view(gpu(0, recovery_action=RESET)), second)
        healthy = gpu(0, recovery_action=action(0, 9, 9), memory=MemoryHealth(dbe_volatile=0))
        settle(stored, view(healthy), 10)

        settle(
            stored, view(msgspec.structs.replace(healthy, memory=MemoryHealth(dbe_volatile=1))), 610
        )

        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_a_class_that_is_only_observed_verifies_in_enforce_mode(self) -> None:
        stored = Stored()
        rows = policy(ceiling="observe", sticky=False)
        settle(stored, view(gpu(0, recovery_action=RESET)), 1, rows)
        assert stored.effects() == {}

        settle(stored, view(gpu(0, xid(95), recovery_action=action(0, 9, 9))), 10, rows)

        assert stored.incident.status.phase == "Verifying"


class TestReported:
    def test_each_entry_says_what_was_seen_decided_and_done_and_by_which_row(self) -> None:
        stored = Stored()
        for second in (1, 5):
            settle(stored, view(dead()), second)

        for entry in stored.incident.status.timeline:
            assert entry.text.startswith("seen: ")
            for part in ("; decided: ", "; done: ", "; row "):
                assert part in entry.text
        opening, evicting = (entry.text for entry in stored.incident.status.timeline)
        assert "XID 79" in opening
        assert "done: NoSchedule on 1 device" in opening
        assert "done: NoExecute on 1 device" in evicting

    def test_others_taints_rules_and_cordons_are_shown(self) -> None:
        sick = dead()
        (device,) = published(sick)
        device = msgspec.structs.replace(
            device, taints=(Taint("gpu.nvidia.com/xid", "79", "None"),)
        )
        theirs = ForeignRule("theirs", DRIVER, NODE, "gpu-0", "them.example/bad", "NoSchedule")
        other = ForeignRule("other", DRIVER, NODE, "gpu-9", "them.example/bad", "NoSchedule")
        stored = Stored()
        seen = view(
            sick,
            inventory=(device,),
            foreign=(theirs, other),
            facts=NodeFacts(name=NODE, cordons=("NVSentinel: cordoned by x",)),
            nodes_known=True,
        )
        settle(stored, seen, 1)

        assert stored.incident.status.scope.foreign == (
            "NVSentinel: cordoned by x",
            "rule theirs: them.example/bad:NoSchedule",
            "taint gpu.nvidia.com/xid=79:None on gpu-0",
        )

    def test_what_others_did_is_bounded_and_says_so(self) -> None:
        many = tuple(
            ForeignRule(f"theirs-{index:02}", DRIVER, "", "", "them.example/bad", "None")
            for index in range(40)
        )
        stored = Stored()
        settle(stored, view(dead(), foreign=many), 1)

        assert len(stored.incident.status.scope.foreign) == 16
        assert stored.incident.status.scope.foreign[-1] == "and 25 more"

    def test_peers_are_informed(self) -> None:
        stored = Stored()
        one = dead()
        settle(stored, view(one, domains={one.uuid: ("node-b/GPU-1",)}), 1)

        assert stored.incident.status.scope.informed == ("node-b/GPU-1",)

    def test_hundreds_of_holders_are_counted_beyond_the_limit(self) -> None:
        stored = Stored()
        claims = tuple(claim("gpu-0", f"train-{index:03}") for index in range(300))
        pods = tuple(pod(f"train-{index:03}") for index in range(300))
        for second in (1, 5):
            settle(stored, view(dead(), claims=claims, pods=pods), second)
        assert len(stored.incident.status.scope.affected) == PODS_LIMIT
        assert stored.incident.status.scope.affected_left_out == 300 - PODS_LIMIT

        settle(stored, view(dead(), claims=claims[:40]), 6)
        settle(stored, view(dead()), 7)

        assert len(stored.incident.status.eviction.evicted) == PODS_LIMIT

    def test_would_taint_is_remembered_while_nothing_is_known(self) -> None:
        stored, seen, rows = Stored(), view(dead()), policy(mode="incident-only")
        settle(stored, seen, 1, rows)
        settle(stored, with_fields(seen, stale="silent"), 50, rows)

        assert len(stored.incident.status.scope.would_taint) == 1

    def test_the_timeline_is_bounded_whatever_is_reported_at_once(self) -> None:
        stored = Stored()
        for second in range(1, 300, 2):
            settle(stored, view(gpu(0, recovery_action=action(1, second, second))), second)
            tick(stored, view(gpu(0, recovery_action=action(0, second, second))), second + 1)

        assert len(stored.incident.status.timeline) == TIMELINE_LIMIT


def test_a_phase_stays_as_it_is_while_nothing_is_known() -> None:
    stored = Stored()
    settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), 1)
    healthy = action(0, since=100, observed=100)
    mended = view(gpu(0, xid(95), recovery_action=healthy))
    settle(stored, mended, 100)
    assert stored.incident.status.phase == "Verifying"

    settle(stored, with_fields(mended, stale="silent"), 200)
    assert stored.incident.status.phase == "Verifying"


def test_it_has_the_schema_version_of_its_writer() -> None:
    stored = Stored()
    settle(stored, view(dead()), 1)

    assert stored.incident.status.schema_version == SCHEMA_VERSION == 2
