"""The final check before a disruption: what the API server has now of slices, claims, intents."""

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from remediator.controller.emergency import ANNOTATION
from remediator.controller.final_check import STALLED_AFTER, FinalCheck
from remediator.model.incident import Incident
from remediator.model.incident_status import AffectedPod
from remediator.model.pod import PodFacts
from remediator.plan.steps import Disruption, EvictPod
from remediator.reconcile import StepsFailedError
from tests.remediator.builders import (
    DRIVER,
    NODE,
    dead,
    gpu,
    last_named,
    published,
    uuid,
    view,
    with_fields,
)
from tests.remediator.controller.api import (
    CLAIMS,
    INCIDENTS,
    NAMESPACES,
    PODS,
    REPORTS,
    SLICES,
    Api,
    serving,
)
from tests.remediator.controller.test_blind_watches import (
    SETTLED,
    Room,
    dead_at,
    leader,
    presence,
    set_up,
)
from tests.remediator.histories.frozen import Kind, Truth
from tests.remediator.playing import pod


@pytest.fixture
def room() -> Generator[Room]:
    with serving() as (api, endpoint), leader(api, endpoint) as one:
        yield one


def a_late_claim_on(room: Room, device: str) -> None:
    """A pod has a claim that no watch has reported; then a GPU is lost and its taint settles."""
    room.api.frozen.add(CLAIMS)
    room.hold(device, "late")
    named = {"name": "gpu", "resourceClaimName": "claim-late"}
    room.api.put(PODS, "late", spec={"nodeName": NODE, "resourceClaims": [named]})
    room.report(dead(0), gpu(1))
    room.seen("the report is there", lambda: presence(room) == "Lost")
    room.decide()
    room.ahead = SETTLED


def test_a_claim_that_is_otherwise_than_the_watch_reported_is_looked_at_again(room: Room) -> None:
    set_up(room)
    room.api.frozen.add(CLAIMS)
    room.hold("gpu-1", "train-on-b")
    room.report(dead(0), gpu(1))
    room.seen("the report is observed", lambda: presence(room) == "Lost")
    room.decide()
    room.ahead = SETTLED
    assert "claim team/claim-train-on-b" in room.decide().unconfirmed
    assert room.api.effects() == {"gpu-0": "NoSchedule"}


def test_a_claim_of_a_listed_pod_that_no_watch_has_reported_evicts_nobody(room: Room) -> None:
    set_up(room)
    a_late_claim_on(room, "gpu-0")
    assert "team/claim-late has not been reported by the watch" in room.decide().unconfirmed
    assert room.api.effects() == {"gpu-0": "NoSchedule"}


def test_a_claim_on_another_device_that_no_watch_has_reported_delays_nothing(room: Room) -> None:
    set_up(room)
    a_late_claim_on(room, "gpu-1")
    room.decide()
    assert room.api.effects() == {"gpu-0": "NoExecute"}


@pytest.mark.parametrize("by", ["PodGroup", "waiting-pod"])
def test_a_claim_that_is_as_reported_delays_nothing_whoever_names_it(room: Room, by: str) -> None:
    set_up(room)
    named = {"name": "gpu", "resourceClaimName": "claim-train-on-b"}
    spec: Any = {"nodeName": NODE, "resourceClaims": [named]}
    meta = {"namespace": "team", "uid": "u-member"}
    if by == "PodGroup":
        spec |= {"schedulingGroup": {"podGroupName": "gang"}}
        group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups"}
        claim = room.api.stored[CLAIMS]["claim-train-on-b"]["status"]
        status = claim | {"reservedFor": [{**group, "name": "gang", "uid": "u-gang"}]}
        room.api.put(CLAIMS, "claim-train-on-b", status=status)
        room.api.drop(PODS, "train-on-b")
        room.seen(
            "the group",
            lambda: room.cluster.peek(NODE).usage.claims[0].consumers[0].uid == "u-gang",
        )
    room.api.put(PODS, "member", metadata=meta, spec=spec, status={"phase": "Pending"})
    room.report(dead(0), gpu(1))
    room.seen("the report is there", lambda: presence(room) == "Lost")
    room.decide()
    room.ahead = SETTLED
    assert not room.decide().unconfirmed
    assert room.api.effects() == {"gpu-0": "NoExecute"}


