"""A name goes on meaning what it meant while nothing is published, and no longer than that."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.join import bindings
from exporter.agent.join.bindings import (
    Bindings,
    bind,
    known_devices,
    reported_bindings,
    with_last_published,
)
from exporter.model.device import Device
from exporter.model.last_published import last_published
from exporter.model.node_health import GpuHealth, MigInstance, NodeHealth
from exporter.model.resource_slices import Kind, SliceDevice
from tests.exporter.worlds import BUS, START

Change = Callable[[NodeHealth], NodeHealth]
WHOLE, STATIC, DYNAMIC, MACHINE = "gpu-0", "gpu-1-mig-1g10gb-19-0", "gpu-2-mig-1g10gb-19-3", "vm-3"


def device(name: str, kind: Kind, **fields: Any) -> SliceDevice:
    return SliceDevice(device=Device("gpu.nvidia.com", "node-a", name), kind=kind, **fields)


PUBLISHED = (
    device(WHOLE, "gpu", uuid="GPU-1"),
    device(STATIC, "mig", uuid="MIG-s", parent_uuid="GPU-2", gi_profile_id=19, placement_start=0),
    device(DYNAMIC, "mig", parent_uuid="GPU-3", gi_profile_id=19, placement_start=3),
    device(MACHINE, "vfio", uuid="of-the-address", pci_bus_id=BUS["GPU-4"]),
)


def part(uuid: str, start: int) -> MigInstance:
    return MigInstance(
        uuid=uuid, gi=7, ci=0, profile="1g.10gb", gi_profile_id=19, placement_start=start
    )


def unplaced(uuid: str) -> MigInstance:
    return MigInstance(uuid=uuid, gi=7, ci=0, profile="1g.10gb")


def gpu(number: int, *parts: MigInstance, **fields: Any) -> GpuHealth:
    usual: dict[str, Any] = {
        "uuid": f"GPU-{number}",
        "presence": "Present",
        "presence_since": START,
        "pci_bus_id": BUS[f"GPU-{number}"],
        "minor": number - 1,
        "mig_mode": "Enabled" if parts else "Disabled",
        "instances": parts,
    }
    return GpuHealth(**usual | fields)


REPORT = NodeHealth(
    boot_id="boot-1",
    gpus=(
        gpu(1),
        gpu(2, part("MIG-s", 0)),
        gpu(3, part("MIG-d", 3), part("MIG-other", 4)),
        gpu(4, presence="Unknown", presence_reason="SetAside"),
    ),
)


def every(**fields: Any) -> Change:
    """Change each GPU."""
    return lambda report: msgspec.structs.replace(
        report, gpus=tuple(msgspec.structs.replace(found, **fields) for found in report.gpus)
    )


def one(number: int, **fields: Any) -> Change:
    """Change one GPU."""
    return lambda report: msgspec.structs.replace(
        report,
        gpus=tuple(
            msgspec.structs.replace(found, **fields) if found.uuid == f"GPU-{number}" else found
            for found in report.gpus
        ),
    )


def without(number: int) -> Change:
    return lambda report: msgspec.structs.replace(
        report, gpus=tuple(found for found in report.gpus if found.uuid != f"GPU-{number}")
    )


def with_one_more(found: GpuHealth) -> Change:
    return lambda report: msgspec.structs.replace(report, gpus=(*report.gpus, found))


def rebooted(report: NodeHealth) -> NodeHealth:
    return msgspec.structs.replace(report, boot_id="boot-2")


def after_outage(*changes: Change, published: Iterable[SliceDevice] = ()) -> set[str]:
    """Return the names that are known once the slices are gone and this has happened."""
    report = REPORT
    known = bind(bind({}, PUBLISHED, report), published, report)
    for change in changes:
        report = change(report)
        known = bind(known, published, report)
    return {found.device.device for found in known_devices(known, tuple(published), report)}


ALL = {WHOLE, STATIC, DYNAMIC, MACHINE}
SAME_ADDRESS = {"uuid": "GPU-8", "pci_bus_id": BUS["GPU-1"]}


@pytest.mark.parametrize(
    ("changes", "stays"),
    [
        pytest.param([], ALL, id="nothing happens"),
        pytest.param([one(1, presence="Lost"), one(3, presence="Lost")], ALL, id="GPUs are lost"),
        pytest.param([every(presence="Unknown")], ALL, id="NVML answers nothing"),
        pytest.param(
            [one(1, presence="Lost"), one(1, presence="Present", epoch=2)], ALL, id="one comes back"
        ),
        pytest.param([rebooted], set[str](), id="another boot"),
        pytest.param([every(epoch=2)], {WHOLE, MACHINE}, id="a driver that is loaded again"),
        pytest.param([one(1, minor=5, epoch=2)], ALL - {WHOLE}, id="and that counts anew"),
        pytest.param([one(2, minor=5)], ALL - {STATIC}, id="also where it has slices"),
        pytest.param(
            [one(1, presence="Lost"), one(2, minor=0, epoch=2)],
            ALL - {WHOLE, STATIC},
            id="and that gives the number of a lost one to another",
        ),
        pytest.param([one(3, epoch=2)], ALL - {DYNAMIC}, id="a reset of a sliced GPU"),
        pytest.param([one(1, mig_mode="Enabled")], ALL - {WHOLE}, id="MIG is switched on"),
        pytest.param([one(2, instances=())], ALL - {STATIC}, id="a slice is gone"),
        pytest.param(
            [one(2, instances=(part("MIG-new", 0),))], ALL - {STATIC}, id="a slice is made again"
        ),
        pytest.param(
            [one(2, instances=(part("MIG-s", 2),))], ALL - {STATIC}, id="its UUID is elsewhere"
        ),
        pytest.param(
            [one(2, instances=(unplaced("MIG-s"),)), one(3, instances=(unplaced("MIG-d"),))],
            ALL,
            id="places are unread for once",
        ),
        pytest.param(
            [one(3, instances=(part("MIG-new", 3),))],
            ALL - {DYNAMIC},
            id="another partition is at the place",
        ),
        pytest.param(
            [one(3, instances=(part("MIG-d", 3), part("MIG-more", 0)))],
            ALL,
            id="a partition is made beside it",
        ),
        pytest.param(
            [one(1, presence="Lost"), with_one_more(gpu(8, **SAME_ADDRESS))],
            ALL - {WHOLE},
            id="another board at the address",
        ),
        pytest.param([without(1)], ALL - {WHOLE}, id="a GPU of which nothing is known"),
        pytest.param(
            [one(4, presence="Present")], ALL - {MACHINE}, id="a machine gave its GPU back"
        ),
    ],
)
def test_a_name_means_what_it_meant_until(changes: list[Change], stays: set[str]) -> None:
    assert after_outage(*changes) == stays


def test_a_name_that_is_bound_anew_means_what_is_published_now() -> None:
    other = device(WHOLE, "gpu", uuid="GPU-4")

    known = bind(bind({}, PUBLISHED, REPORT), (other,), REPORT)

    assert other in known_devices(known, (other,), REPORT)
    assert other in known_devices(bind(known, (), REPORT), (), REPORT)
    assert PUBLISHED[0] not in known_devices(known, (other,), REPORT)


def test_a_driver_that_takes_back_one_name_ends_no_binding() -> None:
    assert after_outage(published=PUBLISHED[1:]) == ALL


def test_a_partition_that_is_made_while_nothing_is_published_has_no_name() -> None:
    """The driver makes partitions for claims, and there is none."""
    unmade = one(3, instances=(part("MIG-other", 4),))(REPORT)

    known = bind(bind({}, PUBLISHED, unmade), (), REPORT)

    assert DYNAMIC not in {found.device.device for found in known_devices(known, (), REPORT)}


def test_an_agent_that_starts_in_the_outage_without_a_report_knows_no_name() -> None:
    assert known_devices(bind({}, (), REPORT), (), REPORT) == ()


def test_while_all_is_published_nothing_is_made_anew() -> None:
    assert known_devices(bind({}, PUBLISHED, REPORT), PUBLISHED, REPORT) is PUBLISHED


def test_names_that_come_and_go_are_not_kept_without_end() -> None:
    known: Bindings = {}
    for number in range(bindings.MOST + 10):
        known = bind(known, [device(f"name-{number}", "gpu", uuid="GPU-1")], REPORT)

    names = [name.device for name in bind(known, (), REPORT)]

    assert len(names) == bindings.MOST
    assert names[-1] == f"name-{bindings.MOST + 9}"


PARTS = st.builds(part, st.sampled_from(["MIG-a", "MIG-b"]), st.sampled_from([0, 3]))
GPUS = st.builds(
    GpuHealth,
    uuid=st.just("GPU-1"),
    presence=st.sampled_from(["Present", "Lost", "Unknown"]),
    presence_since=st.just(START),
    pci_bus_id=st.just(BUS["GPU-1"]),
    minor=st.sampled_from([0, 1]),
    epoch=st.sampled_from([1, 2]),
    mig_mode=st.sampled_from(["Enabled", "Disabled"]),
    instances=st.lists(PARTS, max_size=2, unique_by=lambda found: found.uuid).map(tuple),
)
REPORTS = st.builds(
    NodeHealth,
    boot_id=st.sampled_from(["boot-1", "boot-2"]),
    gpus=st.lists(GPUS, max_size=1).map(tuple),
)
DEVICES = [
    device("x", "gpu", uuid="GPU-1"),
    device("x", "gpu", uuid="GPU-2"),
    device("y", "mig", uuid="MIG-a", parent_uuid="GPU-1"),
    device("y", "mig", uuid="MIG-b", parent_uuid="GPU-1"),
    device("z", "mig", parent_uuid="GPU-1", gi_profile_id=19, placement_start=3),
]
PUBLICATIONS = st.lists(
    st.sampled_from(DEVICES), max_size=3, unique_by=lambda found: found.device
).map(tuple)


def hardware(report: NodeHealth, found: SliceDevice) -> object:
    """Return what a person would call the hardware of a name; None where there is none."""
    for known in report.gpus:
        if found.uuid == known.uuid:
            return report.boot_id, known.minor, known.mig_mode
        if found.parent_uuid == known.uuid:
            parts = {
                (live.uuid, live.placement_start)
                for live in known.instances
                if (live.uuid if found.uuid else live.placement_start)
                == (found.uuid or found.placement_start)
            }
            rests_on = (report.boot_id, known.minor, known.mig_mode, known.epoch, parts)
            return rests_on if parts else None
    return None


@given(st.lists(st.tuples(PUBLICATIONS, REPORTS), min_size=1, max_size=6))
def test_what_is_known_was_published_of_hardware_that_is_still_there(
    looks: list[tuple[tuple[SliceDevice, ...], NodeHealth]],
) -> None:
    known: Bindings = {}
    last: dict[Device, tuple[SliceDevice, object]] = {}
    for published, report in looks:
        known = bind(known, published, report)
        last |= {found.device: (found, hardware(report, found)) for found in published}
        names = {found.device for found in published}

        expected = [
            found
            for name, (found, then) in last.items()
            if name in names or (then is not None and then == hardware(report, found))
        ]

        assert sorted(known_devices(known, published, report), key=str) == sorted(expected, key=str)


class TestReported:
    """What the report says of the names, so that others know them while nothing is published."""

    def names(self, report: NodeHealth) -> dict[str, set[str]]:
        return {
            found.uuid: {part.device for part in found.last_published}
            for found in report.gpus
            if found.last_published
        }

    def away(self, report: NodeHealth = REPORT) -> NodeHealth:
        return with_last_published(report, bind({}, PUBLISHED, REPORT), ())

    def test_while_all_is_published_there_are_none(self) -> None:
        known = bind({}, PUBLISHED, REPORT)

        assert with_last_published(REPORT, known, PUBLISHED) == REPORT

    def test_once_the_slices_are_gone_each_gpu_has_its_own(self) -> None:
        """A GPU of a virtual machine is none of these: its name means an address."""
        assert self.names(self.away()) == {"GPU-1": {WHOLE}, "GPU-2": {STATIC}, "GPU-3": {DYNAMIC}}

    def test_they_go_when_the_slices_are_back(self) -> None:
        again = with_last_published(self.away(), bind({}, PUBLISHED, REPORT), PUBLISHED)

        assert again == REPORT

    def test_what_a_driver_leaves_out_of_its_pool_has_none(self) -> None:
        """It started again without a GPU that is lost: it no longer offers that one."""
        known = bind(bind({}, PUBLISHED, REPORT), PUBLISHED[1:], REPORT)

        assert self.names(with_last_published(REPORT, known, PUBLISHED[1:])) == {}

    def test_they_are_as_they_were_published(self) -> None:
        found = {part.device: part for part in last_published(self.away(), "node-a")}

        assert set(found) == {device.device for device in PUBLISHED[:3]}
        for device in PUBLISHED[:3]:
            part = found[device.device]
            assert (part.kind, part.uuid, part.parent_uuid) == (
                (device.kind, device.uuid, device.parent_uuid)
            )
            assert (part.gi_profile_id, part.placement_start) == (
                (device.gi_profile_id, device.placement_start)
            )

    def test_an_agent_that_starts_in_the_outage_goes_on_from_them(self) -> None:
        stored = self.away()

        known = bind(reported_bindings(stored), (), stored)

        assert {found.device for found in known_devices(known, (), stored)} == {
            device.device for device in PUBLISHED[:3]
        }
        assert self.names(with_last_published(stored, known, ())) == self.names(stored)

    def test_and_from_none_whose_slice_is_gone_meanwhile(self) -> None:
        stored = self.away()
        changed = one(2, instances=())(stored)

        known = bind(reported_bindings(stored), (), changed)

        assert set(self.names(with_last_published(changed, known, ()))) == {"GPU-1", "GPU-3"}
