"""One GPU's trouble costs that GPU: the others, and all deletions, go on."""

from datetime import UTC, datetime

import msgspec
import pytest

from exporter.model.device import Device
from exporter.model.node_health import GpuHealth
from exporter.model.resource_slices import SliceDevice
from kubeapi.client import ApiError
from remediator.diagnose.fault import Unknown
from remediator.plan.events import Event
from remediator.plan.status import EVICTION_REFUSED
from remediator.plan.steps import DeleteRule, Step, WriteStatus, gpu_of
from remediator.plan.view import Fleet, NodeView
from remediator.reconcile import Reconciler, StepsFailedError
from tests.remediator.builders import (
    NODE,
    RESET,
    Stored,
    action,
    at,
    dead,
    gpu,
    policy,
    published,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import EVICTS_LATER, claim, pod, settle, tick


class RefusesOne:
    """Stores every step but those of one GPU, which the server refuses; deletions pass."""

    def __init__(self, seen: NodeView, stored: Stored, refused: str) -> None:
        self.seen = seen
        self.stored = stored
        self.refused = refused
        self.tried: list[Step] = []

    def observe(self, node: str) -> NodeView:
        assert node == self.seen.node
        return self.stored.over(self.seen)

    def confirm(self, *_: object) -> str:
        return ""

    def fleet(self) -> Fleet:
        return self.stored.fleet()

    def apply(self, step: Step) -> None:
        self.tried.append(step)
        if gpu_of(step) == self.refused and not isinstance(step, DeleteRule):
            raise ApiError("422 Unprocessable", status=422)
        self.stored.take(step, at(700))

    def post(self, event: Event, now: datetime) -> None:
        """Events do not matter here."""


def test_a_step_that_always_fails_stops_no_other_gpu_and_no_release() -> None:
    stored = Stored()
    sick = gpu(2, xid(95), recovery_action=action(1, 1, 1))
    mended = gpu(2, xid(95), recovery_action=action(0, 2, 2))
    settle(stored, view(sick), 1)
    settle(stored, view(mended), 2)
    tick(stored, view(mended), 690)
    controller = RefusesOne(view(dead(0), dead(1), mended), stored, refused=uuid(0))

    with pytest.raises(StepsFailedError, match="422"):
        Reconciler(controller, policy).reconcile("node-a", at(700))

    assert stored.effects() == {"gpu-1": "NoSchedule"}
    assert sum(gpu_of(step) == uuid(0) for step in controller.tried) == 1


class RefusesStatuses(RefusesOne):
    def apply(self, step: Step) -> None:
        if isinstance(step, WriteStatus):
            raise ApiError("422 Unprocessable", status=422)
        self.stored.take(step, at(700))


def test_a_lost_status_that_cannot_be_filled_delays_no_noschedule() -> None:
    stored = Stored()
    controller = RefusesStatuses(view(dead(0)), stored, refused=uuid(0))
    loop = Reconciler(controller, policy)
    loop.reconcile("node-a", at(1))
    stored.rules.clear()

    with pytest.raises(StepsFailedError, match="422"):
        loop.reconcile("node-a", at(2))

    assert stored.effects() == {"gpu-0": "NoSchedule"}


def baffling(index: int) -> GpuHealth:
    """A GPU whose report cannot be reckoned with, as no report that was decoded can be."""
    last = datetime.max.replace(tzinfo=UTC)
    both = (msgspec.structs.replace(xid(code), last_seen=last) for code in (48, 63))
    return gpu(index, *both, recovery_action=RESET)


def bug_of(stored: Stored, seen: NodeView, index: int, second: float) -> str:
    pairs = settle(stored, seen, second).pairs
    (verdict,) = [case.verdict for case, _ in pairs if case.uuid == uuid(index)]
    return verdict.bug if isinstance(verdict, Unknown) else ""


def test_a_gpu_that_cannot_be_judged_is_unknown_and_its_neighbour_is_tainted() -> None:
    stored = Stored()

    for second in (1, 5):
        assert "OverflowError" in bug_of(stored, view(baffling(0), dead(1)), 0, second)
    assert stored.effects() == {"gpu-1": "NoExecute"}


def test_a_gpu_that_cannot_be_judged_keeps_the_rules_that_it_has() -> None:
    stored = Stored()
    settle(stored, view(gpu(0, recovery_action=RESET)), 1, EVICTS_LATER)

    for second in (5, 5000):
        assert bug_of(stored, view(baffling(0)), 0, second)

    assert stored.effects() == {"gpu-0": "NoSchedule"}
    assert "a bug of Draguard" in stored.incident.status.message


def test_a_slice_with_an_odd_uuid_is_tainted_like_its_neighbours() -> None:
    sick, stored = gpu(0, xid(95), recovery_action=RESET), Stored()
    odd = SliceDevice(
        device=Device("other.example.com", NODE, "part-0"),
        kind="mig",
        uuid="MIG-GPU-ab/5/0",
        parent_uuid=sick.uuid,
        node=NODE,
    )
    seen = view(sick, dead(1), inventory=(*published(sick), *published(dead(1)), odd))

    for second in (2, 6):
        settle(stored, seen, second)

    assert stored.effects() == dict.fromkeys(["gpu-0", "gpu-1", "part-0"], "NoExecute")


def test_a_gpu_that_cannot_be_decided_about_keeps_its_rules_and_its_neighbour_is_tainted() -> None:
    stored, sick = Stored(), gpu(0, recovery_action=RESET)
    settle(stored, view(sick), 1, EVICTS_LATER)
    incident = stored.incident
    odd = with_fields(incident.status, empty_since=datetime.max.replace(tzinfo=UTC))
    stored.incidents[incident.name] = msgspec.structs.replace(incident, status=odd)

    for second in (5, 9):
        assert "OverflowError" in bug_of(stored, view(sick, dead(1)), 0, second)

    assert stored.effects() == {"gpu-0": "NoSchedule", "gpu-1": "NoExecute"}
    assert "a bug of Draguard" in stored.incidents[incident.name].status.message


class Telling(RefusesOne):
    """Keeps the Events that are posted."""

    def __init__(self, seen: NodeView, stored: Stored, refused: str) -> None:
        super().__init__(seen, stored, refused)
        self.events: list[Event] = []

    def post(self, event: Event, now: datetime) -> None:
        assert now
        self.events.append(event)


def test_events_are_posted_of_every_gpu_whose_status_is_written() -> None:
    stored = Stored()
    seen = view(dead(0), dead(1))
    settle(stored, seen, 1, EVICTS_LATER)
    controller = Telling(seen, stored, refused=uuid(0))

    for second in (5, 6):
        with pytest.raises(StepsFailedError, match="422"):
            Reconciler(controller, policy).reconcile("node-a", at(second))

    evicting = [event.incident for event in controller.events if event.reason == "DeviceEvicting"]
    assert evicting == [f"{uuid(1).lower()}-1"] * 2  # on the incident and on its node


def test_the_incident_names_the_pods_that_cannot_be_evicted_and_why() -> None:
    stored = Stored()
    by_resource_name = tuple(pod(name, extended_claim=f"claim-of-{name}") for name in "ab")
    claims = tuple(claim("gpu-0", name) for name in "ab")
    seen = view(dead(0), claims=claims, pods=by_resource_name)
    for second in (1, 1, 1, 5, 5, 5):
        tick(stored, seen, second)
    refused = with_fields(seen, refusals={"u-a": "500: two budgets", "u-x": "gone"})

    for _ in range(2):
        tick(stored, refused, 6)

    def refusal() -> tuple[str, str]:
        (one,) = [it for it in stored.incident.status.conditions if it.type == EVICTION_REFUSED]
        return one.status, one.message

    assert refusal() == ("True", "team/a: 500: two budgets")

    tick(stored, seen, 8)
    assert refusal() == ("False", "")


def test_a_node_that_claims_the_board_of_another_opens_no_incident_for_its_rules() -> None:
    """The honest node has written the rule, and its incident comes next."""
    honest, stored = view(dead(0)), Stored()
    for second in (1, 5):
        settle(stored, honest, second)
    stored.incidents = {}
    liar = view(dead(0), node="node-z", inventory=(), elsewhere={uuid(0): (NODE,)})

    settle(stored, liar, 5.1)
    assert (stored.incidents, stored.effects()) == ({}, {"gpu-0": "NoExecute"})

    settle(stored, honest, 5.2)
    assert stored.incident.spec.node == NODE
