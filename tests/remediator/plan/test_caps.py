"""How far one fault may go, cap by cap: each row of the table at its edge."""

from datetime import timedelta
from typing import Any

import pytest

from exporter.model.device import Instance
from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.fault import Fault, Need, Record, Sick
from remediator.model.claim import ADMIN
from remediator.model.incident_status import (
    AffectedPod,
    Hardware,
    RuleRecord,
    SeenSignal,
    Target,
    WouldTaint,
)
from remediator.model.taint_rule import Effect, Rule, rule_name
from remediator.plan.board import Board
from remediator.plan.effects import Demand, demands_of, goal, notice, pending, would
from remediator.plan.stages import Wake
from remediator.plan.view import RefusedRule, Trust
from remediator.policy.table import SHIPPED, Evict, Mode, Policy, Row, Then
from tests.remediator.builders import (
    DRIVER,
    NODE,
    action,
    at,
    evictions,
    fault,
    gpu,
    incident,
    make_board,
    mig_gpu,
    published,
    rule,
    slice_uuid,
    with_fields,
)
from tests.remediator.playing import pod

NOW = 100.0
CERTAIN = fault(certain=True, sources=("Kmsg", "NvmlEvent"))
TAINT = rule(0, uid="u1")
RECORDED = RuleRecord("r", "u1", f"{DRIVER}/{NODE}/gpu-0", "NoSchedule")


def board_of(*stored: Rule, **fields: Any) -> Board:
    one = fields.pop("gpu", gpu(0))
    inventory: tuple[SliceDevice, ...] = published(one) if one else ()
    parts: dict[str, Any] = {"inventory": inventory} | fields
    return make_board(Sick((CERTAIN,)), gpu=one, stored=stored, **parts)


def policy_with(row: Row) -> Policy:
    others = (one for one in SHIPPED if one.fault_class != row.fault_class)
    return Policy(rows=(row, *others))


def demand(board: Board, found: Fault = CERTAIN, tainted: float | None = 0, **row: Any) -> Demand:
    """What one fault demands at NOW, of an incident whose taint stands since then."""
    status: dict[str, Any] = {"rules": (RECORDED,)}
    status |= {"tainted_at": None if tainted is None else at(tainted)}
    standard = Row(fault_class=found.fault_class, ceiling="NoExecute", mode="enforce")
    rows = policy_with(with_fields(standard, **row))
    (answer,) = demands_of(board, incident(0, **status), [found], rows, at(NOW))
    return answer


def limit_of(answer: Demand) -> tuple[str, Effect | None]:
    return answer.cap.name, answer.effect


def test_a_certain_fault_whose_taint_has_settled_is_capped_by_nothing() -> None:
    assert limit_of(demand(board_of(TAINT))) == ("nothing", "NoExecute")


WATCHES = AffectedPod("team", "dcgm", "look", f"{DRIVER}/{NODE}/gpu-0", "u-dcgm", via=ADMIN)


class TestWords:
    """What an incident says of its pods is so: it is what users read first."""

    USES = AffectedPod("team", "train-0", "claim", f"{DRIVER}/{NODE}/gpu-0", "u-train-0")

    def test_pods_are_evicted_while_one_is_there(self) -> None:
        answer = demand(board_of(TAINT, holders=(self.USES, WATCHES)))

        assert answer.cap.reason.endswith("settle time over: pods are evicted")

    @pytest.mark.parametrize(
        ("needs", "words"),
        [("gpu-reset", "a reset of the GPU"), ("node-reboot", "a reboot of the node")],
    )
    @pytest.mark.parametrize("holders", [(), (WATCHES,)])
    @pytest.mark.parametrize("evict", [Evict(), Evict(within=timedelta(minutes=5))])
    def test_once_none_is_left_what_is_waited_for_is_named(
        self, needs: Need, words: str, holders: tuple[AffectedPod, ...], evict: Evict
    ) -> None:
        found = with_fields(CERTAIN, needs=needs)

        answer = demand(board_of(TAINT, holders=holders, pods=()), found, evict=evict)

        assert answer.cap.reason.endswith(f"no pod is left, and it waits for {words}")

    @pytest.mark.parametrize(
        "fields",
        [
            {"trust": Trust({"claims": "refused"}), "pods": ()},
            {"pods": None},
            {"pods": (pod(plugin_resources=("nvidia.com/gpu",)),)},
        ],
        ids=["claims cannot be read", "pods are not listed", "a device plugin gave it out"],
    )
    def test_while_others_may_use_it_nobody_says_that_none_is_left(
        self, fields: dict[str, Any]
    ) -> None:
        answer = demand(board_of(TAINT, **fields))

        assert answer.cap.reason.endswith("settle time over: pods are evicted")


