"""Signals beside the XIDs: the recovery action's log line, memory, links, switches, silence."""

from typing import Any

import msgspec
import pytest

from exporter.model.node_health import (
    FabricHealth,
    GpuHealth,
    MemoryHealth,
    NvlinkHealth,
    RecoveryAction,
    Slowdown,
    SourceHealth,
    SwitchHealth,
    SxidRecord,
)
from exporter.model.node_health_words import answer
from kubeapi.types import kubernetes_case
from remediator.diagnose import links, readings
from remediator.diagnose.fault import Fault, Healthy, Sick, Surroundings, Unknown, faults_of
from remediator.diagnose.verdict import verdict
from tests.remediator.builders import (
    NO_ACTION_FIELD,
    RESET,
    action,
    at,
    dead,
    gpu,
    mig_gpu,
    with_fields,
    xid,
)

NVML_UP = (SourceHealth(name="nvml", state="Up"),)


def faults(board: GpuHealth, **around: object) -> dict[str, Fault]:
    surroundings = with_fields(Surroundings(), **around)
    return {fault.cause: fault for fault in faults_of(verdict(board, surroundings))}


def health(flag: str, *, state: bool | None) -> MemoryHealth:
    return msgspec.convert({kubernetes_case(flag): answer(state)}, MemoryHealth)


class TestRecoveryAction:
    @pytest.mark.parametrize("value", [*readings.ACTION_LEVELS, 8, 99])
    def test_a_logged_action_means_what_a_read_one_means_and_is_not_certain(
        self, value: int
    ) -> None:
        logged = msgspec.structs.replace(action(observed=-1), logged=value, logged_at=at(0))
        (by_log,) = faults(gpu(0, recovery_action=logged)).values()
        (by_reading,) = faults(gpu(0, recovery_action=action(value))).values()

        assert "XID 154" in by_log.evidence
        assert not by_log.certain
        for word in ("fault_class", "needs", "cause"):
            assert getattr(by_log, word) == getattr(by_reading, word)

    @pytest.mark.parametrize(
        ("value", "fault_class", "needs"),
        [
            (1, "gpu", "gpu-reset"),
            (2, "node", "node-reboot"),
            (3, "fabric", "fabric-recovery"),
            (4, "gpu", "gpu-reset"),
            (5, "fabric", "fabric-recovery"),
            (6, "gpu", "gpu-reset"),
            (7, "node", "node-reboot"),
            (8, "gpu", "human"),
            (255, "gpu", "human"),
        ],
    )
    def test_each_level_says_what_repairs_it(
        self, value: int, fault_class: str, needs: str
    ) -> None:
        (found,) = faults(gpu(0, recovery_action=action(value))).values()

        assert (found.fault_class, found.needs) == (fault_class, needs)

    def test_a_reading_after_the_line_outranks_it(self) -> None:
        after = msgspec.structs.replace(action(observed=2), logged=1, logged_at=at(1))
        same = msgspec.structs.replace(action(observed=1), logged=1, logged_at=at(1))

        assert isinstance(verdict(gpu(0, recovery_action=after)), Healthy)
        assert isinstance(verdict(gpu(0, recovery_action=same)), Sick)

    def test_a_line_that_says_none_heals_nothing(self) -> None:
        reading = msgspec.structs.replace(action(1, observed=0), logged=0, logged_at=at(5))

        assert isinstance(verdict(gpu(0, recovery_action=reading)), Sick)

    def test_a_line_counts_where_nvml_has_no_such_field_until_a_new_epoch(self) -> None:
        logged = msgspec.structs.replace(NO_ACTION_FIELD, logged=1, logged_at=at(-5))
        after_reset = gpu(0, recovery_action=logged, epoch=2, epoch_started=at(3))

        assert isinstance(verdict(gpu(0, recovery_action=logged)), Sick)
        assert isinstance(verdict(after_reset), Healthy)
        away = msgspec.structs.replace(after_reset, presence="Unknown")
        assert isinstance(verdict(away), Sick)

    def test_an_xid_is_certain_by_the_line_that_follows_it_at_once(self) -> None:
        logged = RecoveryAction(
            support="Supported", value=0, observed_at=at(-9), logged=1, logged_at=at(0)
        )

        assert faults(gpu(0, xid(95), recovery_action=logged))["xid-95"].certain

    def test_a_reading_of_zero_does_not_end_what_a_later_line_wants_mended(self) -> None:
        logged = msgspec.structs.replace(action(0, -9, 1), logged=1, logged_at=at(2))
        found = faults(gpu(0, xid(95), recovery_action=logged))

        assert found["xid-95"].ended is None

    def test_a_reading_from_before_the_reset_proves_no_health(self) -> None:
        one = gpu(0, recovery_action=action(observed=0), epoch=2, epoch_started=at(1))

        assert isinstance(verdict(one), Unknown)


