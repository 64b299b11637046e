"""Whom NoExecute does not reach and we move, and who is affected without holding anything."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.device import Device
from remediator.diagnose.fault import Sick, Unknown
from remediator.model.claim import (
    ADMIN,
    EXTENDED_RESOURCE,
    GANG,
    Allocation,
    Claim,
    ClaimMarks,
    ClaimMeta,
    ClaimStatus,
    Configuration,
    ConsumerReference,
    DeviceAllocation,
    DeviceResult,
    Opaque,
    Parameters,
)
from remediator.model.incident_status import AffectedPod
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import Rule
from remediator.plan.board import Board
from remediator.plan.evictions import LOOK_AGAIN, plan_evictions, to_evict
from remediator.plan.pods import gang
from remediator.plan.stages import Deferral, DeferredBy, Planned, Wake
from tests.remediator.builders import (
    DRIVER,
    NODE,
    Stored,
    action,
    at,
    dead,
    gpu,
    make_board,
    make_granted,
    uuid,
    view,
)
from tests.remediator.playing import EVICTS_LATER, claim, settle, tick

GPU = Device(DRIVER, NODE, "gpu-0")
IMEX = "compute-domain.nvidia.com"


def rule(effect: Any = "NoExecute", device: Device = GPU) -> Rule:
    return Rule(
        device=device,
        effect=effect,
        fault="gpu",
        cause="xid-79",
        incident="i-1",
        uuid=uuid(0),
        gpu=uuid(0),
        node=NODE,
    )


def hold(pod: str = "nb-0", via: str = EXTENDED_RESOURCE, device: Device = GPU) -> AffectedPod:
    return AffectedPod("team", pod, f"claim-of-{pod}", str(device), f"u-{pod}", via)


def pod(name: str = "nb-0", **fields: Any) -> PodFacts:
    return PodFacts(namespace="team", name=name, uid=f"u-{name}", **fields)


def board(**fields: Any) -> Board:
    standard: dict[str, Any] = {
        "verdict": Sick(()),
        "stored": (rule(),),
        "holders": (hold(),),
        "pods": (pod(),),
    }
    return make_board(**(standard | fields))


GRANTED = make_granted(uuid(0), rule(), evicts=(GPU,))
PLANNED = Planned(granted=GRANTED)


class TestMoving:
    def test_a_pod_by_resource_name_under_a_noexecute_in_force_is_moved(self) -> None:
        assert to_evict(board(), PLANNED, at(0)) == (hold(),)

    @pytest.mark.parametrize(
        "fields",
        [
            {"pods": None},
            {"pods": ()},
            {"pods": (pod(running=False),)},
            {"pods": (pod(terminating=True),)},
            {"pods": (msgspec.structs.replace(pod(), uid="another"),)},
            {"stored": (rule("NoSchedule"),)},
            {"stored": ()},
            {"stored": (rule(device=Device(DRIVER, NODE, "gpu-1")),)},
            {"holders": (hold(via=""),)},
            {"holders": (hold(via=ADMIN),)},
            {"holders": (hold(device=Device(DRIVER, NODE, "gpu-1")),)},
            {"verdict": Unknown("no report")},
        ],
    )
    def test_nobody_else_is(self, fields: dict[str, Any]) -> None:
        assert to_evict(board(**fields), PLANNED, at(0)) == ()

    @pytest.mark.parametrize("rules", [(), (rule("NoSchedule"),)])
    def test_nobody_is_for_a_rule_that_is_to_go_or_to_be_milder(
        self, rules: tuple[Rule, ...]
    ) -> None:
        assert (
            to_evict(board(), Planned(granted=make_granted(uuid(0), *rules, evicts=(GPU,))), at(0))
            == ()
        )

    def test_nobody_is_for_a_rule_that_stands_without_a_fault_that_evicts_now(self) -> None:
        over = make_granted(uuid(0), rule())

        assert to_evict(board(), Planned(granted=over), at(0)) == ()

    @pytest.mark.parametrize("by", ["EmergencyStop", "Maintenance", "Human"])
    def test_nobody_is_while_harm_is_held_back(self, by: DeferredBy) -> None:
        held = msgspec.structs.replace(GRANTED, deferrals=(Deferral(by, "wait"),))

        assert to_evict(board(), Planned(granted=held), at(0)) == ()

    @pytest.mark.parametrize("by", ["Budget", "Correlation"])
    def test_a_brake_on_what_begins_has_let_pass_what_is_stored(self, by: DeferredBy) -> None:
        held = msgspec.structs.replace(GRANTED, deferrals=(Deferral(by, "its sibling waits"),))

        assert to_evict(board(), Planned(granted=held), at(0)) == (hold(),)

    def test_a_pod_with_two_devices_is_moved_once(self) -> None:
        second = Device(DRIVER, NODE, "gpu-1")
        both = board(stored=(rule(), rule(device=second)), holders=(hold(), hold(device=second)))
        granted = make_granted(uuid(0), *both.rules.stored, evicts=(GPU, second))

        assert len(to_evict(both, Planned(granted=granted), at(0))) == 1

    def test_it_is_looked_at_again_while_somebody_is_to_be_moved(self) -> None:
        planned = plan_evictions(board(), GRANTED, at(0))

        assert planned.look_again == at(0) + LOOK_AGAIN

    def test_it_is_looked_at_again_while_the_pods_cannot_be_listed(self) -> None:
        planned = plan_evictions(board(pods=None), GRANTED, at(0))

        assert planned.look_again == at(0) + LOOK_AGAIN

    def test_an_earlier_look_is_kept(self) -> None:
        demanded = msgspec.structs.replace(GRANTED.demanded, wake=Wake(at(1), "a test"))
        granted = msgspec.structs.replace(GRANTED, demanded=demanded)

        assert plan_evictions(board(), granted, at(0)).wake == demanded.wake

    def test_nothing_is_woken_for_a_pod_that_is_not_to_be_moved(self) -> None:
        for quiet in (board(pods=()), board(pods=None, stored=())):
            assert plan_evictions(quiet, GRANTED, at(0)) == PLANNED


def by_resource_name() -> Claim:
    one = claim("gpu-0", "nb-0")
    meta = msgspec.structs.replace(one.metadata, annotations=ClaimMarks("true"))
    return msgspec.structs.replace(one, metadata=meta)


def test_a_whole_incident_moves_the_pod_after_the_rule_is_stored() -> None:
    stored = Stored()
    seen = view(dead(), claims=(by_resource_name(),), pods=(pod(),))

    settle(stored, seen, 1, EVICTS_LATER)
    assert (stored.effects(), stored.evicted) == ({"gpu-0": "NoSchedule"}, [])
    with pytest.raises(AssertionError, match="never settles"):
        settle(stored, seen, 5)

    assert {affected.pod for affected in stored.evicted} == {"nb-0"}
    names = [type(step).__name__ for step in stored.taken]
    assert names.index("ChangeRule") < names.index("EvictPod")


def test_a_pod_that_could_not_be_moved_stays_once_the_gpu_is_healthy_again() -> None:
    stored = Stored()
    there: dict[str, Any] = {"claims": (by_resource_name(),), "pods": (pod(),)}
    for second in (1, 2, 5, 6, 60):
        tick(stored, view(dead(), **there), second)
    refused = len(stored.evicted)
    assert refused > 1, "it is requested anew as long as the GPU is sick"

    for second in (70, 71, 300, 600):
        answers = gpu(
            epoch=2,
            epoch_started=at(65),
            presence_since=at(65),
            recovery_action=action(0, 65, second),
        )
        tick(stored, view(answers, **there), second)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert len(stored.evicted) == refused


class TestGang:
    def channel(self, name: str, domain: str = "cd-1", node: str = NODE) -> Claim:
        parameters = Configuration(Opaque(IMEX, Parameters(domain)))
        devices = DeviceAllocation((DeviceResult(IMEX, node, "channel-0"),), (parameters,))
        reserved = (ConsumerReference(name, "pods", f"u-{name}"),)
        return Claim(
            ClaimMeta(name=f"channel-of-{name}", namespace="team"),
            ClaimStatus(Allocation(devices), reserved),
        )

    def test_peers_of_a_pod_group_lose_with_the_holder(self) -> None:
        pods = (
            pod("w-0", pod_group="ring"),
            pod("w-1", pod_group="ring"),
            pod("w-2", pod_group="ring", running=False),
            pod("x-0", pod_group="other"),
            pod("y-0"),
        )

        (peer,) = gang([hold("w-0", "")], [], pods)

        assert (peer.pod, peer.uid, peer.via, peer.device) == ("w-1", "u-w-1", GANG, str(GPU))

    def test_peers_of_a_compute_domain_lose_with_it_on_any_node(self) -> None:
        claims = [
            self.channel("w-0"),
            self.channel("w-1", node="node-b"),
            self.channel("x-0", domain="cd-2"),
        ]

        (peer,) = gang([hold("w-0", "")], claims, None)

        assert (peer.pod, peer.claim, peer.via) == ("w-1", "channel-of-w-1", GANG)

    def test_a_holder_is_nobodys_peer(self) -> None:
        claims = [self.channel("w-0"), self.channel("w-1")]

        assert gang([hold("w-0", ""), hold("w-1", "")], claims, None) == ()

    def test_a_domain_without_a_holder_in_it_is_not_hit(self) -> None:
        assert gang([hold("w-5", "")], [self.channel("w-0"), self.channel("w-1")], None) == ()
        assert gang([], [self.channel("w-0")], (pod("w-0", pod_group="ring"),)) == ()


@given(
    st.lists(st.sampled_from(["None", "NoSchedule", "NoExecute"]), min_size=2, max_size=2),
    st.sampled_from(["", EXTENDED_RESOURCE, ADMIN, GANG]),
    st.booleans(),
    st.booleans(),
)
def test_only_an_extended_pod_that_runs_under_two_noexecutes_is_ever_moved(
    effects: list[str], via: str, running: bool, terminating: bool
) -> None:
    seen = board(
        stored=(rule(effects[0]),),
        holders=(hold(via=via),),
        pods=(pod(running=running, terminating=terminating),),
    )
    granted = make_granted(uuid(0), rule(effects[1]), evicts=(GPU,))

    moved = bool(to_evict(seen, Planned(granted=granted), at(0)))

    due = effects == ["NoExecute", "NoExecute"] and via == EXTENDED_RESOURCE
    assert moved == (due and running and not terminating)