class TestSettle:
    @pytest.mark.parametrize(
        ("settle", "limit"),
        [(100.0, ("nothing", "NoExecute")), (100.001, ("settle", "NoSchedule"))],
    )
    def test_no_pod_is_evicted_before_the_taint_has_settled(
        self, settle: float, limit: tuple[str, Effect]
    ) -> None:
        answer = demand(board_of(TAINT), settle=timedelta(seconds=settle))

        assert limit_of(answer) == limit

    def test_the_settle_time_ends_by_itself_and_says_when(self) -> None:
        answer = demand(board_of(TAINT), settle=timedelta(seconds=130))

        assert (answer.cap.until, answer.goal) == (at(130), "NoExecute")
        assert answer.wake is not None
        assert answer.wake.at == at(130)


class TestSiblings:
    @pytest.mark.parametrize(
        ("stored", "tainted"),
        [
            ((), 0),  # nothing stands
            ((rule(0, "None", uid="u1"),), 0),  # a None rule keeps nothing away
            ((rule(0, uid="made anew"),), 0),  # not recorded yet
            ((TAINT,), None),
        ],
    )
    def test_no_pod_is_evicted_before_all_devices_are_tainted_and_recorded(
        self, stored: tuple[Rule, ...], tainted: float | None
    ) -> None:
        assert limit_of(demand(board_of(*stored), tainted=tainted)) == ("siblings", "NoSchedule")

    def test_one_fault_waits_for_the_devices_of_another_of_its_gpu(self) -> None:
        """A pod that is evicted from one slice must not land on one that is about to be tainted."""
        sliced = mig_gpu(0, slices=2)
        first, second = (
            with_fields(CERTAIN, fault_class="contained", instance=Instance(gi, 0)) for gi in (1, 2)
        )
        row = Row(fault_class="contained", ceiling="NoExecute", mode="enforce")
        name = published(sliced)[0].device
        stands = rule(0, device=name, uuid=slice_uuid(0, 1), fault="contained", uid="u1")
        part = Hardware(
            uuid=slice_uuid(0, 1),
            effect="NoSchedule",
            fault="contained",
            cause="xid-94",
            tainted_time=at(0),
        )
        opened = incident(0, rules=(RECORDED,), tainted_at=at(0), hardware=(part,))
        board = board_of(stands, gpu=sliced)

        alone = demands_of(board, opened, [first], policy_with(row), at(NOW))
        both = demands_of(board, opened, [first, second], policy_with(row), at(NOW))

        assert [limit_of(answer) for answer in alone] == [("nothing", "NoExecute")]
        assert [limit_of(answer) for answer in both] == [("siblings", "NoSchedule")] * 2


class TestCeilings:
    @pytest.mark.parametrize(
        ("ceiling", "limit"),
        [
            ("observe", ("observed", None)),
            ("None", ("ceiling", "None")),
            ("NoSchedule", ("ceiling", "NoSchedule")),
            ("NoExecute", ("nothing", "NoExecute")),
        ],
    )
    def test_a_class_goes_as_far_as_its_ceiling(
        self, ceiling: str, limit: tuple[str, Effect | None]
    ) -> None:
        answer = demand(board_of(TAINT), ceiling=ceiling)

        assert limit_of(answer) == limit
        assert answer.goal == (limit[1] or "None")

    def test_a_gpu_that_is_not_reported_gets_no_rule(self) -> None:
        assert limit_of(demand(board_of(TAINT, gpu=None))) == ("unreported", None)

    def test_what_any_program_may_have_written_gets_no_rule(self) -> None:
        forged = with_fields(CERTAIN, sources=("Syslog",))

        assert limit_of(demand(board_of(TAINT), forged)) == ("forgeable", None)

    def test_an_instance_that_is_not_published_gets_no_rule(self) -> None:
        lost = with_fields(CERTAIN, instance=Instance(9, 0))

        assert limit_of(demand(board_of(TAINT, gpu=mig_gpu(0)), lost)) == ("unpublished", None)

    def test_incomplete_evidence_evicts_no_pod(self) -> None:
        doubtful = with_fields(CERTAIN, doubt="only the kernel log reports it")
        answer = demand(board_of(TAINT), doubtful)

        assert limit_of(answer) == ("evidence", "NoSchedule")
        assert "only the kernel log reports it" in answer.cap.reason

    @pytest.mark.parametrize(
        ("started", "limit"),
        [
            (-1.0, ("nothing", "NoExecute")),
            (1.0, ("later pods", "NoSchedule")),
            (3600.0, ("later pods", "NoSchedule")),  # by a clock that is ahead
            (None, ("later pods", "NoSchedule")),  # not yet
        ],
    )
    def test_an_error_that_is_over_evicts_no_pod_that_came_after_it(
        self, started: float | None, limit: tuple[str, Effect]
    ) -> None:
        over = with_fields(CERTAIN, ended=at(0))
        held = AffectedPod("team", "train-0", "claim", f"{DRIVER}/{NODE}/gpu-0", "u-train-0")
        train = pod("train-0", started=None if started is None else at(started))
        board = board_of(TAINT, holders=(held,), pods=(train,))

        assert limit_of(demand(board, over)) == limit

    def test_a_pod_that_is_not_listed_may_have_been_there(self) -> None:
        over = with_fields(CERTAIN, ended=at(0))
        held = AffectedPod("team", "train-0", "claim", f"{DRIVER}/{NODE}/gpu-0", "u-train-0")

        assert limit_of(demand(board_of(TAINT, holders=(held,), pods=()), over))[0] == "nothing"