class TestMemory:
    @pytest.mark.parametrize(
        ("flag", "cause", "fault_class", "needs"),
        [
            ("row_remap_failed", "row-remap-failure", "memory", "replacement"),
            ("sram_threshold_exceeded", "sram-threshold", "memory", "diagnosis"),
            ("row_remap_pending", "row-remap-pending", "pending", "gpu-reset"),
            ("page_retirement_pending", "page-retirement-pending", "pending", "gpu-reset"),
        ],
    )
    def test_each_flag_is_a_fault_when_it_is_set_and_moves_nobody(
        self, flag: str, cause: str, fault_class: str, needs: str
    ) -> None:
        found = faults(gpu(0, memory=health(flag, state=True)))

        assert set(found) == {cause}
        assert (found[cause].fault_class, found[cause].needs) == (fault_class, needs)
        assert not found[cause].certain
        for value in (None, False):
            assert isinstance(verdict(gpu(0, memory=health(flag, state=value))), Healthy)

    def test_every_flag_of_the_table_is_one_of_the_report(self) -> None:
        assert {signal.flag for signal in readings.MEMORY_SIGNALS} <= set(
            MemoryHealth.__struct_fields__
        )

    def test_a_pending_remap_ends_with_the_epoch_and_a_failure_does_not(self) -> None:
        old = MemoryHealth(
            row_remap_pending="True", row_remap_failed="True", remap_observed_at=at(-9)
        )
        one = mig_gpu(0, memory=old, epoch=2, epoch_started=at(-5))
        found = faults(one)

        assert set(found) == {"row-remap-failure"}
        assert "last read at 2026-01-05T11:59:51" in found["row-remap-failure"].evidence

    @pytest.mark.parametrize(
        ("state", "read", "known"),
        [(False, 5, True), (True, 5, True), (None, 5, False), (False, -5, False)],
    )
    def test_good_news_of_before_the_reset_is_no_news(
        self, state: bool | None, read: int, known: bool
    ) -> None:
        reported = MemoryHealth(row_remap_failed=answer(state), remap_observed_at=at(read))

        assert (readings.remaps_unread(gpu(0, memory=reported, epoch_started=at(0))) == "") is known


