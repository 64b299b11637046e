"""A GPU that two drivers publish: each device is under the policy of its own pool."""

import msgspec
import pytest

from exporter.model.device import Device
from exporter.model.resource_slices import SliceDevice
from remediator.plan.view import NodeView
from remediator.policy.load import read
from remediator.policy.table import Policy
from tests.remediator.builders import (
    Stored,
    action,
    at,
    dead,
    gpu,
    mig_gpu,
    published,
    report_with,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import claim, pod, settle

NVIDIAS = published(dead())[0]
ANOTHERS = msgspec.structs.replace(NVIDIAS, device=Device("gpu.example.com", "rack", "gpu-0"))


def by_pool(node: str = "enforce", rack: str = "incident-only", exempt: str = "") -> Policy:
    rows = read(
        f"""
        defaults: {{settle: 3s}}
        overrides:
          - match: {{pool: "node-*"}}
            defaults: {{mode: {node}}}
          - match: {{pool: rack}}
            defaults: {{mode: {rack}}}
        """
    )
    if not exempt:
        return rows
    exempted = read(f"exempt: [{{pools: {exempt}, why: burn-in}}]")
    return msgspec.structs.replace(rows, exempt=exempted.exempt)


ONE_ENFORCES = by_pool()


def seen(*devices: SliceDevice) -> NodeView:
    return view(dead(), inventory=devices)


def played(first: tuple[SliceDevice, ...], then: tuple[SliceDevice, ...], rows: Policy) -> Stored:
    stored = Stored()
    for second in (1, 5):
        settle(stored, seen(*first), second, rows)
    for second in (100, 105, 200):
        settle(stored, seen(*then), second, rows)
    return stored


def effects(stored: Stored) -> dict[str, str]:
    return {rule.device.pool: rule.effect for rule in stored.rules.values()}


BOTH = (NVIDIAS, ANOTHERS)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((NVIDIAS,), BOTH),  # the other one begins to publish it
        (BOTH, BOTH),  # it did so before the fault
        (BOTH, (ANOTHERS,)),  # the first one starts anew
        ((NVIDIAS,), (ANOTHERS,)),
    ],
)
def test_what_one_pool_enforces_is_not_lowered_by_another(
    first: tuple[SliceDevice, ...], then: tuple[SliceDevice, ...]
) -> None:
    stored = played(first, then, ONE_ENFORCES)

    assert effects(stored) == {"node-a": "NoExecute"}
    assert stored.incident.status.policy.mode == "Enforce"


def test_the_incident_says_what_the_other_pool_spares() -> None:
    stored = played(BOTH, BOTH, ONE_ENFORCES)

    assert [(would.device, would.effect) for would in stored.incident.status.scope.would_taint] == [
        (str(ANOTHERS.device), "NoExecute")
    ]


@pytest.mark.parametrize("spared", [{"rack": "off"}, {"rack": "enforce", "exempt": "rack"}])
def test_a_pool_that_is_switched_off_or_exempt_keeps_its_own_device_alone(
    spared: dict[str, str],
) -> None:
    assert effects(played(BOTH, BOTH, by_pool(**spared))) == {"node-a": "NoExecute"}


def test_both_are_tainted_before_either_evicts() -> None:
    stored = Stored()

    settle(stored, seen(*BOTH), 1, by_pool(rack="enforce"))
    assert effects(stored) == {"node-a": "NoSchedule", "rack": "NoSchedule"}
    settle(stored, seen(*BOTH), 5, by_pool(rack="enforce"))
    assert effects(stored) == {"node-a": "NoExecute", "rack": "NoExecute"}


def test_a_user_lowers_the_one_and_not_the_other() -> None:
    stored = played(BOTH, BOTH, by_pool(rack="enforce"))

    settle(stored, seen(*BOTH), 300, by_pool(node="incident-only", rack="enforce"))

    assert effects(stored) == {"rack": "NoExecute"}


def test_a_driver_that_renames_its_pool_brings_it_under_the_policy_of_the_new_one() -> None:
    renamed = msgspec.structs.replace(NVIDIAS, device=Device("gpu.example.com", "shelf", "gpu-0"))
    stored = played((ANOTHERS,), (renamed,), by_pool(rack="enforce"))

    assert effects(stored) == {"rack": "NoExecute"}  # a name that nothing publishes any more


@pytest.mark.parametrize("both", [False, True])
def test_a_remap_that_one_pool_taints_for_waits_there_for_its_reset(*, both: bool) -> None:
    """Another pool only observes it."""
    rows = read(
        """
        defaults: {settle: 3s, mode: enforce}
        overrides:
          - {match: {pool: "node-*"}, classes: {pending: {ceiling: NoSchedule}}}
          - {match: {pool: rack}, classes: {pending: {ceiling: observe}}}
        """
    )
    stored = Stored()
    for second in (1, 5, 300, 700, 1500):
        memory = msgspec.structs.replace(
            gpu(0).memory, row_remap_pending="True", remap_observed_at=at(second)
        )
        sick = mig_gpu(
            0, xid(94, seen=0, gi=1), recovery_action=action(0, -3600, second), memory=memory
        )
        mine = published(sick)
        names = (Device("gpu.example.com", "rack", part.device.device) for part in mine)
        others = (
            msgspec.structs.replace(part, device=name)
            for part, name in zip(mine, names, strict=True)
        )
        now = view(sick, inventory=(*mine, *(others if both else ())))
        reported = report_with(now, observed_at=at(second))
        settle(stored, with_fields(now, report=reported), second, rows)

    assert sum(rule.device.pool == "node-a" for rule in stored.rules.values()) == 7
    assert len(stored.incidents) == 1, "it was never free in between"


