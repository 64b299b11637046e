"""One rule that the API server refuses costs its device the taint, and the others nothing."""

from collections.abc import Callable, Generator
from datetime import datetime, timedelta

import msgspec
import pytest

from exporter.model.node_health import GpuHealth, RecoveryAction, XidRecord
from kubeapi import clock
from kubeapi.client import ApiError
from remediator.controller.refused_rules import (
    FAILS_FOR,
    FIRST_WAIT,
    FORGOTTEN_AFTER,
    LONGEST_WAIT,
    RefusedRules,
)
from remediator.model.taint_rule import rule_name
from remediator.plan.board import RENEWALS_NEEDED
from remediator.plan.steps import ChangeRule, CreateRule, DeleteRule, Step
from remediator.reconcile import StepsFailedError
from tests.remediator.builders import DRIVER, NODE, at, mig_gpu, published, rule
from tests.remediator.clock import Clock
from tests.remediator.controller.api import INCIDENTS, RULES, Json, admits_all, serving
from tests.remediator.controller.test_blind_watches import SETTLED, Room, leader

SLICES = tuple(part.device for part in published(mig_gpu(0, slices=3)))
NAMES = tuple(part.device for part in SLICES)
FIRST = rule_name(SLICES[0])
ITS_OWN = {"key": "example.com/mine", "value": "x", "effect": "None"}


class SlicedRoom(Room):
    """A GPU of three slices, and how long ago its rules were refused."""

    def __init__(self, room: Room, elapsed: Clock) -> None:
        super().__init__(room.api, room.cluster)
        self.elapsed, self.began = elapsed, clock.now()
        self.hash = ""

    def state(self, *, epoch: int = 1, action: int = 0, xid: int = 0) -> None:
        """Report the GPU, and let its agent confirm that."""
        before, now = self.began - timedelta(hours=2), clock.now()
        error = XidRecord(
            code=xid,
            count=1,
            first_seen=self.began,
            last_seen=self.began,
            epoch=1,
            sources=("kmsg", "nvml"),
        )
        answer = RecoveryAction(
            support="Supported",
            value=action,
            since=now if action or epoch > 1 else before,
            observed_at=now + timedelta(seconds=1),
        )
        sick = msgspec.structs.replace(
            mig_gpu(0, slices=3),
            recovery_action=answer,
            xids=(error,) if xid else (),
            presence_since=before,
            epoch=epoch,
            epoch_started=now if epoch > 1 else before,
        )
        self.hash = f"{epoch}-{action}-{xid}"
        self._is_observed(sick)

    def _is_observed(self, sick: GpuHealth) -> None:
        self.publish(sick)
        self.report(sick, content_hash=self.hash)
        self.renew(self.hash)

        def known() -> bool:
            view = self.cluster.peek(NODE)
            here = view.agent.report and view.agent.report.content_hash == self.hash
            return bool(here) and len(view.slices.inventory) == len(SLICES)

        self.seen("the report is observed", known)

    def look(self, ahead: timedelta = timedelta(), times: int = 6) -> None:
        """Reconcile some times, at one moment, whatever is refused."""
        self.ahead = ahead
        for _ in range(times):
            try:
                self.reconciler.reconcile(NODE, clock.now() + ahead)
            except StepsFailedError:
                continue

    def heals(self) -> None:
        self.state(epoch=2)
        self.look()
        for ahead in (timedelta(hours=1), timedelta(hours=2)):
            self.renew_leases()
            self.look(ahead)

    def renew_leases(self) -> None:
        """Let the agent confirm its report, as often as a soak needs it."""
        for _ in range(RENEWALS_NEEDED + 1):
            before = self.renewals
            self.renew(self.hash)
            self.seen("a renewal", lambda before=before: self.renewals != before)

    @property
    def renewals(self) -> tuple[datetime, ...]:
        return self.cluster.peek(NODE).agent.renewals

    @property
    def status(self) -> Json:
        (one,) = self.api.stored[INCIDENTS].values()
        return one["status"]

    def deferral(self) -> tuple[str, str]:
        """Return reason and message of the condition, where it is true."""
        (found,) = (each for each in self.status["conditions"] if each["type"] == "Deferred")
        is_true = found["status"] == "True"
        return (found["reason"], found["message"]) if is_true else ("", "")


@pytest.fixture
def room() -> Generator[SlicedRoom]:
    elapsed = Clock()
    with serving() as served, leader(*served, elapsed=elapsed) as room:
        sliced = SlicedRoom(room, elapsed)
        sliced.state()
        yield sliced