class TestFabric:
    @pytest.mark.parametrize(
        ("fabric", "cause"),
        [
            (FabricHealth(state=3, status=0, health_summary=1), None),
            (FabricHealth(state=3, status=999), "fabric-status"),
            (FabricHealth(state=2, status=999), None),
            (FabricHealth(state=1), None),
            (FabricHealth(state=3, status=None), None),
            (FabricHealth(state=3, status=0, health_summary=2), "fabric-unhealthy"),
            (FabricHealth(state=3, status=0, health_summary=3), None),
            (FabricHealth(state=3, status=0, health_summary=0), None),
        ],
    )
    def test_registration_and_health(self, fabric: FabricHealth, cause: str | None) -> None:
        found = faults(gpu(0, fabric=fabric))

        assert set(found) == ({cause} if cause else set())
        for fault in found.values():
            assert (fault.fault_class, fault.needs) == ("fabric", "fabric-recovery")
            assert not fault.certain

    def test_links_that_went_down_are_a_fault_of_the_only_gpu_that_lost_some(self) -> None:
        one = gpu(0, nvlink=NvlinkHealth(up=(0,), down=(4, 5), failed=(4,)))
        found = faults(one, gpus=(one, gpu(1)))

        assert found["nvlink-failed"].fault_class == "fabric"
        assert "NVLink 4 went down" in found["nvlink-failed"].evidence
        assert not found["nvlink-failed"].certain

    def test_links_that_were_never_up_are_no_fault(self) -> None:
        assert not faults(gpu(0, nvlink=NvlinkHealth(up=(0,), down=(4, 5))))

    @pytest.mark.parametrize(
        "peer",
        [
            dead(1),
            gpu(1, presence="Unknown"),
            gpu(1, recovery_action=RESET),
            gpu(1, nvlink=NvlinkHealth(failed=(2, 3))),
        ],
    )
    def test_a_neighbour_in_trouble_explains_lost_links_and_is_reported(
        self, peer: GpuHealth
    ) -> None:
        one = gpu(0, nvlink=NvlinkHealth(failed=(4,)))
        around = Surroundings(gpus=(one, peer))

        assert isinstance(verdict(one, around), Healthy)
        (remark,) = links.remarks(one, around)
        assert peer.uuid in remark

    def test_a_link_that_both_ends_lost_is_a_fault_of_both(self) -> None:
        """Such as a bridge that failed: neither end may be lost to sight for the other's sake."""
        both = [gpu(index, nvlink=NvlinkHealth(failed=(index,))) for index in (0, 1)]

        for one, other in (both, both[::-1]):
            found = faults(one, gpus=tuple(both))
            assert f"as on {other.uuid}: either end" in found["nvlink-failed"].evidence

    def test_mig_that_is_turned_on_at_the_other_end_explains_it(self) -> None:
        one = gpu(0, nvlink=NvlinkHealth(failed=(0,)))
        peer = gpu(1, nvlink=NvlinkHealth(down=(0,)), mig=True)

        assert not faults(one, gpus=(one, peer))

    def test_no_peer_explains_a_link_to_an_nvswitch(self) -> None:
        fabric = FabricHealth(state=3, status=0)
        one = gpu(0, nvlink=NvlinkHealth(failed=(0,)), fabric=fabric)

        for peer in (dead(1), gpu(1, recovery_action=RESET), gpu(1, presence="Unknown")):
            found = faults(one, gpus=(one, peer))
            assert "either end" not in found["nvlink-failed"].evidence

    def test_of_a_gpu_and_its_peers_the_one_that_lost_most_links_is_at_fault(self) -> None:
        hub, *ends = (gpu(index, nvlink=NvlinkHealth(failed=(0,))) for index in range(4))
        hub = with_fields(hub, nvlink=NvlinkHealth(failed=(0, 1, 2)))

        assert [bool(faults(each, gpus=(hub, *ends))) for each in (hub, *ends)] == [
            True,
            *[False] * 3,
        ]

    @pytest.mark.parametrize("mig", [True, None])
    def test_links_are_down_where_mig_may_be_on(self, mig: bool | None) -> None:
        assert not faults(gpu(0, nvlink=NvlinkHealth(failed=(4,)), mig=mig))

    def test_what_a_peer_caused_is_reported_and_no_fault(self) -> None:
        record = msgspec.structs.replace(
            xid(149), message="NETIR_LINK_DOWN Fatal XC0 i0 Link 5 (0x02000011 0x0 0x0)"
        )
        around = Surroundings(driver_version="580.65.06")
        one = gpu(0, record, xid(74), recovery_action=action(observed=1))
        beside = msgspec.structs.replace(around, gpus=(one, dead(1)))

        assert links.remarks(one, around) == (
            "XID 149 on link 5: the device at the other end caused it",
        )
        came = "XID 74 came when a peer on this node was lost"
        assert came in links.remarks(one, beside)
        assert came not in links.remarks(gpu(0, record, xid(31)), beside)