def test_a_last_look_that_is_refused_evicts_nobody_and_says_so(room: Room) -> None:
    """A watch that is open outlives the right to open it."""
    set_up(room)
    room.report(dead(0), gpu(1))
    room.seen("the report is observed", lambda: presence(room) == "Lost")
    room.decide()
    room.api.refused[f"{SLICES}?"] = 403
    room.cluster._final_check._slices.version = "v1beta2"  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - not served: 404
    room.ahead = SETTLED
    decision = room.decide()
    assert "could not be read before the disruption (404)" in decision.unconfirmed
    assert room.api.effects() == {"gpu-0": "NoSchedule"}


def its_taint_settles(room: Room) -> None:
    set_up(room)
    room.report(dead(0), gpu(1))
    room.seen("the report is observed", lambda: presence(room) == "Lost")
    room.decide()
    room.ahead = SETTLED


def an_emergency_stop(api: Api) -> None:
    meta = {"name": "draguard-system", "annotations": {ANNOTATION: "ann: wrong driver"}}
    api.put(NAMESPACES, "draguard-system", metadata=meta)


def a_hold(api: Api) -> None:
    ((name, stored),) = api.stored[INCIDENTS].items()
    hold = {"by": "ann", "reason": "a checkpoint is being written"}
    api.put(INCIDENTS, name, spec={**stored["spec"], "hold": hold})


def the_end_of_the_incident(api: Api) -> None:
    api.drop(INCIDENTS, *api.stored[INCIDENTS])


@pytest.mark.parametrize(
    ("happens", "collection", "why"),
    [
        (an_emergency_stop, NAMESPACES, "the emergency stop is set: ann: wrong driver"),
        (a_hold, INCIDENTS, "differs from what the watch reported"),
        (the_end_of_the_incident, INCIDENTS, "differs from what the watch reported"),
    ],
)
def test_what_a_user_has_just_written_evicts_no_pod_though_no_watch_has_reported_it(
    room: Room, happens: Callable[[Api], None], collection: str, why: str
) -> None:
    its_taint_settles(room)
    room.api.frozen.add(collection)
    happens(room.api)
    seen = room.cluster.peek(NODE)
    assert why in room.cluster.confirm(seen, Disruption(frozenset({seen.stored.rules[0].device})))
    with suppress(StepsFailedError):  # the status of an incident that was changed is a conflict
        room.decide(1)
    assert room.api.effects() == {"gpu-0": "NoSchedule"}


def test_a_gpu_that_answers_again_is_not_evicted_on_a_report_that_a_watch_still_shows(
    room: Room,
) -> None:
    set_up(room)
    room.report(dead(0), gpu(1), content_hash="lost")
    room.seen("the report is observed", lambda: presence(room) == "Lost")
    room.decide()
    room.api.frozen.add(REPORTS)
    room.report(gpu(0), gpu(1), content_hash="well")
    room.ahead = SETTLED
    assert "the report of node-a differs" in room.decide().unconfirmed
    assert room.api.effects() == {"gpu-0": "NoSchedule"}


@pytest.mark.parametrize("content_hash", ["lost", ""])
def test_a_report_that_says_the_same_later_delays_nothing(room: Room, content_hash: str) -> None:
    """An agent without hashes waits for the watch, whatever has changed."""
    set_up(room)
    room.report(dead(0), gpu(1), content_hash=content_hash)
    room.seen("the report is observed", lambda: presence(room) == "Lost")
    room.decide()
    room.api.frozen.add(REPORTS)
    room.report(dead(0), gpu(1), content_hash=content_hash)
    room.ahead = SETTLED
    assert bool(room.decide().unconfirmed) == (not content_hash)
    assert room.api.effects() == {"gpu-0": "NoExecute" if content_hash else "NoSchedule"}