def its_name_is_taken(room: Room) -> None:
    selector = {"driver": DRIVER, "pool": NODE, "device": NAMES[0]}
    room.api.put(RULES, FIRST, spec={"deviceSelector": selector, "taint": ITS_OWN})


def it_may_not_be_made(room: Room) -> None:
    room.api.admits = lambda verb, name, _: (verb, name) != ("POST", FIRST)


def it_is_free(room: Room) -> None:
    room.api.admits = admits_all
    if room.api.stored[RULES].get(FIRST, {}).get("spec", {}).get("taint") == ITS_OWN:
        room.api.drop(RULES, FIRST)


@pytest.mark.parametrize(
    ("refuse", "why"),
    [(its_name_is_taken, "exists and is not Draguard's"), (it_may_not_be_made, "no")],
)
def test_the_other_slices_are_tainted_and_evicted_from_and_the_incident_names_it(
    room: SlicedRoom, refuse: Callable[[Room], None], why: str
) -> None:
    refuse(room)
    room.state(action=1, xid=95)

    room.look()
    assert {name: room.api.effects().get(name) for name in NAMES[1:]} == dict.fromkeys(
        NAMES[1:], "NoSchedule"
    )
    room.look(SETTLED)

    effects = room.api.effects()
    assert [effects.get(name) for name in NAMES] in (
        ["None", "NoExecute", "NoExecute"],
        [None, "NoExecute", "NoExecute"],
    )
    reason, message = room.deferral()
    assert reason == "RuleRefused"
    assert f"the rule of {NAMES[0]} cannot be written: " in message
    assert why in message
    assert room.status["message"].startswith(message)


@pytest.mark.parametrize("refuse", [its_name_is_taken, it_may_not_be_made])
def test_it_is_tried_again_and_then_settles_like_any_other(
    room: SlicedRoom, refuse: Callable[[Room], None]
) -> None:
    refuse(room)
    room.state(action=1, xid=95)
    room.look()
    it_is_free(room)
    room.look(SETTLED)
    assert room.api.effects().get(NAMES[0]) is None, "not tried again yet"

    room.elapsed.seconds += FIRST_WAIT
    room.look(SETTLED)
    assert room.api.effects() == {
        NAMES[0]: "NoSchedule",
        NAMES[1]: "NoExecute",
        NAMES[2]: "NoExecute",
    }
    assert room.deferral() == ("", "")
    room.look(2 * SETTLED)
    assert set(room.api.effects().values()) == {"NoExecute"}


@pytest.mark.parametrize("refuse", [its_name_is_taken, it_may_not_be_made])
def test_the_gpu_recovers_without_it(room: SlicedRoom, refuse: Callable[[Room], None]) -> None:
    refuse(room)
    room.state(action=1, xid=95)
    room.look()

    room.heals()

    assert room.api.effects().keys() <= {NAMES[0]}
    assert room.status["phase"] == "Recovered"


def test_a_rule_that_may_not_be_raised_stays_and_stops_no_other(room: SlicedRoom) -> None:
    room.state(action=1, xid=95)
    room.look()

    def admits(verb: str, name: str, body: Json) -> bool:
        taint = body.get("spec", {}).get("taint", {})
        return (name, taint.get("effect")) != (FIRST, "NoExecute")

    room.api.admits = admits
    room.look(SETTLED)

    assert room.api.effects() == {
        NAMES[0]: "NoSchedule",
        NAMES[1]: "NoExecute",
        NAMES[2]: "NoExecute",
    }
    assert room.deferral()[0] == "RuleRefused"
    assert room.status["phase"] in {"Evicting", "Drained"}

    room.api.admits = admits_all
    room.elapsed.seconds += FIRST_WAIT
    room.look(SETTLED)
    assert set(room.api.effects().values()) == {"NoExecute"}


def test_a_rule_that_may_not_be_deleted_stays_alone_until_it_may(room: SlicedRoom) -> None:
    room.state(action=1, xid=95)
    room.look()
    room.api.admits = lambda verb, name, _: (verb, name) != ("DELETE", FIRST)

    room.heals()
    assert room.api.effects().keys() == {NAMES[0]}
    assert room.status["phase"] == "Verifying"
    assert room.deferral() == (
        "RuleRefused",
        f"the rule of {NAMES[0]} cannot be removed or lowered: 403: no",
    )

    room.api.admits = admits_all
    room.elapsed.seconds += LONGEST_WAIT
    room.look(timedelta(hours=2))
    assert room.api.effects() == {}
    assert room.status["phase"] == "Recovered"