class TestSwitches:
    def reported(self, code: int, *, fatal: bool | None = None) -> tuple[SwitchHealth, ...]:
        record = SxidRecord(
            code=code,
            count=1,
            first_seen=at(0),
            last_seen=at(0),
            severity="Unknown" if fatal is None else "Fatal" if fatal else "NonFatal",
        )
        return (SwitchHealth(pci_bus_id="0000:c2:00.0", sxids=(record,)),)

    def test_an_always_fatal_code_is_a_fault_of_every_gpu_of_the_node(self) -> None:
        for index in range(2):
            found = faults(gpu(index), switches=self.reported(23001))

            assert set(found) == {"sxid-23001"}
            assert found["sxid-23001"].needs == "human", "no link or fabric confirms it"
            assert found["sxid-23001"].fault_class == "fabric"
            assert not found["sxid-23001"].certain

    @pytest.mark.parametrize("fatal", [None, True, False])
    def test_other_codes_are_no_fault_by_themselves(self, fatal: bool | None) -> None:
        for code in (20034, 19084, 24001, 99999):
            one = verdict(gpu(), Surroundings(switches=self.reported(code, fatal=fatal)))
            assert isinstance(one, Healthy)

    def test_one_that_was_printed_as_fatal_is_evidence_for_a_74(self) -> None:
        found = faults(gpu(0, xid(74, seen=3)), switches=self.reported(20034, fatal=True))

        mild = faults(gpu(0, xid(74, seen=3)), switches=self.reported(20034, fatal=False))
        assert "SXid 20034 of NVSwitch 0000:c2:00.0, printed as fatal" in found["xid-74"].evidence
        assert "SXid" not in mild["xid-74"].evidence

    def test_a_recovery_action_does_not_speak_for_a_switch_and_a_reset_does(self) -> None:
        read = gpu(0, recovery_action=action(observed=60))
        reset = gpu(0, recovery_action=action(observed=60), epoch=2, epoch_started=at(50))
        away = msgspec.structs.replace(reset, presence="Unknown")
        silent = msgspec.structs.replace(away, recovery_action=action(observed=40))

        assert faults(read, switches=self.reported(23001))
        assert not faults(reset, switches=self.reported(23001))
        assert not faults(away, switches=self.reported(23001)), "it has answered since"
        assert faults(silent, switches=self.reported(23001))

    def test_the_reset_of_one_gpu_speaks_for_no_switch(self) -> None:
        """It is reset together with all of its GPUs."""

        def both(*epochs: int) -> set[str]:
            gpus = tuple(
                gpu(
                    index, recovery_action=action(observed=60), epoch=epoch, epoch_started=at(begun)
                )
                for index, epoch in enumerate(epochs)
                for begun in (50 if epoch > 1 else -60,)
            )
            around = Surroundings(switches=self.reported(23001), gpus=gpus)
            return {found.cause for found in links.faults(gpus[0], around)}

        assert both(2, 1) == {"sxid-23001"}
        assert both(1, 2) == {"sxid-23001"}
        assert both(2, 2) == set()

    def test_what_a_reset_has_ended_stays_over_when_a_driver_is_loaded_once_more(self) -> None:
        """The driver before R565 cannot say so, and NVML is not back yet."""
        gone: dict[str, Any] = {"presence": "Unknown", "presence_reason": "DriverReloaded"}
        again = gpu(
            0,
            xid(79, seen=10),
            xid(95, seen=60, epoch=2),
            recovery_action=NO_ACTION_FIELD,
            epoch=3,
            epoch_started=at(100),
            **gone,
        )
        answered = msgspec.structs.replace(again, answered_epoch_started=at(50))

        standing = {name: found.ended for name, found in faults(again).items()}
        assert standing == {"xid-79": None, "xid-95": None}
        found = faults(answered, switches=self.reported(23001))
        assert {name: fault.ended for name, fault in found.items()} == {
            "xid-79": at(10),
            "xid-95": None,
        }


def test_lowered_clocks_are_no_fault() -> None:
    hot = tuple(
        Slowdown(reason=reason, since=at(-900), last_seen=at(0))
        for reason in ("HwSlowdown", "HwThermal", "HwPowerBrake", "SwThermal")
    )

    assert isinstance(verdict(gpu(0, slowdowns=hot)), Healthy)


@pytest.mark.parametrize(("up", "healthy"), [(True, True), (False, False)])
def test_silence_proves_health_only_while_somebody_listens(up: bool, healthy: bool) -> None:
    around = Surroundings(sources=(SourceHealth(name="kmsg", state="Up" if up else "Down"),))

    judged = verdict(gpu(0, recovery_action=NO_ACTION_FIELD), around)

    assert isinstance(judged, Healthy if healthy else Unknown)
    assert isinstance(verdict(gpu(0), around), Healthy)


def test_a_driver_upgrade_and_a_reset_alone_are_no_fault() -> None:
    upgraded = gpu(0, epoch=2, epoch_started=at(-1), presence_since=at(-1))
    reading = msgspec.structs.replace(
        upgraded, presence="Unknown", presence_reason="DriverReloaded"
    )

    assert isinstance(verdict(upgraded), Healthy)
    assert isinstance(verdict(reading), Unknown)
