"""The right slice on dynamic MIG: what is made of the same memory as the failed instance.

The devices are those that the simulated DRA driver publishes, read as the remediator reads them.
"""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.device import NVIDIAS, Device, Instance
from exporter.model.node_health import GpuHealth, MemorySlices, MigInstance, SourceHealth
from exporter.model.resource_slices import ResourceSlice, SliceDevice, inventory
from remediator.diagnose.fault import Fault, faults_of
from remediator.diagnose.scope import Scope, scope
from remediator.diagnose.verdict import verdict
from simulator.board import gpus_of
from simulator.gpu import Scenario
from simulator.slices import Publishing, resource_slices
from tests.remediator.builders import (
    DRIVER,
    NO_ACTION_FIELD,
    NODE,
    Stored,
    action,
    at,
    fault,
    gpu,
    mig_gpu,
    published,
    report_with,
    slice_uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import settle

SIZES = {19: 1, 20: 1, 15: 2, 14: 2, 9: 4, 5: 4, 0: 8}
"""Memory slices by GI profile id, of an H100 (NVIDIA's MIG user guide)."""


def partitions(of: GpuHealth) -> tuple[SliceDevice, ...]:
    """An H100 as dynamic MIG publishes it: whole, and as each partition that could be made."""
    board = gpus_of(NODE, "1xH100")
    board[0].uuid = of.uuid
    raw = resource_slices(Scenario(gpus=board), NODE, publishing=Publishing(dynamic_mig=True))
    return inventory((msgspec.convert(body, ResourceSlice) for body in raw), NVIDIAS)


def live(gi: int, profile_id: int, start: int, ci: int = 0) -> MigInstance:
    return MigInstance(
        uuid=slice_uuid(0, 10 * gi + ci),
        gi=gi,
        ci=ci,
        profile="",
        gi_profile_id=profile_id,
        placement_start=start,
        placement_size=SIZES[profile_id],
    )


def contained(
    gi: int = 5, place: MemorySlices | None = None, profile_id: int | None = None
) -> Fault:
    more = {"placement": place, "gi_profile_id": profile_id}
    return fault("contained", "xid-94", instance=Instance(gi, 0), **more)


def names(found: Scope) -> set[str]:
    return {target.device for target in found.targets}


AT_START_0 = {
    "gpu-0",
    "gpu-0-mig-1g10gb-19-0",
    "gpu-0-mig-1g10gb-me-20-0",
    "gpu-0-mig-1g20gb-15-0",
    "gpu-0-mig-2g20gb-14-0",
    "gpu-0-mig-3g40gb-9-0",
    "gpu-0-mig-4g40gb-5-0",
    "gpu-0-mig-7g80gb-0-0",
}
"""All that is made of the first memory slice."""


class TestDynamicMig:
    sick = gpu(0, mig=True)
    free = partitions(sick)

    def test_an_error_of_a_slice_means_every_partition_made_of_its_memory(self) -> None:
        found = scope(contained(place=MemorySlices(0, 1)), self.sick, self.free)

        assert names(found) == AT_START_0
        assert found.exact

    def test_a_live_instance_is_read_the_same_where_an_older_agent_recorded_no_place(self) -> None:
        with_it = msgspec.structs.replace(self.sick, instances=(live(5, 19, 0),))

        assert names(scope(contained(), with_it, self.free)) == AT_START_0

    def test_an_instance_that_is_gone_without_a_recorded_place_means_nothing(self) -> None:
        other = msgspec.structs.replace(self.sick, instances=(live(6, 19, 0),))
        found = scope(contained(), other, self.free)

        assert (found.targets, found.exact) == ((), False)

    def test_the_recorded_place_decides_when_the_id_is_another_instances_by_now(self) -> None:
        other = msgspec.structs.replace(self.sick, instances=(live(5, 19, 6),))
        found = scope(contained(place=MemorySlices(0, 1)), other, self.free)

        assert names(found) == AT_START_0

    def test_a_partition_that_begins_before_the_failed_one_may_reach_into_it(self) -> None:
        found = names(scope(contained(place=MemorySlices(3, 1)), self.sick, self.free))

        assert found == {
            "gpu-0",
            "gpu-0-mig-1g10gb-19-3",
            "gpu-0-mig-1g10gb-me-20-3",
            "gpu-0-mig-1g20gb-15-2",
            "gpu-0-mig-2g20gb-14-2",
            "gpu-0-mig-3g40gb-9-0",
            "gpu-0-mig-4g40gb-5-0",
            "gpu-0-mig-7g80gb-0-0",
        }

    def test_where_no_counters_say_it_the_size_comes_from_the_recorded_profile(self) -> None:
        nameless = tuple(
            msgspec.structs.replace(device, placement_start=None, placement_size=None)
            for device in self.free
        )
        broken = contained(place=MemorySlices(0, 4), profile_id=9)
        found = names(scope(broken, self.sick, nameless))

        assert "gpu-0-mig-1g10gb-19-3" in found
        assert "gpu-0-mig-3g40gb-9-4" not in found

    @pytest.mark.parametrize(("start", "meant"), [(0, True), (1, False)])
    def test_of_a_device_of_unknown_size_only_the_first_slice_is_certain(
        self, start: int, *, meant: bool
    ) -> None:
        unknown = SliceDevice(
            device=Device(DRIVER, NODE, "part"),
            kind="mig",
            parent_uuid=self.sick.uuid,
            placement_start=0,
        )
        found = scope(contained(place=MemorySlices(start, 1)), self.sick, (unknown,))

        assert names(found) == ({"part"} if meant else set())

    def test_where_nothing_published_intersects_it_means_nothing(self) -> None:
        apart = tuple(device for device in self.free if device.device.device.endswith("-19-6"))
        found = scope(contained(place=MemorySlices(0, 1)), self.sick, apart)

        assert (found.targets, found.exact) == ((), False)

    def test_a_neighbour_gpu_of_the_same_layout_is_not_meant(self) -> None:
        neighbour = partitions(gpu(1))
        found = scope(contained(place=MemorySlices(0, 1)), self.sick, neighbour)

        assert found.targets == ()


class TestStaticMig:
    def test_the_full_gpu_that_older_releases_publish_beside_its_slices_is_meant_too(self) -> None:
        """dra-driver-nvidia-gpu, issue 719."""
        sick = mig_gpu(0)
        both = (*published(sick), *published(gpu(0)))
        found = scope(contained(place=MemorySlices(4, 1)), sick, both)

        assert names(found) == {"gpu-0", "gpu-0-mig-1g10gb-19-4"}

    def test_a_compute_instance_beside_the_failed_one_is_spared(self) -> None:
        sick = gpu(0, mig=True, instances=(live(2, 9, 0), live(2, 9, 0, ci=1)))
        one, other = published(msgspec.structs.replace(sick, instances=sick.instances))
        found = scope(contained(2, MemorySlices(0, 4)), sick, (one, other))

        assert [target.uuid for target in found.targets] == [slice_uuid(0, 20)]

    def test_a_slice_that_was_made_again_in_the_same_memory_is_meant(self) -> None:
        again = mig_gpu(0)
        fresh = msgspec.structs.replace(again.instances[4], uuid=slice_uuid(7, 5), gi=9)
        again = msgspec.structs.replace(again, instances=(*again.instances[:4], fresh))
        found = scope(contained(5, MemorySlices(4, 1)), again, published(again))

        assert [target.uuid for target in found.targets] == [slice_uuid(7, 5)]

    def test_a_slice_elsewhere_that_has_the_id_by_now_is_spared(self) -> None:
        sick = mig_gpu(0)
        found = scope(contained(5, MemorySlices(0, 1)), sick, published(sick))

        assert [target.uuid for target in found.targets] == [slice_uuid(0, 1)]


class TestAnIncident:
    def test_siblings_stay_free_when_the_instance_was_destroyed_before_the_report(self) -> None:
        """The process dies, the pod ends, the kubelet unprepares, and NVML lists no instance."""
        stored = Stored()
        record = msgspec.structs.replace(
            xid(94, gi=5),
            mig_mode="Enabled",
            placement=MemorySlices(0, 1),
            sources=("kmsg", "nvml"),
        )
        sick = gpu(0, record, mig=True, recovery_action=action(observed=0.5))
        seen = view(sick, inventory=partitions(sick))

        for second in (1, 4, 10, 300, 590):
            settle(stored, seen, second)

        assert set(stored.effects()) == AT_START_0

    def test_a_reading_of_before_the_error_does_not_show_which_slice_had_it(self) -> None:
        """NVML is read at once: until then the slice with that id may be another one."""
        record = msgspec.structs.replace(
            xid(94, seen=20, gi=5), mig_mode="Enabled", sources=("kmsg", "nvml")
        )
        before = mig_gpu(0, record, recovery_action=action(observed=0))
        stored, seen = Stored(), view(before)
        up = (SourceHealth(name="nvml", state="Up"),)

        for second in (20.1, 25, 40, 70):
            dated = report_with(seen, observed_at=at(second), sources=up)
            settle(stored, with_fields(seen, report=dated), second)
        assert stored.effects() == {}

        for second in (81, 82, 100):  # it is not read: any slice may be meant
            dated = report_with(seen, observed_at=at(second), sources=up)
            settle(stored, with_fields(seen, report=dated), second)
        assert set(stored.effects().values()) == {"NoSchedule"}
        assert len(stored.effects()) == len(seen.slices.inventory)

    def test_an_incident_of_an_unpublished_instance_stays_suspected_and_says_why(self) -> None:
        stored = Stored()
        sick = mig_gpu(0, xid(94, gi=12), recovery_action=action(observed=0.1))

        for second in (1, 5, 10, 20):
            settle(stored, view(sick), second)

        assert stored.effects() == {}
        assert stored.incident.status.phase == "Suspected"
        assert "the failed MIG instance is not published" in stored.incident.status.message


PLACES = [
    MemorySlices(start, size)
    for size, starts in {1: range(7), 2: range(0, 8, 2), 4: (0, 4), 8: (0,)}.items()
    for start in starts
]
LIVE = st.lists(
    st.builds(
        live,
        st.integers(1, 7),
        st.sampled_from(sorted(SIZES)),
        st.integers(0, 7),
        st.integers(0, 1),
    ),
    max_size=5,
)


@given(st.sampled_from(PLACES), LIVE, st.integers(1, 7), st.data())
def test_nothing_that_misses_the_recorded_place_is_ever_in_scope(
    place: MemorySlices, instances: list[MigInstance], gi: int, data: st.DataObject
) -> None:
    sick = gpu(0, mig=data.draw(st.sampled_from([True, False, None])), instances=tuple(instances))
    everything = partitions(sick)
    offered = data.draw(st.lists(st.sampled_from(everything), unique=True))
    by_name = {device.device.device: device for device in offered}

    found = scope(contained(gi, place), sick, tuple(offered))

    for name in names(found):
        if by_name[name].kind == "mig":
            _, profile_id, start = name.rsplit("-", 2)
            assert MemorySlices(int(start), SIZES[int(profile_id)]).intersects(place)
    affected = {
        name
        for name, device in by_name.items()
        if device.kind == "gpu"
        or MemorySlices(int(name.rsplit("-", 1)[1]), SIZES[int(name.rsplit("-", 2)[1])]).intersects(
            place
        )
    }
    assert names(found) == affected


@pytest.mark.parametrize("field", [NO_ACTION_FIELD, action(observed=1), action(observed=-1)])
@pytest.mark.parametrize("presence", ["Present", "Unknown", "Lost"])
@pytest.mark.parametrize("mode", ["Enabled", "Disabled"])
@pytest.mark.parametrize("gi", [None, 0, 5])
def test_a_record_means_the_same_whatever_nvml_says_of_the_mig_mode_later(
    gi: int | None, mode: str, presence: str, field: object
) -> None:
    record = msgspec.structs.replace(
        xid(94, gi=gi), mig_mode=mode, placement=None if gi is None else MemorySlices(4, 1)
    )
    readings = [
        gpu(0, record, presence=presence, recovery_action=field, mig=later)
        for later in (True, False, None)
    ]
    faults = [faults_of(verdict(health)) for health in readings]

    assert faults[0] == faults[1] == faults[2]


def test_an_old_contained_error_without_mig_stays_nothing_when_nvml_goes_away() -> None:
    """A driver without a recovery action, and more than a day later an upgrade of it."""
    record = msgspec.structs.replace(xid(94), mig_mode="Disabled")
    stored = Stored()
    before = gpu(0, record, recovery_action=NO_ACTION_FIELD)
    away = msgspec.structs.replace(
        before, presence="Unknown", presence_since=at(100_000), mig_mode="Unknown"
    )

    settle(stored, view(before), 1)
    for second in (100_000, 100_003, 100_600):
        settle(stored, view(away), second)

    assert stored.incidents == {}