class TestRefused:
    """The API server does not let a rule be written: its device is left out, and no other."""

    TWO = mig_gpu(0, slices=2)
    HERE, THERE = (part.device for part in published(TWO))
    WHY = RefusedRule("403 Forbidden: by a policy", at(160))

    def test_no_rule_is_made_and_the_others_go_on(self) -> None:
        there = RuleRecord("r", "there", str(self.THERE), "NoSchedule")
        board = board_of(
            rule(0, device=self.THERE, uid="there"),
            gpu=self.TWO,
            refused={rule_name(self.HERE): self.WHY},
        )
        known = incident(0, rules=(there,), tainted_at=at(0))
        rows = policy_with(Row(fault_class="gpu", ceiling="NoExecute", mode="enforce"))

        answers = demands_of(board, known, [CERTAIN], rows, at(NOW))

        assert [limit_of(answer) for answer in answers] == [
            ("refused", None),
            ("nothing", "NoExecute"),
        ]
        assert not pending(answers)
        waits, goes = answers[0].deferral, answers[1].deferral
        assert goes is None
        assert waits is not None
        assert (waits.by, waits.until) == ("RuleRefused", at(160))
        name = self.HERE.device
        assert waits.why == (
            f"NoExecute deferred: the rule of {name} cannot be written: 403 Forbidden: by a policy"
        )
        assert answers[0].wake == Wake(at(160), answers[0].cap.reason)

    @pytest.mark.parametrize("effect", ["NoSchedule", "Evict"])
    def test_what_stands_is_not_lowered(self, effect: Effect) -> None:
        both = tuple(
            rule(0, effect, device=name, uid=f"u-{name.device}") for name in (self.HERE, self.THERE)
        )
        board = board_of(*both, gpu=self.TWO, refused={both[0].name: self.WHY})
        records = tuple(RuleRecord(rule.name, rule.uid, str(rule.device), effect) for rule in both)
        known = incident(0, rules=records, tainted_at=at(0))
        row = Row(fault_class="gpu", ceiling="NoExecute", mode="enforce")

        first, _ = demands_of(board, known, [CERTAIN], policy_with(row), at(NOW))

        assert (first.cap.name, first.effect, first.goal) == ("refused", effect, "NoExecute")

    def test_where_only_the_words_of_a_rule_are_refused_nothing_is_deferred(self) -> None:
        mine = rule(0, device=self.HERE, uid="mine")
        board = board_of(mine, gpu=self.TWO, refused={mine.name: self.WHY})
        row = Row(fault_class="gpu", ceiling="NoSchedule", mode="enforce")

        first, _ = demands_of(board, incident(0), [CERTAIN], policy_with(row), at(NOW))

        assert (first.effect, first.deferral) == ("NoSchedule", None)