def test_a_taint_follows_another_name_in_its_pool_though_another_one_only_observes() -> None:
    stored = Stored()
    for second in (1, 5):
        settle(stored, seen(*BOTH), second, ONE_ENFORCES)
    renamed = msgspec.structs.replace(NVIDIAS, device=Device("gpu.nvidia.com", "node-a", "gpu-7"))

    settle(stored, with_fields(seen(renamed, ANOTHERS), stale="silent"), 10, ONE_ENFORCES)

    assert stored.effects() == {"gpu-0": "NoExecute", "gpu-7": "NoSchedule"}


def test_a_pool_that_only_observes_a_slice_frees_it_in_no_other() -> None:
    """An agent that starts anew reports its error no more."""
    sick = mig_gpu(0, xid(94, seen=0, gi=1), slices=2, recovery_action=action(0, -1, 1))
    mine = published(sick)
    others = (
        msgspec.structs.replace(part, device=Device("gpu.example.com", "rack", f"gpu-{number}"))
        for number, part in enumerate(mine)
    )
    now, stored = view(sick, inventory=(*mine, *others)), Stored()
    for second in (1, 5):
        settle(stored, now, second, ONE_ENFORCES)
    before = stored.effects()
    assert effects(stored).keys() == {"node-a"}

    forgotten = mig_gpu(0, slices=2, recovery_action=action(0, -1, 60))
    settle(stored, view(forgotten, inventory=now.slices.inventory), 60, ONE_ENFORCES)

    assert stored.effects() == before


class TestAPoolIntoWhichOtherNodesPublish:
    """A rule there could taint a device of another node, so there is none."""

    def seen(self, *pods: str) -> NodeView:
        held = tuple(claim("gpu-0", name, driver="gpu.example.com", pool="rack") for name in pods)
        return view(
            dead(),
            inventory=BOTH,
            contested=frozenset({("gpu.example.com", "rack")}),
            claims=held,
            pods=tuple(pod(name) for name in pods),
        )

    def played(self, *pods: str) -> Stored:
        stored = Stored()
        for second in (1, 5, 60, 120):
            settle(stored, self.seen(*pods), second, by_pool(rack="enforce"))
        return stored

    def test_is_left_out_and_the_incident_says_so(self) -> None:
        stored = self.played()

        assert effects(stored) == {"node-a": "NoExecute"}
        assert "others publish into pool gpu.example.com/rack" in stored.incident.status.message

    @pytest.mark.parametrize("silent", [True, False])
    @pytest.mark.parametrize("published", [BOTH, (NVIDIAS,)])
    def test_a_rule_of_before_evicts_no_pod_of_another_node(
        self, published: tuple[SliceDevice, ...], *, silent: bool
    ) -> None:
        stored, rows = Stored(), by_pool(rack="enforce")
        for second in (1, 5):
            settle(stored, seen(*BOTH), second, rows)
        assert effects(stored) == {"node-a": "NoExecute", "rack": "NoExecute"}

        now = with_fields(self.seen(), inventory=published, stale="silent" if silent else "")
        settle(stored, now, 60, rows)

        assert effects(stored) == {"node-a": "NoExecute", "rack": "NoSchedule"}

    def test_keeps_the_gpu_from_being_drained_while_a_pod_uses_it_there(self) -> None:
        stored = self.played("train-0")

        assert stored.incident.status.phase == "Evicting"
        assert [held.pod for held in stored.incident.status.scope.affected] == ["train-0"]
        assert self.played().incident.status.phase == "Drained"


def test_a_pool_that_both_policies_only_observe_stays_free_while_they_disagree() -> None:
    """They differ in something else, such as an exemption that has just ended."""
    stored = Stored()
    for second in (1, 5):
        settle(stored, seen(*BOTH), second, ONE_ENFORCES)
    assert effects(stored) == {"node-a": "NoExecute"}

    differs = msgspec.structs.replace(ONE_ENFORCES, disagrees="another leader's")
    settle(stored, seen(*BOTH), 10, differs)
    assert effects(stored) == {"node-a": "NoExecute"}


@pytest.mark.parametrize("sick", [True, False])
def test_the_incident_says_that_a_device_waits_for_two_policies_to_agree(*, sick: bool) -> None:
    """The other driver publishes a tainted GPU while the policy of the leader before may differ."""
    stored = Stored()
    for second in (1, 5):
        settle(stored, seen(NVIDIAS), second, ONE_ENFORCES)

    differs = msgspec.structs.replace(by_pool("off", "off"), disagrees="two policies differ")
    both = seen(*BOTH) if sick else with_fields(seen(*BOTH), stale="silent")
    settle(stored, both, 10, differs)
    assert effects(stored) == {"node-a": "NoExecute"}
    waits = "not every device of it is tainted: gpu-0 waits, as two policies differ"
    assert waits in stored.incident.status.message

    settle(stored, both, 20, by_pool(rack="enforce"))
    assert effects(stored).keys() == {"node-a", "rack"}
    assert waits not in stored.incident.status.message


def test_a_taint_follows_another_name_in_its_pool_while_two_policies_disagree() -> None:
    stored = Stored()
    for second in (1, 5):
        settle(stored, seen(NVIDIAS), second, ONE_ENFORCES)
    renamed = msgspec.structs.replace(NVIDIAS, device=Device("gpu.nvidia.com", "node-a", "gpu-7"))

    off = msgspec.structs.replace(by_pool(node="off"), disagrees="another leader's")
    settle(stored, seen(renamed), 10, off)
    assert stored.effects()["gpu-7"] == "NoSchedule"
