"""A second source stands behind every disruption: what bears the kernel log out, row by row."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.node_health import (
    ConfigSpace,
    FabricHealth,
    GpuHealth,
    MemoryHealth,
    NvlinkHealth,
    RecoveryAction,
    SourceHealth,
    SwitchHealth,
    SxidRecord,
    XidRecord,
)
from exporter.model.node_health_words import ConfigState
from remediator.diagnose import xid_table
from remediator.diagnose.fault import LOGS, SOURCES, Fault, Source, Surroundings, faults_of
from remediator.diagnose.verdict import verdict
from remediator.plan.status import UNCONFIRMED
from tests.remediator.builders import (
    LASTS,
    NO_ACTION_FIELD,
    RESET,
    Stored,
    action,
    at,
    gpu,
    mig_gpu,
    policy,
    report_with,
    view,
    with_fields,
    xid,
)
from tests.remediator.diagnose.test_verdict_promises import gpus
from tests.remediator.playing import settle

ACTING = sorted(code for code, row in xid_table.table().items() if row.fault)
UNREAD = action(observed=-1)
FATAL = 23001
"""An SXid that is always fatal."""
NVML_DOWN = (
    SourceHealth(name="nvml", state="Down", reason="Hung"),
    SourceHealth(name="kmsg", state="Up", via="Device"),
)

BEARS_OUT: dict[Source, dict[str, object]] = {
    "RecoveryAction": {"recovery_action": RESET},
    "GpuLost": {"presence": "Lost", "presence_reason": "GpuIsLost", "presence_since": at(1)},
    "HungCall": {"presence": "Unknown", "presence_reason": "Hung", "presence_since": at(1)},
    "OffBus": {"config_space": ConfigSpace(state="AllOnes", since=at(1))},
    "MemoryCounters": {"memory": MemoryHealth(dbe_aggregate=1, rose_at=at(2))},
    "NvLink": {"nvlink": NvlinkHealth(down=(3,), failed=(3,))},
    "Fabric": {"fabric": FabricHealth(state=3, health_summary=2)},
}
"""What NVML or the bus reads after the line, by source."""
TELLS: dict[Source, str] = {"NvmlEvent": "nvml", "Dcgm": "dcgm"}


def of_code(health: GpuHealth, code: int, **around: object) -> Fault:
    seen = with_fields(Surroundings(), **around)
    return next(fault for fault in faults_of(verdict(health, seen)) if fault.xid == code)


def logged(code: int, *, by: str = "kmsg", **fields: object) -> XidRecord:
    gi = 5 if code == 94 else None
    record = with_fields(xid(code, gi=gi, sources=(by,)), **fields)
    return msgspec.structs.replace(record, mig_mode="Enabled") if gi else record


def sick(record: XidRecord, **fields: object) -> GpuHealth:
    one = mig_gpu(0, record) if record.gi else gpu(0, record)
    return with_fields(one, **({"recovery_action": UNREAD} | fields))


def unconfirmed(stored: Stored) -> set[str]:
    """Return why nothing can confirm the fault of the only incident."""
    known = stored.incident.status.conditions
    return {
        condition.reason
        for condition in known
        if condition.type == UNCONFIRMED and condition.status == "True"
    }


@pytest.mark.parametrize("code", ACTING)
def test_every_row_names_its_second_sources(code: int) -> None:
    second = set(xid_table.rule_of(code).second)

    assert {"NvmlEvent", "RecoveryAction"} <= second <= set(SOURCES) - LOGS
    assert ("Dcgm" in second) is (code not in {79, 119, 120})  # these DCGM reads in /dev/kmsg


@pytest.mark.parametrize("source", [*BEARS_OUT, *TELLS])
@pytest.mark.parametrize("code", ACTING)
def test_a_source_bears_a_line_out_where_the_row_counts_it(code: int, source: Source) -> None:
    counts = source in xid_table.rule_of(code).second
    if source in TELLS:
        both = ("kmsg", TELLS[source])
        one = sick(msgspec.structs.replace(logged(code), sources=both, event_at=at(0.1)))
    else:
        one = sick(logged(code), **BEARS_OUT[source])
    found = of_code(one, code)

    assert (source in found.sources) is counts
    assert found.alone is not counts


@pytest.mark.parametrize("code", ACTING)
@pytest.mark.parametrize("field", [NO_ACTION_FIELD, UNREAD])
@pytest.mark.parametrize("presence", ["Present", "Unknown"])
def test_the_line_alone_is_never_certain(code: int, field: object, presence: str) -> None:
    one = sick(logged(code), recovery_action=field, presence=presence)

    for found in faults_of(verdict(one)):
        assert (found.xid, found.alone, found.certain) == (code, True, False)
        assert found.doubt


@given(gpus(), st.sampled_from([(), ("kmsg",), ("syslog",), ("dcgm", "kmsg"), ("kmsg", "nvml")]))
def test_without_a_second_source_no_fault_is_certain(
    health: GpuHealth, sources: tuple[str, ...]
) -> None:
    records = tuple(msgspec.structs.replace(record, sources=sources) for record in health.xids)

    for fault in faults_of(verdict(msgspec.structs.replace(health, xids=records))):
        assert fault.sources
        assert not (fault.certain and fault.alone)
        assert not (fault.certain and set(fault.sources) <= LOGS)


def test_an_event_of_long_ago_does_not_bear_out_a_line_of_now() -> None:
    old = msgspec.structs.replace(
        xid(95), first_seen=at(-9000), event_at=at(-9000), sources=("nvml", "syslog")
    )
    near = msgspec.structs.replace(old, event_at=at(-59))

    assert of_code(sick(old), 95).forgeable
    assert not of_code(sick(near), 95).alone


def test_the_event_of_a_45_does_not_bear_out_the_cause_that_its_line_names() -> None:
    named = msgspec.structs.replace(xid(45), caused_by=95)

    assert of_code(gpu(0, named, recovery_action=NO_ACTION_FIELD), 95).alone


@pytest.mark.parametrize(("read", "counts"), [(0, False), (0.1, True)])
def test_a_recovery_action_bears_out_only_a_line_that_came_before_it_was_read(
    read: float, counts: bool
) -> None:
    one = sick(logged(79), recovery_action=action(2, observed=read))

    assert of_code(one, 79).alone is not counts


def test_a_hang_before_the_line_bears_nothing_out() -> None:
    one = sick(logged(79), presence="Unknown", presence_reason="Hung", presence_since=at(-1))

    assert of_code(one, 79).alone


@pytest.mark.parametrize(("since", "counts"), [(20, True), (-59, True), (-61, False)])
def test_a_gpu_missed_and_then_unpublished_bears_out_only_a_line_that_came_before(
    since: float, counts: bool
) -> None:
    one = sick(
        logged(79),
        presence="Unknown",
        presence_reason="NotListedThenUnpublished",
        presence_since=at(since),
    )

    assert of_code(one, 79).alone is not counts


def test_counters_that_rose_long_before_the_line_bear_nothing_out() -> None:
    one = sick(logged(95), memory=MemoryHealth(rose_at=at(-61)))

    assert of_code(one, 95).alone


@pytest.mark.parametrize(("by", "source"), [("kmsg", "Kmsg"), ("syslog", "Syslog")])
def test_a_154_is_of_the_log_until_the_action_is_read(by: str, source: str) -> None:
    wants = msgspec.structs.replace(UNREAD, logged=1, logged_at=at(0), logged_source=by)
    (found,) = faults_of(verdict(gpu(0, recovery_action=wants)))

    assert (found.sources, found.certain) == ((source,), False)


NVML_AWAY = {"presence": "Unknown", "presence_reason": "NvmlHung", "presence_since": at(1)}


class TestOffTheBus:
    @pytest.mark.parametrize(
        "says",
        [
            {"config_space": ConfigSpace(state="AllOnes", since=at(1))},
            {"config_space": ConfigSpace(state="AllOnes", since=at(-5))},  # read before the line
            {"config_space": ConfigSpace(state="Gone", since=at(1))},
            {"presence_reason": "NotOnBus"},  # of an agent that does not read config space
        ],
    )
    def test_the_bus_bears_a_lost_gpu_out_while_nvml_cannot_be_queried(
        self, says: dict[str, object]
    ) -> None:
        found = of_code(sick(logged(79), **(NVML_AWAY | says)), 79, sources=NVML_DOWN)

        assert (found.sources, found.certain, found.unprovable) == (("Kmsg", "OffBus"), True, None)

    @pytest.mark.parametrize(
        "says",
        [
            {"config_space": ConfigSpace(state="Answers", since=at(1), answered_at=at(1))},
            {"config_space": ConfigSpace(since=at(1), answered_at=at(0))},
            {"presence_reason": "SetAside"},
            {},
        ],
    )
    def test_a_bus_that_answers_or_cannot_be_read_bears_nothing_out(
        self, says: dict[str, object]
    ) -> None:
        found = of_code(sick(logged(79), **(NVML_AWAY | says)), 79, sources=NVML_DOWN)

        assert (found.sources, found.certain) == (("Kmsg",), False)

    def test_it_is_no_fault_by_itself(self) -> None:
        ones = ConfigSpace(state="AllOnes", since=at(1))

        assert not faults_of(verdict(gpu(0, config_space=ones, recovery_action=UNREAD)))

    def test_a_word_of_a_later_agent_is_unknown(self) -> None:
        stored = msgspec.json.decode(b'{"state": "Melted"}', type=ConfigSpace)

        assert (stored.state, stored.off_bus) == ("Unknown", False)


class TestSxids:
    @pytest.mark.parametrize("by", ["kmsg", "syslog"])
    def test_a_link_down_on_a_gpu_of_the_node_bears_one_out(self, by: str) -> None:
        record = SxidRecord(
            code=FATAL, count=1, first_seen=at(0), last_seen=at(0), severity="Fatal", sources=(by,)
        )
        switches = (SwitchHealth(pci_bus_id="0000:c1:00.0", sxids=(record,)),)
        well, hurt = gpu(0), gpu(1, nvlink=NvlinkHealth(down=(1,), failed=(1,)))

        (alone,) = faults_of(verdict(well, Surroundings(switches=switches, gpus=(well,))))
        (both,) = faults_of(verdict(well, Surroundings(switches=switches, gpus=(well, hurt))))

        assert alone.alone
        assert alone.forgeable is (by == "syslog")
        assert both.sources == (by.capitalize(), "NvLink")

        apart = gpu(1, fabric=FabricHealth(health_summary=2))
        (third,) = faults_of(verdict(well, Surroundings(switches=switches, gpus=(well, apart))))
        assert third.sources == (by.capitalize(), "Fabric")


class TestIncidents:
    def test_read_from_kmsg_alone_it_restricts_and_moves_nobody(self) -> None:
        stored = Stored()
        seen = view(sick(logged(95)))

        for second in (1, 5, 10, 60):
            settle(stored, seen, second)

        assert stored.effects() == {"gpu-0": "NoSchedule"}

    def test_read_by_syslog_alone_it_is_suspected_and_taints_nothing(self) -> None:
        stored = Stored()
        seen = view(sick(logged(95, by="syslog")))

        for second in (1, 5, 10, 60):
            settle(stored, seen, second)

        assert stored.effects() == {}
        assert stored.incident.status.phase == "Suspected"
        assert "syslog" in stored.incident.status.message
        assert stored.incident.status.fault.sources == ("Syslog",)

    def test_a_second_source_then_moves_pods(self) -> None:
        stored = Stored()
        settle(stored, view(sick(logged(95, by="syslog"))), 1)
        seen = view(sick(logged(95, by="syslog"), recovery_action=RESET))

        for second in (2, 6, 10):
            settle(stored, seen, second)

        assert stored.effects() == {"gpu-0": "NoExecute"}

    @pytest.mark.parametrize(
        ("state", "effect"),
        [
            ("AllOnes", "NoExecute"),
            ("Gone", "NoExecute"),
            ("Answers", "NoSchedule"),
            ("Unknown", "NoSchedule"),
        ],
    )
    def test_while_nvml_hangs_the_bus_decides_whether_a_lost_gpu_moves_pods(
        self, state: ConfigState, effect: str
    ) -> None:
        stored = Stored()
        bus = ConfigSpace(state=state, since=at(1))
        seen = view(sick(logged(79), config_space=bus, **NVML_AWAY))
        seen = with_fields(seen, report=report_with(seen, sources=NVML_DOWN))

        for second in (1, 5, 10, 60):
            settle(stored, seen, second)

        assert stored.effects() == {"gpu-0": effect}
        assert ("OffBus" in stored.incident.status.fault.sources) is (effect == "NoExecute")

    def test_three_forged_lines_are_no_third_incident(self) -> None:
        """Incident-only, where every other incident counts."""
        stored = Stored()
        rows = policy(mode="incident-only", soak=timedelta(seconds=10))
        for start in (0, 100, 200):
            record = logged(95, by="syslog", first_seen=at(0), last_seen=at(start))
            for second in (1, 5):
                settle(stored, view(sick(record)), start + second, rows)
            over = sick(record, recovery_action=action(observed=start + 10))
            for second in (10, 15, 30, 50):
                settle(stored, view(over), start + second, rows)

        assert len(stored.incidents) == 3
        assert all(not incident.open for incident in stored.incidents.values())
        assert {incident.status.history.recurrence for incident in stored.incidents.values()} == {1}

    @pytest.mark.parametrize("code", [64, 79, 95])
    def test_a_forged_line_does_not_worsen_a_real_incident(self, code: int) -> None:
        stored = Stored()
        real = msgspec.structs.replace(xid(94, gi=5), mig_mode="Enabled", event_at=at(0))
        read = action(observed=0.5)
        settle(stored, view(mig_gpu(0, real, recovery_action=read)), 1)
        forged = logged(code, by="syslog", first_seen=at(20), last_seen=at(20))
        both = mig_gpu(0, real, forged, recovery_action=read)

        for second in (21, 25, 60):
            settle(stored, view(both), second)

        assert stored.incident.status.fault.fault_class == "contained"
        assert len(stored.effects()) == 1

    @pytest.mark.parametrize(
        ("field", "sources", "why"),
        [(NO_ACTION_FIELD, None, "DriverTooOld"), (UNREAD, NVML_DOWN, "NvmlUnavailable")],
    )
    def test_where_nothing_else_can_be_requested_a_person_looks(
        self, field: object, sources: tuple[SourceHealth, ...] | None, why: str
    ) -> None:
        """A driver before R565, or an NVML that hangs as a whole."""
        stored = Stored()
        away: dict[str, object] = {"presence": "Unknown", "presence_reason": "NvmlHung"}
        seen = view(sick(logged(79), recovery_action=field, **(away if sources else {})))
        if sources:
            seen = with_fields(seen, report=report_with(seen, sources=sources))

        settle(stored, seen, 1)
        first = stored.incident.status.phase
        for second in (5, 10, 60):
            settle(stored, seen, second)

        assert (first, stored.incident.status.phase) == ("Tainted", "NeedsHuman")
        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert stored.incident.status.repair.needs == "Human"
        assert stored.conditions == {}
        assert unconfirmed(stored) == {why}
        settle(stored, with_fields(seen, report=None), 90)
        assert unconfirmed(stored) == {why}, "not knowing is no second source"

    def test_a_request_that_only_the_log_reports_needs_one_too_while_nvml_is_down(self) -> None:
        stored, logged_154 = Stored(), RecoveryAction(logged=2, logged_at=at(0))
        board = gpu(0, presence="Unknown", presence_reason="NvmlHung", recovery_action=logged_154)
        seen = with_fields(view(board), report=report_with(view(board), sources=NVML_DOWN))

        for second in (1, 5, 10, 60):
            settle(stored, seen, second)

        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert stored.incident.status.phase == "NeedsHuman"
        assert unconfirmed(stored) == {"NvmlUnavailable"}

    def test_once_a_second_source_confirms_the_fault_nobody_is_paged_for_it(self) -> None:
        stored = Stored()
        alone = sick(logged(79), recovery_action=NO_ACTION_FIELD)
        for second in (1, 5, 10):
            settle(stored, view(alone), second)
        assert unconfirmed(stored) == {"DriverTooOld"}

        lost = BEARS_OUT["GpuLost"]
        settle(stored, view(sick(logged(79), recovery_action=NO_ACTION_FIELD, **lost)), 20)

        assert unconfirmed(stored) == set()

    def test_an_sxid_ends_by_the_word_of_a_user(self) -> None:
        """The switch was reset with its GPUs, which no source reports."""
        record = SxidRecord(
            code=FATAL, count=1, first_seen=at(0), last_seen=at(0), severity="Fatal"
        )
        switches = (SwitchHealth(pci_bus_id="0000:c1:00.0", sxids=(record,)),)
        stored = Stored()
        for second in (1, 5, 10, 60, 70, 700):
            if second == 60:
                stored.intend("RepairConfirmed", LASTS)
            seen = view(gpu(0, recovery_action=action(observed=second)))
            dated = report_with(seen, switches=switches, observed_at=at(second))
            settle(stored, with_fields(seen, report=dated), second)
            assert second < 10 or bool(stored.effects()) == (second < 700)

        assert stored.incident.status.phase == "Recovered"

    @pytest.mark.parametrize("by", ["kmsg", "syslog"])
    def test_an_sxid_of_the_log_alone_has_no_node_rebooted(self, by: str) -> None:
        record = SxidRecord(
            code=FATAL, count=1, first_seen=at(0), last_seen=at(0), severity="Fatal", sources=(by,)
        )
        seen = view(gpu(0, recovery_action=action(observed=1)))
        switches = (SwitchHealth(pci_bus_id="0000:c1:00.0", sxids=(record,)),)
        seen = with_fields(seen, report=report_with(seen, switches=switches))
        stored = Stored()

        decisions = [settle(stored, seen, second) for second in (1, 5, 10, 4000)]

        assert {
            planned.demanded.repair.calls for decision in decisions for _, planned in decision.pairs
        } == {"nothing"}
        assert set(stored.effects().values()) == ({"NoSchedule"} if by == "kmsg" else set())
        assert unconfirmed(stored) == ({"NotInNvml"} if by == "kmsg" else set())