@pytest.mark.parametrize(
    ("happens", "collection"), [(an_emergency_stop, NAMESPACES), (a_hold, INCIDENTS)]
)
def test_what_a_user_has_just_written_ends_evictions_that_have_begun(
    room: Room, happens: Callable[[Api], None], collection: str
) -> None:
    """Each request is preceded by a look; while a refused one waits, nothing is read."""
    set_up(room)
    an_extended_resource(room)
    room.api.protected["train-on-b"] = 429
    room.report(dead(0), gpu(1))
    room.seen("the report is observed", lambda: presence(room) == "Lost")
    room.decide()
    room.ahead = SETTLED
    room.decide()
    assert room.api.evictions == ["train-on-b"]
    before = looks(room)
    room.decide(1)
    assert looks(room) == before, "its backoff is not over"

    room.api.frozen.add(collection)
    happens(room.api)
    room.api.protected.clear()
    room.seen("it is due again", lambda: due(room))
    with suppress(StepsFailedError):  # the status of an incident that was changed is a conflict
        room.decide(1)
    assert looks(room) > before
    assert "train-on-b" in room.api.stored[PODS]


def test_a_pod_that_comes_due_after_the_look_is_requested_after_the_next_look(room: Room) -> None:
    set_up(room)
    an_extended_resource(room)
    room.api.protected["train-on-b"] = 429
    step = EvictPod(uuid(0), the_pod())
    room.cluster.apply(step)
    seen, begins = room.cluster.peek(NODE), Disruption(continued=frozenset({the_pod()}))
    room.cluster.confirm(seen, begins)
    # That of an untaint, in the same decision.
    room.cluster.confirm(seen, Disruption(untainted=frozenset({"another"})))
    room.seen("it is due again", lambda: due(room))
    room.cluster.apply(step)
    assert room.api.evictions == ["train-on-b"]

    room.cluster.confirm(seen, begins)
    room.cluster.apply(step)
    assert room.api.evictions == ["train-on-b"] * 2


def an_extended_resource(room: Room) -> None:
    """Make of the claim one that NoExecute does not reach."""
    meta = {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}
    status = room.api.stored[CLAIMS]["claim-train-on-b"]["status"]
    room.api.put(CLAIMS, "claim-train-on-b", metadata=meta, status=status)
    room.seen("it is so", lambda: any(it.extended for it in room.cluster.peek(NODE).usage.claims))


def due(room: Room) -> bool:
    return room.cluster.writer.evictions.is_due(the_pod())


def the_pod() -> AffectedPod:
    device = f"{DRIVER}/{NODE}/gpu-0"
    return AffectedPod("team", "train-on-b", "claim-train-on-b", device, "u-train-on-b")


def looks(room: Room) -> int:
    """Return how often the emergency stop was read."""
    paths = (path for path in room.api.reads if "watch" not in path)
    return sum(path.startswith(NAMESPACES) for path in paths)


def test_a_namespace_that_cannot_be_read_before_a_disruption_defers_it(room: Room) -> None:
    """The right is there: the watch is not refused yet."""
    its_taint_settles(room)
    room.api.frozen.add(NAMESPACES)
    room.api.refused[NAMESPACES] = 403
    assert "could not be read before the disruption (403)" in room.decide(1).unconfirmed
    assert room.api.effects() == {"gpu-0": "NoSchedule"}


def test_the_intents_for_another_gpu_delay_nothing(room: Room) -> None:
    its_taint_settles(room)
    other = {"metadata": {"name": "other"}, "spec": {"node": NODE, "uuid": uuid(1)}}
    seen = room.cluster.peek(NODE)
    elsewhere = msgspec.convert(other, Incident)
    both = with_fields(seen, incidents=(*seen.stored.incidents, elsewhere))
    assert not room.cluster.confirm(both, Disruption(frozenset({seen.stored.rules[0].device})))
    assert "other differs" in room.cluster.confirm(both, Disruption(repair=True))