def test_a_rule_whose_key_was_edited_is_made_again_and_the_gpu_recovers(room: SlicedRoom) -> None:
    room.state(action=1, xid=95)
    room.look()
    spec = room.api.stored[RULES][FIRST]["spec"]
    room.api.put(RULES, FIRST, spec=spec | {"taint": ITS_OWN})
    room.seen("the edit", lambda: len(room.cluster.peek(NODE).stored.rules) == len(SLICES) - 1)

    room.look(SETTLED)
    assert set(room.api.effects().values()) == {"NoSchedule"}
    room.look(2 * SETTLED)
    assert set(room.api.effects().values()) == {"NoExecute"}
    room.heals()

    assert room.api.effects() == {}
    assert room.status["phase"] == "Recovered"


class TestTheMemory:
    REFUSED = ApiError("POST /rules: 403 Forbidden: by a policy", status=403)

    def test_a_rule_is_tried_again_later_each_time_and_forgotten_once_it_is_written(self) -> None:
        elapsed = Clock()
        memory, step = RefusedRules(elapsed), CreateRule(rule(0))
        waits: list[float] = []
        for _ in range(8):
            memory.on_failed(step, self.REFUSED)
            (one,) = memory.refusals(elapsed.date()).values()
            assert one.why == "403 Forbidden: by a policy"
            waits.append((one.until - elapsed.date()).total_seconds())
            elapsed.seconds += waits[-1]
            assert memory.refusals(elapsed.date()) == {}

        assert waits[:3] == [FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT]
        assert waits[-1] == LONGEST_WAIT

        memory.on_done(step)
        memory.on_failed(step, self.REFUSED)
        (one,) = memory.refusals(at(0)).values()
        assert one.until == at(FIRST_WAIT)

    def test_an_error_of_the_api_server_counts_once_there_is_no_other_answer(self) -> None:
        elapsed, failing = Clock(), ApiError("POST /rules: 500: webhook x failed", status=500)
        memory, step = RefusedRules(elapsed), CreateRule(rule(0))

        memory.on_failed(step, failing)
        elapsed.seconds += FAILS_FOR
        memory.on_done(step)
        memory.on_failed(step, failing)
        assert memory.refusals(elapsed.date()) == {}

        elapsed.seconds += FAILS_FOR
        memory.on_failed(step, failing)
        (one,) = memory.refusals(elapsed.date()).values()
        assert one.why == "500: webhook x failed"

    def test_an_error_long_ago_does_not_count(self) -> None:
        elapsed, failing = Clock(), ApiError("POST /rules: 500: webhook x failed", status=500)
        memory, step = RefusedRules(elapsed), CreateRule(rule(0))

        memory.on_failed(step, failing)
        elapsed.seconds += FORGOTTEN_AFTER
        memory.refusals(elapsed.date())
        memory.on_failed(step, failing)

        assert memory.refusals(elapsed.date()) == {}

    def test_the_first_words_of_a_refusal_stay(self) -> None:
        memory, step = RefusedRules(Clock()), CreateRule(rule(0))
        for number in range(3):
            memory.on_failed(step, ApiError(f"POST /rules: 403: request {number}", status=403))

        (one,) = memory.refusals(at(0)).values()
        assert one.why == "403: request 0"

    @pytest.mark.parametrize("status", [None, 404, 409, 429, 500, 503])
    def test_what_another_try_may_change_is_no_refusal(self, status: int | None) -> None:
        memory = RefusedRules(Clock())

        memory.on_failed(CreateRule(rule(0)), ApiError("no", status=status))

        assert memory.refusals(at(0)) == {}

    def test_a_rule_may_be_refused_under_each_of_its_names(self) -> None:
        memory = RefusedRules(Clock())
        copy = rule(1, stored_as="a-copy")

        memory.on_failed(ChangeRule(copy, rule(2)), self.REFUSED)

        assert memory.refusals(at(0)).keys() == {rule(2).name, "a-copy"}

    @pytest.mark.parametrize(
        "step", [DeleteRule(rule(0), ""), ChangeRule(rule(0, "NoExecute"), rule(0, "NoSchedule"))]
    )
    def test_what_may_not_be_lowered_or_removed_may_still_be_raised(self, step: Step) -> None:
        memory = RefusedRules(Clock())

        memory.on_failed(step, self.REFUSED)

        assert memory.refusals(at(0)) == {}
        assert memory.refusals(at(0), freeing=True).keys() == {rule(0).name}

        memory.on_done(step)
        assert memory.refusals(at(0), freeing=True) == {}
