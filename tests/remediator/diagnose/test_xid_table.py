"""What each XID means for a verdict, row by row."""

import msgspec
import pytest

from exporter.model import xid as catalogue
from exporter.model.node_health import GpuHealth, RecoveryAction, XidRecord
from exporter.model.node_health_words import reset_request
from remediator.diagnose import xid_table
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

NEVER = (None, "nothing", False)
ACTS = ("gpu", "gpu-reset", True)
LINK = ("fabric", "gpu-reset", False)
LATER = ("pending", "gpu-reset", True)

ROWS: dict[int, tuple[str | None, str, bool]] = {
    13: NEVER,
    31: NEVER,
    43: NEVER,
    45: NEVER,
    46: ACTS,
    48: ACTS,
    62: ACTS,
    63: LATER,
    64: ("memory", "replacement", True),
    74: ("fabric", "gpu-reset", True),
    79: ("lost", "node-reboot", True),
    92: NEVER,
    94: ("contained", "nothing", False),
    95: ACTS,
    109: ACTS,
    110: ACTS,
    119: ACTS,
    120: ACTS,
    121: NEVER,
    136: ("fabric", "gpu-reset", True),
    137: NEVER,
    140: ACTS,
    142: NEVER,
    143: ACTS,
    144: LINK,
    145: LINK,
    146: LINK,
    147: LINK,
    148: LINK,
    149: LINK,
    150: LINK,
    151: ("node", "node-reboot", True),
    154: NEVER,
    155: ("fabric", "gpu-reset", True),
    156: ACTS,
    157: NEVER,
    158: ACTS,
    159: NEVER,
    160: LATER,
    161: NEVER,
    171: NEVER,
    172: NEVER,
    173: NEVER,
    175: ACTS,
}
"""Class, what would repair it, and whether a reset that is requested later makes it certain."""


def fault_of(health: GpuHealth, code: int, around: Surroundings | None = None) -> Fault | None:
    judged = verdict(health, around or Surroundings())
    return next((fault for fault in faults_of(judged) if fault.xid == code), None)


def test_every_row_of_the_table_is_listed_here() -> None:
    assert set(ROWS) == set(xid_table.table())
    assert all(row.note for row in xid_table.table().values())


def test_every_code_that_the_catalogue_lays_on_the_hardware_has_a_row() -> None:
    hardware = {
        code
        for code, row in catalogue.catalogue().items()
        if row.xid_class in ("contained", "gpu", "lost", "fabric", "node")
    }
    acting = {code for code, row in xid_table.table().items() if row.fault}

    assert acting - hardware == {63, 160}  # information there: "reset when convenient"
    assert hardware <= acting


def test_no_application_code_has_a_class_of_fault() -> None:
    acting = [code for code, row in xid_table.table().items() if row.fault]

    assert "application" not in {catalogue.lookup(code).xid_class for code in acting}


def test_a_word_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'gqu' is none of suspect, pending"):
        xid_table.parse("code,fault,needs,rule,note\n1,gqu,nothing,never,")


@pytest.mark.parametrize("code", sorted(ROWS))
def test_an_xid_before_anything_was_read_since(code: int) -> None:
    fault_class, needs, _ = ROWS[code]
    found = fault_of(gpu(0, xid(code)), code)

    if found is None:
        assert fault_class is None
    else:
        assert (found.fault_class, found.needs) == (fault_class, needs)
        assert not found.certain
        assert found.doubt
        assert found.cause == f"xid-{code}"


@pytest.mark.parametrize("code", sorted(code for code, row in ROWS.items() if row[0]))
def test_an_xid_after_which_the_driver_wants_a_reset(code: int) -> None:
    found = fault_of(gpu(0, xid(code), recovery_action=RESET), code)

    assert found is not None
    assert found.certain is ROWS[code][2]


@pytest.mark.parametrize("code", sorted(set(ROWS) - {64}))
def test_an_xid_after_which_the_driver_wants_nothing_is_over(code: int) -> None:
    judged = verdict(gpu(0, xid(code), recovery_action=action(observed=1)))

    assert isinstance(judged, Healthy)


@pytest.mark.parametrize("code", sorted(ROWS))
def test_an_xid_of_an_older_epoch_is_over_when_the_gpu_answers(code: int) -> None:
    memory = msgspec.structs.replace(
        gpu().memory, row_remap_failed="False", remap_observed_at=at(50)
    )
    one = gpu(
        0,
        xid(code),
        recovery_action=NO_ACTION_FIELD,
        epoch=2,
        epoch_started=at(40),
        memory=memory,
    )

    assert isinstance(verdict(one), Healthy)


@pytest.mark.parametrize("code", sorted(code for code, row in ROWS.items() if row[0]))
def test_an_xid_of_an_older_epoch_stands_while_the_gpu_does_not_answer(code: int) -> None:
    one = gpu(0, xid(code), epoch=2, epoch_started=at(40), presence="Unknown")

    assert isinstance(verdict(one), Sick)


