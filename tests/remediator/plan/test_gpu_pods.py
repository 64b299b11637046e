"""Who holds a GPU of a node, by every sign there is, and when nobody can tell."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.device import Device
from exporter.model.resource_slices import SliceDevice
from remediator.model.claim import Claim, ClaimMeta, DeviceResult
from remediator.model.incident_status import ScopeStatus, Target
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import Rule
from remediator.plan.node_condition import WAITING
from remediator.plan.node_pods import NOT_LISTED, NOT_LIVE, NOT_PUBLISHED, neighbours
from remediator.plan.view import Blind, NodeView
from tests.remediator.builders import DRIVER, NODE, driver_away, gpu, uuid, with_fields
from tests.remediator.plan.handover import but, node, pair, pod, repair, reported, stored
from tests.remediator.playing import claim

NOBODY = pod("web", claims=())


def names(seen: NodeView) -> tuple[str, ...]:
    return neighbours(seen, ()).pods


def wiped(seen: NodeView) -> NodeView:
    """The same node after its slices were deleted."""
    return with_fields(seen, inventory=())


def with_plugin(seen: NodeView) -> NodeView:
    """The same node, as one whose GPUs a device plugin hands out."""
    assert seen.facts is not None
    facts = msgspec.structs.replace(seen.facts, plugin_resources=("nvidia.com/gpu",))
    return with_fields(seen, inventory=(), facts=facts)


def plugin_pod(name: str = "train-0", resource: str = "nvidia.com/gpu") -> PodFacts:
    return pod(name, claims=(), plugin_resources=(resource,))


def admin(held: Claim) -> Claim:
    """The same claim, with admin access to all that it names."""
    assert held.status is not None
    assert held.status.allocation is not None
    devices = held.status.allocation.devices
    results = tuple(msgspec.structs.replace(each, admin_access=True) for each in devices.results)
    devices = msgspec.structs.replace(devices, results=results)
    allocation = msgspec.structs.replace(held.status.allocation, devices=devices)
    status = msgspec.structs.replace(held.status, allocation=allocation)
    return msgspec.structs.replace(held, status=status)


class TestWhoHoldsOne:
    def test_pods_whose_slices_were_wiped_go_on_to_hold_their_gpus(self) -> None:
        seen = node(pods=(pod("train-0"), NOBODY), claims=(claim("gpu-1"),))

        assert names(wiped(seen)) == names(seen) == ("team/train-0",)

    def test_whom_a_claim_is_reserved_for_holds_one_before_the_pod_is_listed(self) -> None:
        seen = node(pods=(NOBODY,), claims=(claim("gpu-1"),))

        assert names(wiped(seen)) == names(seen) == ("team/train-0",)

    def test_a_pod_of_the_device_plugin_holds_one(self) -> None:
        assert names(with_plugin(node(pods=(plugin_pod(), NOBODY)))) == ("team/train-0",)

    def test_a_pod_whose_claim_is_not_known_may_hold_one(self) -> None:
        assert names(node(pods=(pod("train-0"),))) == ("team/train-0",)

    def test_a_claim_of_another_pool_counts_when_its_driver_publishes_gpus_here(self) -> None:
        named = pod("train-0", claims=("claim-of-train-0",))

        assert names(node(pods=(named,), claims=(claim("gpu-9", pool="rack-7"),)))
        other = claim("nic-0", driver="nic.example.com", pool="rack-7")
        assert not names(node(pods=(named,), claims=(other,)))

    def test_where_nothing_is_published_every_allocated_claim_counts(self) -> None:
        other = claim("x", driver="gpu.example.com", pool="rack-7")

        assert names(wiped(node(pods=(pod("train-0"),), claims=(other,)))) == ("team/train-0",)

    def test_a_claim_that_is_not_allocated_holds_nothing(self) -> None:
        waiting = Claim(ClaimMeta(name="claim-of-train-0", namespace="team"))

        assert not names(node(pods=(pod("train-0"),), claims=(waiting,)))

    def test_admin_access_holds_nothing_beside_what_else_the_claim_has(self) -> None:
        watching = admin(claim("gpu-1"))
        assert not names(node(pods=(pod("train-0"),), claims=(watching,)))

        assert watching.status is not None
        assert watching.status.allocation is not None
        devices = watching.status.allocation.devices
        more = (*devices.results, DeviceResult(DRIVER, NODE, "gpu-0"))
        devices = msgspec.structs.replace(devices, results=more)
        allocation = msgspec.structs.replace(watching.status.allocation, devices=devices)
        status = msgspec.structs.replace(watching.status, allocation=allocation)
        both = msgspec.structs.replace(watching, status=status)
        assert names(node(pods=(pod("train-0"),), claims=(both,))) == ("team/train-0",)

    def test_a_finished_pod_holds_nothing_by_any_sign(self) -> None:
        over = [
            msgspec.structs.replace(facts, running=False)
            for facts in (plugin_pod("a"), pod("train-0"), pod("c"))
        ]

        assert not names(node(pods=tuple(over), claims=(claim("gpu-1"),)))

    def test_a_pod_that_was_made_anew_under_the_name_of_a_finished_one_holds_its_gpu(self) -> None:
        """As a StatefulSet makes it; its claim is reserved before a list has the new pod."""
        over = pod("train-0", uid="u-of-the-one-before", running=False)

        assert names(node(pods=(over,), claims=(claim("gpu-1"),))) == ("team/train-0",)


NIC = SliceDevice(device=Device("nic.example.com", "rack-7", "nic-0"), node=NODE, foreign=True)
"""A device of this node in a pool that it shares with others."""


def with_nic(seen: NodeView) -> NodeView:
    return with_fields(seen, inventory=(*seen.slices.inventory, NIC))


def held(device: str) -> Claim:
    """Return the claim of team/train-0 on a device of the shared pool."""
    return claim(device, driver=NIC.device.driver, pool=NIC.device.pool)


class TestWhoHoldsAForeignDevice:
    CLAIMS = ("claim-of-train-0",)

    def test_a_pod_of_the_node_that_holds_one_of_its_devices_is_waited_for(self) -> None:
        seen = with_nic(node(pods=(pod("train-0", claims=self.CLAIMS),), claims=(held("nic-0"),)))

        assert names(seen) == ("team/train-0",)
        found = repair(seen, pair())
        assert found.reason == WAITING
        assert "pods with devices: team/train-0" in found.message

    @pytest.mark.parametrize("device", ["nic-0", "nic-1"])
    @pytest.mark.parametrize("pool", ["rack-7", "node-b"])
    def test_a_pod_of_another_node_is_not_by_the_name_of_a_pool(
        self, pool: str, device: str
    ) -> None:
        nic = msgspec.structs.replace(NIC, device=Device(NIC.device.driver, pool, "nic-0"))
        far = claim(device, driver=nic.device.driver, pool=pool)
        plain = node(pods=(NOBODY,), claims=(far,))
        seen = with_fields(plain, inventory=(*plain.slices.inventory, nic))

        assert neighbours(seen, ()) == neighbours(plain, ())
        assert repair(seen, pair()) == repair(plain, pair())

    def test_a_pod_of_the_node_holds_none_of_its_devices_by_the_name_of_a_pool(self) -> None:
        named = pod("train-0", claims=self.CLAIMS)

        assert not names(with_nic(node(pods=(named,), claims=(held("nic-1"),))))

    def test_its_claim_does_not_make_a_device_plugins_node_one_that_is_unknown(self) -> None:
        named = pod("train-0", claims=self.CLAIMS)
        seen = with_nic(with_plugin(node(pods=(named,), claims=(held("nic-0"),))))

        assert neighbours(seen, ()).unknown == ""
        assert names(seen) == ("team/train-0",)

    def test_a_rule_on_one_makes_no_pool_of_it_one_of_gpus(self) -> None:
        """Its driver has left the list, and its taint stays."""
        rule = Rule(
            device=NIC.device,
            effect="NoSchedule",
            fault="hardware",
            cause="lost",
            incident="gpu-1",
            uuid=uuid(0),
            gpu=uuid(0),
            node=NODE,
        )
        seen = with_fields(node(claims=(held("nic-1"),)), rules=(rule,))

        assert names(with_nic(seen)) == ()


class TestWhatIsNotKnown:
    @pytest.mark.parametrize(
        ("seen", "why"),
        [
            (node(pods=None), NOT_LISTED),
            (with_fields(node(), pods_live=False), NOT_LIVE),
            (msgspec.structs.replace(node(), blind={"slices": "slices: 403"}), "slices: 403"),
            (msgspec.structs.replace(node(), blind={"claims": "claims: old"}), "claims: old"),
            (wiped(node()), NOT_PUBLISHED),
        ],
    )
    def test_nobody_is_called_by_absence_and_nothing_is_taken_back(
        self, seen: NodeView, why: str
    ) -> None:
        found = repair(seen, pair())
        assert (found.status, found.reason) == ("False", WAITING)
        assert why in found.message

        assert seen.facts is not None
        facts = msgspec.structs.replace(seen.facts, conditions=(stored(),))
        stated = reported(msgspec.structs.replace(seen, facts=facts), pair())
        assert all(condition.status == "True" for condition in stated.values())

        assert repair(seen, pair(), seconds=3600).status == "True", "the deadline ends the wait"
        assert repair(seen, pair(insists=False), seconds=1e6).status == "False"

    def test_who_is_reserved_in_an_old_copy_is_nobodys_neighbour_and_who_runs_is(self) -> None:
        seen = node(pods=(plugin_pod("a"),), claims=(claim("gpu-1"),))

        old = msgspec.structs.replace(seen, blind={"claims": "old"})

        assert names(old) == ("team/a",)

    def test_a_device_plugin_explains_why_nothing_is_published(self) -> None:
        assert repair(with_plugin(node()), pair()).status == "True"

    def test_the_last_names_of_a_driver_that_is_away_show_which_pods_use_one(self) -> None:
        """It cannot start while a GPU is lost, and the call must not wait for it."""
        away = driver_away(gpu(0), gpu(1)).slices.last_published
        empty = with_fields(wiped(node()), last_published=away)
        busy = with_fields(wiped(node(claims=(claim("gpu-1"),))), last_published=away)

        assert repair(empty, pair()).status == "True"
        assert repair(busy, pair()).reason == WAITING

    def test_a_device_plugin_explains_nothing_where_devices_were_published_before(self) -> None:
        board, planned = pair()
        assert planned.incident is not None
        scope = ScopeStatus("whole GPU", (Target(DRIVER, NODE, "gpu-0", uuid(0)),))
        found = msgspec.structs.replace(planned.incident.status, scope=scope)
        incident = msgspec.structs.replace(planned.incident, status=found)

        found = repair(with_plugin(node()), (board, but(planned, incident=incident)))

        assert NOT_PUBLISHED in found.message


signs = st.sampled_from(["claim", "wiped claim", "plugin", "unknown claim"])


@given(
    st.lists(signs, max_size=4),
    st.booleans(),
    st.sampled_from([{}, {"claims": "old"}]),
    st.booleans(),
    st.booleans(),
)
def test_the_condition_is_never_true_while_a_gpu_pod_runs_before_a_deadline(
    held: list[str],
    published: bool,
    blind: Blind,
    standing: bool,
    insists: bool,
) -> None:
    pods: list[PodFacts] = [NOBODY]
    claims: list[Claim] = []
    for number, sign in enumerate(held):
        name = f"p-{number}"
        pods.append(plugin_pod(name) if sign == "plugin" else pod(name))
        if sign.endswith("claim") and sign != "unknown claim":
            claims.append(claim("gpu-1" if sign == "claim" else "gpu-77", name))
    seen = node(*((stored(),) if standing else ()), pods=tuple(pods), claims=tuple(claims))
    seen = msgspec.structs.replace(seen, blind=blind)
    seen = seen if published else wiped(seen)

    found = reported(seen, pair(insists=insists), seconds=3599)

    now = next(iter(found.values())).status if found else "True" if standing else "False"
    assert now == "False" or not held
    late = reported(seen, pair(insists=insists), seconds=3600)
    after = next(iter(late.values())).status if late else "True" if standing else "False"
    assert (after == "True") >= insists
    assert after == "False" or insists or not held