class TestUnserved:
    """No DeviceTaintRules are served: no rule is made, and the incident says which one."""

    @pytest.mark.parametrize("mode", ["enforce", "dry-run", "incident-only"])
    def test_no_rule_is_made_in_any_mode(self, mode: Mode) -> None:
        answer = demand(board_of(served=False), mode=mode)

        assert (limit_of(answer), answer.goal) == (("unserved", None), "NoExecute")
        assert not answer.is_written
        assert would((answer,)) == (WouldTaint(f"{DRIVER}/{NODE}/gpu-0", "NoExecute"),)
        assert (goal((answer,)), notice((answer,)), pending((answer,))) == ("None", None, False)

    @pytest.mark.parametrize(
        ("ceiling", "deferred"),
        [
            ("NoExecute", "NoExecute deferred: DeviceTaintRules are not served by this cluster"),
            ("NoSchedule", "NoSchedule deferred: DeviceTaintRules are not served by this cluster"),
            ("None", "a rule of effect None deferred: DeviceTaintRules are not served"),
        ],
    )
    def test_enforce_defers_what_its_class_would_get(self, ceiling: str, deferred: str) -> None:
        found = demand(board_of(served=False), ceiling=ceiling).deferral

        assert found is not None
        assert found.by == "RulesNotServed"
        assert found.why.startswith(deferred)

    def test_a_milder_mode_defers_nothing(self) -> None:
        assert demand(board_of(served=False), mode="dry-run").deferral is None

    def test_nothing_is_deferred_where_no_device_could_be_tainted(self) -> None:
        assert demand(board_of(served=False, inventory=())).deferral is None

    @pytest.mark.parametrize(
        ("row", "found", "fields", "name"),
        [
            ({"ceiling": "observe"}, CERTAIN, {}, "observed"),
            ({}, with_fields(CERTAIN, sources=("Syslog",)), {}, "forgeable"),
            ({}, CERTAIN, {"gpu": None}, "unreported"),
            (
                {},
                with_fields(CERTAIN, instance=Instance(9, 0)),
                {"gpu": mig_gpu(0)},
                "unpublished",
            ),
            (
                {"patient": True, "settle": timedelta(seconds=101)},
                with_fields(CERTAIN, doubt="no second source"),
                {},
                "better evidence",
            ),
        ],
    )
    def test_what_makes_no_rule_either_comes_first(
        self, row: dict[str, Any], found: Fault, fields: dict[str, Any], name: str
    ) -> None:
        answer = demand(board_of(served=False, **fields), found, **row)

        assert (answer.cap.name, answer.deferral, would((answer,))) == (name, None, ())


class TestEvidenceThatIsWaitedFor:
    doubtful = with_fields(CERTAIN, doubt="no second source")

    @pytest.mark.parametrize(
        ("settle", "limit"),
        [(100.0, ("evidence", "NoSchedule")), (101.0, ("better evidence", None))],
    )
    def test_a_patient_class_waits_for_it_as_long_as_a_taint_settles(
        self, settle: float, limit: tuple[str, Effect | None]
    ) -> None:
        waited = demand(board_of(), self.doubtful, patient=True, settle=timedelta(seconds=settle))

        assert limit_of(waited) == limit
        assert waited.awaits == "no second source"

    def test_what_is_tainted_already_waits_for_nothing(self) -> None:
        answer = demand(board_of(TAINT), self.doubtful, patient=True)

        assert (limit_of(answer), answer.awaits) == (("evidence", "NoSchedule"), "")


class TestRequests:
    @pytest.mark.parametrize(
        ("then", "start", "limit"),
        [
            ("NoExecute", None, ("requests", "Evict")),
            ("NoExecute", 0, ("nothing", "NoExecute")),
            ("NoExecute", 1, ("requests", "Evict")),
            ("wait", 0, ("requests", "Evict")),
        ],
    )
    def test_the_eviction_api_comes_first_for_the_time_that_the_policy_gives(
        self, then: Then, start: float | None, limit: tuple[str, Effect]
    ) -> None:
        plan = Evict(within=timedelta(seconds=100), then=then)
        since = None if start is None else at(start)
        begun = incident(0, rules=(RECORDED,), tainted_at=at(0), by_device=evictions(since))
        row = Row(fault_class="gpu", ceiling="NoExecute", mode="enforce", evict=plan)

        (answer,) = demands_of(board_of(TAINT), begun, [CERTAIN], policy_with(row), at(NOW))

        assert limit_of(answer) == limit


class TestASliceOfAnEarlierIncident:
    """The driver gives instance ids again: an old error must not be read as one of a new slice."""

    def targets(self, meant: tuple[int, ...] | None) -> list[str]:
        error = with_fields(
            CERTAIN,
            fault_class="contained",
            instance=Instance(5, 0),
            record=Record(code=94, gi=5, count=1, first_seen=at(0)),
        )
        seen = SeenSignal(code=94, gpu_instance=5, count=1, first_seen_time=at(0))
        placed = meant and tuple(Target(DRIVER, NODE, "x", slice_uuid(0, gi)) for gi in meant)
        closed = incident(
            0, 1, closed_at=at(50), seen_through=at(0), seen_signals=(seen,), slices=placed
        )
        opened = incident(0, 2)
        board = board_of(gpu=mig_gpu(0, recovery_action=action()), incidents=(closed, opened))
        row = Row(fault_class="contained", ceiling="NoExecute", mode="enforce")
        (answer,) = demands_of(board, opened, [error], policy_with(row), at(NOW))
        return [target.uuid for target in answer.targets]

    @pytest.mark.parametrize(
        ("meant", "slices"),
        [
            (None, [5]),  # an older version did not record it
            ((5,), [5]),
            ((3,), []),
            ((3, 5), [5]),
        ],
    )
    def test_only_what_the_error_meant_when_it_was_new_is_in_scope(
        self, meant: tuple[int, ...] | None, slices: list[int]
    ) -> None:
        assert self.targets(meant) == [slice_uuid(0, gi) for gi in slices]