def test_an_xid_of_the_new_epoch_breaks_its_silence() -> None:
    one = gpu(
        0,
        xid(95, seen=50, epoch=2),
        recovery_action=NO_ACTION_FIELD,
        epoch=2,
        epoch_started=at(40),
    )

    assert isinstance(verdict(one), Sick)


class TestFlags:
    @pytest.mark.parametrize("code", [94, 95])
    @pytest.mark.parametrize(
        ("reset", "drain", "field", "certain"),
        [
            (True, False, NO_ACTION_FIELD, True),
            (True, True, NO_ACTION_FIELD, True),
            (False, True, NO_ACTION_FIELD, False),
            (None, True, RESET, False),
            (True, None, RESET, True),
        ],
    )
    def test_what_the_line_asks_for_is_of_the_whole_gpu(
        self,
        code: int,
        reset: bool | None,
        drain: bool | None,
        field: RecoveryAction,
        certain: bool,
    ) -> None:
        record = msgspec.structs.replace(
            xid(code, gi=5), reset_request=reset_request(at_once=reset, after_drain=drain)
        )
        found = fault_of(mig_gpu(0, record, recovery_action=field), code)

        assert found is not None
        assert (found.fault_class, found.needs) == ("gpu", "gpu-reset")
        assert found.instance is None
        assert found.certain is certain
        assert certain or field is RESET or "running work may finish" in found.doubt


class TestMemoryErrors:
    @pytest.mark.parametrize("mate", [63, 64])
    @pytest.mark.parametrize("seconds", [-59, 0, 59])
    def test_a_48_with_a_remap_near_it_lets_running_work_finish(
        self, mate: int, seconds: int
    ) -> None:
        one = gpu(0, xid(48), xid(mate, seen=seconds), recovery_action=NO_ACTION_FIELD)
        found = fault_of(one, 48)

        assert found is not None
        assert not found.certain
        assert "running work may finish" in found.doubt

    @pytest.mark.parametrize(
        "mate", [xid(63, seen=-61), xid(63, seen=61), xid(63, epoch=0), xid(171)]
    )
    def test_a_48_alone_needs_a_reset(self, mate: XidRecord) -> None:
        found = fault_of(gpu(0, xid(48), mate, recovery_action=NO_ACTION_FIELD), 48)

        assert found is not None
        assert found.certain

    @pytest.mark.parametrize(("code", "place"), [(171, "in DRAM"), (172, "in SRAM")])
    def test_171_and_172_say_where_a_48_was(self, code: int, place: str) -> None:
        found = fault_of(gpu(0, xid(48), xid(code)), 48)

        assert found is not None
        assert place in found.evidence
        assert fault_of(gpu(0, xid(48), xid(code)), code) is None

    def test_a_64_stands_until_a_remap_was_read_to_work(self) -> None:
        well = msgspec.structs.replace(
            gpu().memory, row_remap_failed="False", remap_observed_at=at(20)
        )
        before = msgspec.structs.replace(well, remap_observed_at=at(-20))
        mended = action(observed=30)

        assert isinstance(verdict(gpu(0, xid(64), recovery_action=mended)), Sick)
        assert isinstance(verdict(gpu(0, xid(64), recovery_action=mended, memory=before)), Sick)
        assert isinstance(verdict(gpu(0, xid(64), recovery_action=mended, memory=well)), Healthy)


class TestNamed:
    def named(self, cause: int, **fields: object) -> XidRecord:
        return with_fields(xid(45), caused_by=cause, **fields)

    @pytest.mark.parametrize("cause", [48, 79, 95, 119])
    def test_what_a_45_names_speaks_when_nobody_saw_it(self, cause: int) -> None:
        found = fault_of(gpu(0, self.named(cause)), cause)

        assert found is not None
        assert (found.fault_class, found.needs) == ROWS[cause][:2]
        assert found.cause == f"xid-{cause}"
        assert "named by XID 45" in found.evidence

    def test_it_says_nothing_new_of_what_was_seen(self) -> None:
        judged = verdict(gpu(0, self.named(95, last_seen=at(5)), xid(95)))

        assert [fault.xid for fault in faults_of(judged)] == [95]
        assert [fault.last_seen for fault in faults_of(judged)] == [at(0)]

    @pytest.mark.parametrize("begun", [0, 50])
    def test_what_was_seen_in_an_older_epoch_is_not_what_it_names(self, begun: float) -> None:
        """Its record keeps the causes of its newest epoch alone (`agent/report/xid_counts`)."""
        named = self.named(95, first_seen=at(begun), last_seen=at(50), epoch=2)
        read = action(observed=45)
        one = gpu(0, named, xid(95), epoch=2, epoch_started=at(40), recovery_action=read)
        (standing,) = [fault for fault in faults_of(verdict(one)) if fault.ended is None]

        assert "named by XID 45" in standing.evidence

    @pytest.mark.parametrize("cause", [13, 31, 43, 45, 9999])
    def test_an_application_error_that_it_names_is_none_of_the_gpu(self, cause: int) -> None:
        one = gpu(0, self.named(cause), recovery_action=action(observed=1))

        assert isinstance(verdict(one), Healthy)

    def test_only_a_45_names_causes(self) -> None:
        record = msgspec.structs.replace(xid(43), caused_by=95)

        assert fault_of(gpu(0, record), 95) is None


