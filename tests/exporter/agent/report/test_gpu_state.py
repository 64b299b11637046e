"""One GPU's reading into what the report says of it."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from exporter.agent.report import condition, gpu_state, ledger
from exporter.agent.report.clock_set import by_clock_of
from exporter.agent.report.ledger import Published
from exporter.model.node_health import (
    FabricHealth,
    GpuHealth,
    MemoryHealth,
    NodeHealth,
    NvlinkHealth,
)
from exporter.model.readings import FabricReading, GpuReading, LinkReading, Observation
from tests.exporter.worlds import (
    BUS,
    START,
    Sensed,
    at,
    counts,
    gpu,
    mig_gpu,
    seen,
    unseen,
    with_bus,
)

FRESH = ledger.begin("boot-1", "1", START)
BOOTED = START - timedelta(days=1)
ALL = tuple(BUS[f"GPU-{number}"] for number in (1, 2, 3))
BOTH = ALL[:2]


def sequence(*readings: Any, every: float = 60.0) -> NodeHealth:
    """Return the report after observations of one GPU, one every `every` seconds."""
    report = FRESH
    for place, reading in enumerate(readings):
        report = ledger.observe(report, seen(reading, seconds=place * every))
    return report


def first(report: NodeHealth) -> GpuHealth:
    return report.gpus[0]


class TestTakenAwayOnPurpose:
    def test_a_gpu_that_was_let_go_is_unknown_and_never_lost(self) -> None:
        report = ledger.observe(FRESH, seen(gpu(), gpu(2)))
        report = ledger.observe(report, seen(gpu(released=True), gpu(2), seconds=30))
        assert (first(report).presence, first(report).presence_reason) == ("Unknown", "Released")
        for seconds in (60, 600):
            report = ledger.observe(report, seen(gpu(2), seconds=seconds))
        assert (first(report).presence, first(report).presence_reason) == ("Unknown", "Released")

    def test_what_was_known_of_a_gpu_stays_while_it_is_let_go(self) -> None:
        let_go = gpu(released=True, recovery_supported=None, recovery_action=None, mig=None)
        found = first(sequence(gpu(recovery_action=1, dbe_volatile=3), let_go))
        assert (found.recovery_action.value, found.memory.dbe_volatile) == (1, 3)

    def test_a_lost_gpu_that_is_let_go_stays_lost_until_it_comes_back_in_a_new_epoch(self) -> None:
        report = sequence(gpu(), gpu(lost=True), gpu(released=True))
        assert first(report).presence == "Lost"
        report = ledger.observe(report, seen(gpu(), seconds=300))
        assert (first(report).presence, first(report).epoch) == ("Present", 2)

    def test_a_gpu_that_the_kernel_no_longer_lists_is_not_lost(self) -> None:
        report = ledger.observe(FRESH, with_bus(seen(gpu(), gpu(2)), *BOTH))
        for seconds in (30, 300):
            report = ledger.observe(report, with_bus(seen(gpu(2), seconds=seconds), BOTH[1]))
        assert (first(report).presence, first(report).presence_reason) == ("Unknown", "NotOnBus")

    def test_a_gpu_that_another_driver_holds_is_not_lost(self) -> None:
        report = ledger.observe(FRESH, with_bus(seen(gpu(), gpu(2)), *BOTH))
        for seconds in (30, 300):
            changes = with_bus(seen(gpu(2), seconds=seconds), *BOTH, unbound=BOTH[:1])
            report = ledger.observe(report, changes)
        assert (first(report).presence, first(report).presence_reason) == ("Unknown", "SetAside")

    def test_a_pci_list_without_any_known_gpu_takes_no_loss_away(self) -> None:
        report = ledger.observe(FRESH, seen(gpu(), gpu(2)))
        for seconds in (30, 90):
            report = ledger.observe(report, with_bus(seen(gpu(2), seconds=seconds)))
        assert first(report).presence == "Lost"


class TestOneUuidOfTwoGpus:
    TWINS = (gpu(1), gpu(1, bus_id=BUS["GPU-2"]))

    def test_it_is_unknown_by_that_name(self) -> None:
        report = ledger.observe(FRESH, seen(*self.TWINS))
        assert (first(report).presence, first(report).presence_reason) == (
            "Unknown",
            "DuplicateUUID",
        )

    def test_its_errors_are_counted_by_bus_until_the_names_differ(self) -> None:
        sensed = Sensed()
        report = ledger.observe(FRESH, seen(gpu(1)))
        before = sensed.kmsg(1, 48)
        report = ledger.take(report, [before], run="run-1", kernel_sequence=None)
        report = ledger.observe(report, seen(*self.TWINS, seconds=10))
        during = [sensed.kmsg(20, 48), sensed.nvml(30, 79), sensed.kmsg(40, 79, 2)]
        report = ledger.take(report, during, run="run-1", kernel_sequence=None)
        assert counts(report) == {
            "GPU-1": {(48, None): 1},
            "unknown-0000:01:00.0": {(48, None): 1, (79, None): 1},
            "unknown-0000:02:00.0": {(79, None): 1},
        }

        report = ledger.observe(report, seen(gpu(1), gpu(2), seconds=60))
        assert counts(report) == {
            "GPU-1": {(48, None): 2, (79, None): 1},
            "GPU-2": {(79, None): 1},
        }
        assert {health.presence for health in report.gpus} == {"Present"}

    def test_nothing_else_that_names_the_bus_takes_the_ambiguous_name(self) -> None:
        sensed = Sensed()
        report = ledger.observe(FRESH, seen(*self.TWINS))
        line = sensed.kmsg(5, 0, kind="identity", uuid="GPU-1")
        report = ledger.take(report, [sensed.kmsg(1, 79), line], run="run-1", kernel_sequence=None)
        offered = Published(frozenset({"GPU-1"}), {BUS["GPU-1"]: "GPU-1"})
        report = ledger.observe(report, seen(*self.TWINS, seconds=10), published=offered)
        assert counts(report) == {"unknown-0000:01:00.0": {(79, None): 1}}


def test_one_reading_that_is_reported_again_and_again_makes_no_gpu_lost() -> None:
    missing = seen(gpu(2), seconds=30)
    report = ledger.observe(ledger.observe(FRESH, seen(gpu(), gpu(2))), missing)
    for seconds in (40, 95, 300):
        report = ledger.observe(report, msgspec.structs.replace(missing, at=at(seconds)))
    assert first(report).presence == "Unknown"
    report = ledger.observe(report, seen(gpu(2), seconds=300))
    assert first(report).presence == "Lost"


def unidentified(seconds: float, count: int = 1) -> Observation:
    """The second of two GPUs is read, and NVML lists others that have no name."""
    found = seen(gpu(2), seconds=seconds)
    assert found.nvml is not None
    nvml = msgspec.structs.replace(found.nvml, unidentified=count)
    return msgspec.structs.replace(found, nvml=nvml)


class TestNotIdentified:
    def test_a_gpu_that_may_be_one_without_a_name_is_never_lost(self) -> None:
        report = ledger.observe(FRESH, seen(gpu(), gpu(2)))
        for seconds in range(30, 900, 30):
            report = ledger.observe(report, unidentified(seconds))
            assert first(report).presence == "Unknown"
        assert first(report).presence_reason == "NotIdentified"

    def test_it_is_lost_a_minute_after_all_are_identified_without_it(self) -> None:
        report = ledger.observe(FRESH, seen(gpu(), gpu(2)))
        report = ledger.observe(report, unidentified(300))
        for seconds, presence in ((330, "Unknown"), (360, "Unknown"), (390, "Lost")):
            report = ledger.observe(report, seen(gpu(2), seconds=seconds))
            assert first(report).presence == presence

    def test_one_that_is_lost_stays_lost(self) -> None:
        report = ledger.observe(FRESH, seen(gpu(lost=True), gpu(2)))
        report = ledger.observe(report, unidentified(30))
        assert first(report).presence == "Lost"

    @pytest.mark.parametrize(
        ("places", "unbound"), [(ALL, ALL[:1]), (ALL[1:], ())], ids=["unbound", "removed"]
    )
    def test_another_gpu_may_have_the_number_of_one_that_the_driver_does_not_have(
        self, places: tuple[str, ...], unbound: tuple[str, ...]
    ) -> None:
        report = ledger.observe(FRESH, seen(gpu(), gpu(2), gpu(3)))
        for seconds in range(30, 300, 30):
            left = seen(gpu(released=True), gpu(2), seconds=seconds)
            report = ledger.observe(report, with_bus(left, *places, unbound=unbound))
        assert report.gpus[2].presence_reason == "NotIdentified"

    def test_one_that_is_left_out_and_there_hides_the_loss_of_no_other(self) -> None:
        report = ledger.observe(FRESH, seen(gpu(), gpu(2), gpu(3)))
        for seconds in (30, 90):
            left = seen(gpu(released=True), gpu(2), seconds=seconds)
            report = ledger.observe(report, with_bus(left, *ALL))
        assert report.gpus[2].presence == "Lost"

    def test_the_report_says_how_many_there_are(self) -> None:
        assert ledger.observe(FRESH, unidentified(0, 2)).inventory.unidentified == 2


class TestTheClockIsSet:
    def test_a_gpu_that_is_missed_from_a_time_to_come_is_missed_from_now_on(self) -> None:
        """As where the boot time begins anew with a sandbox, which looks like a step forwards."""
        report = ledger.observe(FRESH, seen(gpu(), gpu(2)))
        report = ledger.observe(report, seen(gpu(2), seconds=30))
        report = by_clock_of(by_clock_of(report, BOOTED), START)
        for seconds, presence in ((60, "Unknown"), (90, "Unknown"), (120, "Lost")):
            report = ledger.observe(report, seen(gpu(2), seconds=seconds))
            assert first(report).presence == presence

    @pytest.mark.parametrize("step", [timedelta(hours=1), timedelta(hours=-1)])
    def test_a_missing_gpu_is_lost_after_a_real_minute(self, step: timedelta) -> None:
        report = ledger.observe(FRESH, seen(gpu(), gpu(2)))
        report = ledger.observe(report, seen(gpu(2), seconds=30))
        shift = step.total_seconds()
        report = by_clock_of(by_clock_of(report, BOOTED), BOOTED + step)
        report = ledger.observe(report, seen(gpu(2), seconds=60 + shift))
        assert first(report).presence == "Unknown"
        report = ledger.observe(report, seen(gpu(2), seconds=90 + shift))
        assert first(report).presence == "Lost"

    def test_an_error_after_a_clock_that_was_set_back_is_of_this_epoch(self) -> None:
        report = sequence(gpu(recovery_action=1), gpu(recovery_action=0))
        assert (first(report).epoch, first(report).epoch_started) == (2, at(60))
        hour, sensed = 3600, Sensed()
        for seconds in (60 - hour, 70 - hour):
            report = ledger.take(
                report,
                [sensed.kmsg(seconds, 48)],
                run="run-1",
                kernel_sequence=None,
                now=at(seconds + 1),
            )
            report = ledger.observe(report, seen(gpu(), seconds=seconds + 2))
        (record,) = first(report).xids
        assert (record.count, record.epoch) == (2, 2)

    def test_what_the_driver_wants_after_the_clock_was_set_back_is_read(self) -> None:
        report, sensed = sequence(gpu()), Sensed()
        for seconds, desired in ((60, 1), (70 - 3600, 2)):
            line = sensed.kmsg(seconds, 154, recovery_to=desired)
            report = ledger.take(
                report, [line], run="run-1", kernel_sequence=None, now=at(seconds + 1)
            )
        assert first(report).recovery_action.logged == 2

    @pytest.mark.parametrize("jump", [86_400.0, -86_400.0])
    def test_no_epoch_begins_and_no_record_ends_before_it_began(self, jump: float) -> None:
        sensed = Sensed()
        report = ledger.observe(FRESH, seen(gpu()))
        booted = BOOTED
        for seconds, step in ((10.0, 0), (20.0 + jump, jump), (30.0, -jump), (40.0 - jump, -jump)):
            booted += timedelta(seconds=step)
            report = by_clock_of(report, booted)
            signal = sensed.kmsg(seconds, 13)
            report = ledger.take(report, [signal], run="run-1", kernel_sequence=None)
            report = ledger.observe(report, seen(gpu(), seconds=seconds))
        (record,) = first(report).xids
        assert first(report).epoch == 1
        assert record.count == 4
        assert record.first_seen <= record.last_seen


class TestMemory:
    def test_a_remap_that_mig_hides_is_kept_with_its_age(self) -> None:
        report = sequence(gpu(remap_pending=True, remap_failure=False), mig_gpu(), mig_gpu())
        memory = first(report).memory
        assert (memory.remap_pending, memory.remap_failure) == (True, False)
        assert memory.remap_observed_at == START

    def test_a_reset_carries_out_a_remap_but_repairs_no_board(self) -> None:
        worn = gpu(remap_pending=True, remap_failure=True, recovery_action=1)
        memory = first(sequence(worn, mig_gpu(recovery_action=0))).memory
        assert (memory.remap_pending, memory.remap_failure) == (None, True)

    def test_a_state_without_a_time_beside_it_is_absent_when_it_cannot_be_read(self) -> None:
        report = sequence(gpu(sram_threshold=True, retired_pending=True))
        assert first(report).memory.sram_threshold is True
        assert first(report).memory.retired_pending is True
        later = ledger.observe(report, seen(gpu(), seconds=60))
        assert first(later).memory == MemoryHealth()

    @pytest.mark.parametrize("state", ["lost", "hung_call", "released"])
    def test_a_gpu_that_does_not_answer_keeps_what_was_known(self, state: str) -> None:
        whole = gpu(sram_threshold=True, links=(LinkReading(link=0, up=True),), slowdown=8)
        how: dict[str, Any] = {state: "nvmlDeviceGetName" if state == "hung_call" else True}
        unanswered = gpu(**how)
        before, after = first(sequence(whole)), first(sequence(whole, unanswered))
        assert (after.memory, after.nvlink, after.slowdowns) == (
            before.memory,
            before.nvlink,
            before.slowdowns,
        )


class TestEpochs:
    @pytest.mark.parametrize("value", [1, 2, 4, 6, 7])
    def test_the_end_of_a_request_for_a_reset_is_one(self, value: int) -> None:
        report = sequence(gpu(recovery_action=value), gpu(recovery_action=0))

        assert (first(report).epoch, first(report).answered_epoch_started) == (2, at(60))

    @pytest.mark.parametrize("value", [3, 5, 99])
    def test_that_of_a_drain_of_links_or_of_the_imex_domain_is_none(self, value: int) -> None:
        report = sequence(gpu(recovery_action=value), gpu(recovery_action=0))

        assert (first(report).epoch, first(report).answered_epoch_started) == (1, None)

    def test_one_that_is_not_answered_leaves_what_the_one_before_has_shown(self) -> None:
        report = sequence(gpu(), gpu(lost=True), gpu())
        assert first(report).answered_epoch_started == at(120)

        again = gpu_state.driver_loaded(first(report), at(300))

        assert (again.epoch, again.epoch_started) == (3, at(300))
        assert again.answered_epoch_started == at(120)

    @pytest.mark.parametrize("reason", ["DriverReloaded", "Released"])
    @pytest.mark.parametrize("place", ["here", "aside", "gone", None])
    def test_a_gpu_that_is_on_the_bus_and_never_listed_again_is_lost(
        self, reason: str, place: gpu_state.Place | None
    ) -> None:
        away = gpu_state.in_state(first(sequence(gpu())), "Unknown", reason, at(60))
        for seconds in (90, 180):
            away = gpu_state.absent(
                away,
                at(seconds),
                missed_at=at(seconds),
                published=True,
                place=place,
                lost_after=timedelta(seconds=60),
            )

        assert away.presence == ("Lost" if place == "here" else "Unknown")
        assert place == "here" or away.presence_reason == reason

    def test_a_lost_gpu_stays_lost_under_a_driver_that_is_loaded_again(self) -> None:
        lost = first(sequence(gpu(), gpu(lost=True)))

        again = gpu_state.driver_loaded(lost, at(120))

        assert (again.presence, again.presence_reason) == (lost.presence, lost.presence_reason)
        assert again.epoch == lost.epoch + 1

    @pytest.mark.parametrize("version", [{}, {"driver": "999.0"}])
    def test_its_coming_back_after_a_load_begins_no_second_epoch(
        self, version: dict[str, str]
    ) -> None:
        """An error that came in between is of the epoch that the load began."""
        lost = sequence(gpu(), gpu(lost=True))
        loaded = msgspec.structs.replace(
            lost, gpus=(gpu_state.driver_loaded(first(lost), at(120)),)
        )

        report = ledger.observe(loaded, seen(gpu(), seconds=300, **version))

        assert first(report).presence == "Present"
        assert (first(report).epoch, first(report).epoch_started) == (2, at(120))
        assert first(report).answered_epoch_started == at(120)


class TestFabricAndLinks:
    def test_a_link_that_was_up_and_is_down_differs_from_one_that_was_never_wired(self) -> None:
        def links(states: str) -> Any:
            read = {"+": True, "-": False, "?": None}
            return gpu(links=tuple(LinkReading(link=n, up=read[s]) for n, s in enumerate(states)))

        assert first(sequence(links("++-"))).nvlink == NvlinkHealth(up=(0, 1), down=(2,))
        report = sequence(links("++-"), links("+?-"), links("+--"), every=600)
        assert first(report).nvlink == NvlinkHealth(up=(0,), down=(1, 2), failed=(1,))
        report = ledger.observe(report, seen(gpu(), seconds=1300))
        assert first(report).nvlink.failed == (1,), "not read is no recovery"
        report = ledger.observe(report, seen(links("++-"), seconds=1400))
        assert first(report).nvlink == NvlinkHealth(up=(0, 1), down=(2,))

    @pytest.mark.parametrize("back", [True, False], ids=["trained", "it stays down"])
    @pytest.mark.parametrize("away", [gpu(lost=True), gpu(released=True)], ids=["lost", "let go"])
    def test_a_link_has_not_failed_while_it_is_trained_again(
        self, away: GpuReading, *, back: bool
    ) -> None:
        """No source reports the reset of a GPU that was let go for it, if none was requested."""

        def link(*, up: bool) -> Any:
            return gpu(links=(LinkReading(link=0, up=up), LinkReading(link=1, up=up)))

        report = sequence(link(up=True), away, link(up=False))
        for seconds in (180, 719):
            report = ledger.observe(report, seen(link(up=False), seconds=seconds))
            assert first(report).nvlink == NvlinkHealth(up=(0, 1))

        report = ledger.observe(report, seen(link(up=back), seconds=720))

        known = NvlinkHealth(up=(0, 1)) if back else NvlinkHealth(down=(0, 1), failed=(0, 1))
        assert first(report).nvlink == known

    def test_a_link_that_goes_down_under_mig_has_not_failed_when_mig_is_off_again(self) -> None:
        def links(states: str, *, mig: bool = False) -> Any:
            read = (LinkReading(link=n, up=state == "+") for n, state in enumerate(states))
            return gpu(links=tuple(read), mig=mig)

        report = sequence(links("++"), links("+-"), links("--", mig=True), every=600)
        assert first(report).nvlink.failed == (1,)
        report = ledger.observe(report, seen(links("--"), seconds=1300))
        assert first(report).nvlink.failed == (1,), "that one failed before"

        report = ledger.observe(report, seen(links("++"), seconds=1330))
        report = ledger.observe(report, seen(links("-+"), seconds=1899))
        assert first(report).nvlink == NvlinkHealth(up=(0, 1)), "it may be trained again"
        report = ledger.observe(report, seen(links("-+"), seconds=1900))
        assert first(report).nvlink.failed == (0,), "once trained, it may fail"

    def test_links_that_are_not_read_under_mig_are_trained_when_it_is_off_again(self) -> None:
        def links(states: str, *, mig: bool = False) -> Any:
            read = (LinkReading(link=n, up=state == "+") for n, state in enumerate(states))
            return gpu(links=tuple(read), mig=mig)

        report = sequence(links("++"), links("", mig=True), links("--"), every=600)
        assert first(report).nvlink == NvlinkHealth(up=(0, 1))
        report = ledger.observe(report, seen(links("-+"), seconds=1800))
        assert first(report).nvlink.failed == (0,)

    def test_a_mig_mode_that_was_turned_has_a_date(self) -> None:
        assert first(sequence(gpu(mig=True))).mig_since is None, "since before it was first read"
        report = sequence(gpu(mig=False), gpu(mig=None), gpu(mig=True), gpu(mig=True))
        assert first(report).mig_since == at(120)
        report = ledger.observe(report, seen(gpu(mig=False), seconds=300))
        assert first(report).mig_since == at(300)

    def test_the_fabric_is_reported_where_there_is_one(self) -> None:
        info = FabricReading(state=3, status=0, health_mask=0x2AA, health_summary=1, clique=7)
        assert first(sequence(gpu(fabric=info))).fabric == FabricHealth(
            state=3, status=0, health_mask=0x2AA, health_summary=1, clique=7
        )
        assert (
            first(sequence(gpu(fabric=FabricReading(state=0, status=0)))).fabric == FabricHealth()
        )

    def test_hostile_link_numbers_cannot_fill_the_report(self) -> None:
        many = gpu(links=tuple(LinkReading(link=n, up=True) for n in range(5000)))
        assert len(first(sequence(many)).nvlink.up) == condition.MAX_LINKS


class TestSlowdown:
    def test_only_reasons_that_point_at_hardware_or_cooling_are_reported(self) -> None:
        assert [slowdown.reason for slowdown in first(sequence(gpu(slowdown=0x3FF))).slowdowns] == [
            "HwSlowdown",
            "HwThermal",
            "HwPowerBrake",
            "SwThermal",
        ]
        assert first(sequence(gpu(slowdown=0x1 | 0x2 | 0x4 | 0x10))).slowdowns == ()

    def test_one_that_comes_and_goes_is_one_finding_and_ends_ten_minutes_after_it(self) -> None:
        (found,) = first(sequence(gpu(slowdown=8), gpu(slowdown=0), gpu(slowdown=8))).slowdowns
        assert (found.since, found.last_seen) == (START, at(120))
        readings = [gpu(slowdown=8)] + [gpu(slowdown=0)] * 10
        assert len(first(sequence(*readings)).slowdowns) == 1
        assert first(sequence(*readings, gpu(slowdown=None))).slowdowns == ()


@pytest.mark.parametrize(
    ("values", "none_at"),
    [
        ((0,), None),
        ((0, 0), None),
        ((0, 0, 1), 60),
        ((0, 1, 1, 2), 0),
        ((0, 1, None, 2), 0),
        ((0, None), 0),
        ((1, 1), None),
        ((0, 1, 0), None),
        ((0, 1, 0, 2), 120),
    ],
)
def test_the_last_reading_of_no_action_is_kept_while_there_is_one(
    values: tuple[int | None, ...], none_at: float | None
) -> None:
    report = sequence(*(gpu(recovery_action=value) for value in values))
    expected = None if none_at is None else at(none_at)
    assert first(report).recovery_action.none_at == expected


class TestWhatTheLogWants:
    def test_the_newest_line_about_the_recovery_action_is_kept_beside_the_reading(self) -> None:
        sensed = Sensed()
        lines = [sensed.kmsg(20, 154, recovery_to=1), sensed.kmsg(10, 154, recovery_to=2)]
        report = ledger.take(sequence(gpu()), lines, run="run-1", kernel_sequence=None)
        report = ledger.observe(report, seen(gpu(), seconds=30))
        action = first(report).recovery_action
        assert (action.logged, action.logged_at, action.value) == (1, at(20), 0)

    def test_it_is_kept_where_nvml_cannot_say_it(self) -> None:
        sensed = Sensed()
        unanswered = gpu(recovery_supported=False, recovery_action=None)
        line = sensed.kmsg(20, 154, recovery_to=1)
        report = ledger.take(sequence(unanswered), [line], run="run-1", kernel_sequence=None)
        report = ledger.observe(report, seen(unanswered, seconds=30))
        assert first(report).recovery_action.logged == 1
        assert first(ledger.observe(report, unseen(60))).recovery_action.logged == 1


def test_a_lost_gpu_that_is_lost_still_begins_no_new_epoch() -> None:
    assert first(sequence(gpu(), gpu(lost=True), gpu(lost=True), gpu(lost=True))).epoch == 1