@pytest.mark.parametrize(
    ("begins", "now", "why"),
    [
        (Disruption(repair=True), (pod(), pod("late")), "pod team/late has come to node-a since"),
        (Disruption(repair=True), None, "the pods of node-a could not be listed"),
        (Disruption(repair=True), (pod(),), ""),
        (Disruption(repair=True), (), ""),
        (Disruption(repair=True), (pod(), pod("done", running=False)), ""),
        (Disruption(), None, ""),
    ],
    ids=["one more", "no list", "the same", "one less", "one that ended", "no repair"],
)
def test_before_a_repair_of_the_node_its_pods_are_listed_anew(
    begins: Disruption, now: tuple[PodFacts, ...] | None, why: str
) -> None:
    seen = view(dead(), pods=(pod(),))
    truth = Truth(published(dead()), (), now, report=seen.agent.report)
    check = FinalCheck(truth, Kind("resourceslices"), Kind("resourceclaims"), truth, truth)
    differs = check.differs(seen, begins)
    assert why in differs
    assert bool(why) == bool(differs)


class HalfPublished(Truth):
    """The driver has updated one of two slices to another generation."""

    version = "7"

    def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        answer = super().get(path, params)
        if "resourceslices" not in path:
            return answer
        (one,) = msgspec.json.decode(answer)["items"]
        one["metadata"] |= {"resourceVersion": self.version}
        one["spec"]["pool"] |= {"generation": 2, "resourceSliceCount": 2}
        return msgspec.json.encode({"items": [one]})


class TestAPoolThatIsPublishedInPart:
    """A driver may die between two slices, and not start again because a GPU is lost."""

    seen = view(dead(0), gpu(1))

    def looks(self, *times: float, changed: bool = False) -> list[str]:
        """Return what differs at these times; `changed`: the driver goes on writing."""
        truth = HalfPublished(published(gpu(1)), (), (), report=self.seen.agent.report)
        kinds = Kind("resourceslices"), Kind("resourceclaims")
        clock = iter(times)
        check = FinalCheck(truth, *kinds, truth, truth, clock=lambda: next(clock))
        devices = frozenset(part.device for part in published(dead(0)))
        found: list[str] = []
        for time in times:
            truth.version = str(time) if changed else truth.version
            found.append(check.differs(self.seen, Disruption(devices)))
        return found

    def test_is_waited_for_while_its_driver_may_be_at_it(self) -> None:
        found = self.looks(0, 10, STALLED_AFTER - 1)

        assert all("are being published anew" in why for why in found)

    def test_defers_no_eviction_for_ever(self) -> None:
        assert self.looks(0, STALLED_AFTER)[-1] == ""

    def test_is_waited_for_as_long_as_it_changes(self) -> None:
        found = self.looks(0, STALLED_AFTER, changed=True)

        assert "are being published anew" in found[-1]


class TestDriverAway:
    """No slice is left, and the names in the report are what the evictions go by."""

    def lost_meanwhile(self, room: Room) -> None:
        set_up(room)
        room.api.drop(SLICES, "slice-a")
        room.report(last_named(dead(0)), last_named(gpu(1)))
        room.seen("the report is there", lambda: presence(room) == "Lost")
        room.seen("the slices are gone", lambda: not room.cluster.peek(NODE).slices.inventory)
        room.decide()
        room.ahead = SETTLED

    def test_a_gpu_that_is_lost_meanwhile_is_emptied(self, room: Room) -> None:
        self.lost_meanwhile(room)

        assert not room.decide().unconfirmed
        assert room.api.effects() == {"gpu-0": "NoExecute"}

    def test_a_driver_that_is_back_unseen_evicts_nobody(self, room: Room) -> None:
        self.lost_meanwhile(room)
        room.api.frozen.add(SLICES)
        room.publish(dead_at(1), gpu(1, minor=0))

        assert "other devices than the watch reported" in room.decide().unconfirmed
        assert room.api.effects() == {"gpu-0": "NoSchedule"}

    def test_an_intent_that_no_watch_has_reported_counts(self, room: Room) -> None:
        self.lost_meanwhile(room)
        room.api.frozen.add(INCIDENTS)
        a_hold(room.api)

        with suppress(StepsFailedError):  # its status was planned on what is stored no longer
            room.decide()
        assert room.api.effects() == {"gpu-0": "NoSchedule"}