class TestTimeouts:
    @pytest.mark.parametrize(
        ("count", "limited", "certain"),
        [(1, False, False), (2, False, False), (3, False, True), (1, True, True)],
    )
    def test_without_the_field_three_are_certain(
        self, count: int, limited: bool, certain: bool
    ) -> None:
        record = msgspec.structs.replace(xid(119, count=count), rate_limited=limited)
        found = fault_of(gpu(0, record, recovery_action=NO_ACTION_FIELD), 119)

        assert found is not None
        assert found.certain is certain

    def test_those_before_a_reset_are_not_counted_with_those_after(self) -> None:
        record = msgspec.structs.replace(
            xid(119, seen=50, count=9, epoch=2), first_seen=at(0), rate_limited=True
        )
        one = gpu(0, record, recovery_action=NO_ACTION_FIELD, epoch=2, epoch_started=at(40))
        found = fault_of(one, 119)

        assert found is not None
        assert not found.certain

    def test_the_tail_of_an_answered_timeout_is_not_doubted_again(self) -> None:
        record = msgspec.structs.replace(xid(119, seen=600, count=4), first_seen=at(0))
        found = fault_of(gpu(0, record, recovery_action=action(1, 30, 30)), 119)

        assert found is not None
        assert found.certain

    @pytest.mark.parametrize("code", [46, 79, 95, 151])
    def test_after_a_fault_of_the_gpu_they_add_nothing(self, code: int) -> None:
        one = gpu(0, xid(code), xid(119, seen=6, count=80), recovery_action=NO_ACTION_FIELD)

        assert [fault.xid for fault in faults_of(verdict(one))] == [code]

    @pytest.mark.parametrize(
        "other", [xid(95, seen=9), xid(63), xid(74), xid(95, epoch=0), xid(31)]
    )
    def test_they_speak_when_nothing_of_the_gpu_stood_before_them(self, other: XidRecord) -> None:
        one = gpu(0, other, xid(119, seen=6), recovery_action=NO_ACTION_FIELD)

        assert fault_of(one, 119) is not None

    def test_a_fault_of_an_older_epoch_does_not_explain_those_of_the_new_one(self) -> None:
        one = gpu(
            0,
            xid(95),
            xid(119, seen=50, epoch=2),
            epoch=2,
            epoch_started=at(40),
            presence="Unknown",
        )

        assert {fault.xid for fault in faults_of(verdict(one))} == {95, 119}


class TestLinksNamedByXids:
    @pytest.mark.parametrize("peer", [dead(0), gpu(0, xid(79, seen=25))])
    def test_a_74_while_a_peer_is_lost_is_the_peers(self, peer: GpuHealth) -> None:
        one = gpu(1, xid(74, seen=20))

        assert fault_of(one, 74, Surroundings(gpus=(peer, one))) is None
        assert fault_of(one, 74, Surroundings(gpus=(gpu(0), one))) is not None

    def test_a_74_near_what_a_program_may_have_written_of_a_peer_is_its_own(self) -> None:
        peer, one = gpu(0, xid(79, seen=25, sources=("syslog",))), gpu(1, xid(74, seen=20))

        assert fault_of(one, 74, Surroundings(gpus=(peer, one))) is not None

    def test_a_74_long_after_a_peer_was_lost_is_its_own(self) -> None:
        one = gpu(1, xid(74, seen=120))

        assert fault_of(one, 74, Surroundings(gpus=(dead(0), one))) is not None

    @pytest.mark.parametrize(
        ("code", "message", "fault_class"),
        [
            (145, "RLW_SRC_TRACK Nonfatal XC1 i0 Link 10 (0x00000007 0x00000002 0x0)", None),
            (145, "RLW_SRC_TRACK Fatal XC1 i0 Link 10 (0x00000007 0x00000001 0x0)", "fabric"),
            (145, "RLW_REMAP Nonfatal XC0 i0 Link 1 (0x00000004 0x00000001 0x0)", None),
            (149, "NETIR_LINK_DOWN Fatal XC0 i0 Link 5 (0x02000011 0x00000000 0x0)", None),
            (149, "NETIR_LINK_DOWN Fatal XC0 i0 Link 5 (0x00200011 0x00000000 0x0)", "fabric"),
            (149, "words that nobody knows", "fabric"),
        ],
    )
    def test_the_hex_words_decide(self, code: int, message: str, fault_class: str | None) -> None:
        record = msgspec.structs.replace(xid(code), message=message)
        found = fault_of(gpu(0, record), code, Surroundings(driver_version="580.65.06"))

        assert (found and found.fault_class) == fault_class


def test_an_unlisted_code_is_left_to_the_recovery_action() -> None:
    assert fault_of(gpu(0, xid(9999), recovery_action=RESET), 9999) is None
    assert isinstance(verdict(gpu(0, xid(9999), recovery_action=RESET)), Sick)
    assert isinstance(verdict(gpu(0, xid(9999), recovery_action=RecoveryAction())), Unknown)
