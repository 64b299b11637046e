"""Promises of the verdict that hold for any report, found by making reports up."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from exporter.model import xid as catalogue
from exporter.model.node_health import (
    FabricHealth,
    GpuHealth,
    MemoryHealth,
    NvlinkHealth,
    RecoveryAction,
    SourceHealth,
    XidRecord,
)
from exporter.model.node_health_words import Support, answer, reset_request
from remediator.diagnose import xid_table
from remediator.diagnose.fault import (
    SEVERITY,
    Fault,
    Healthy,
    Sick,
    Surroundings,
    Unknown,
    Verdict,
    faults_of,
)
from remediator.diagnose.verdict import verdict
from tests.remediator.builders import action, at, gpu, mig_gpu, xid

APPLICATION = sorted(
    code for code, row in catalogue.catalogue().items() if row.xid_class == "application"
)
LINKED = (63, 64, 171, 172)
"""They say something about a 48."""
BENIGN = sorted(
    code
    for code, row in catalogue.catalogue().items()
    if xid_table.rule_of(code).fault is None and row.code not in LINKED
)
FLAGS = st.sampled_from([None, True, False])


@st.composite
def records(draw: st.DrawFn, codes: st.SearchStrategy[int]) -> XidRecord:
    seen = draw(st.integers(0, 120))
    record = xid(
        draw(codes),
        seen=seen,
        gi=draw(st.sampled_from([None, None, 1, 5])),
        count=draw(st.integers(1, 2000)),
        epoch=draw(st.integers(1, 2)),
    )
    return msgspec.structs.replace(
        record,
        first_seen=at(draw(st.integers(0, seen))),
        reset_request=reset_request(at_once=draw(FLAGS), after_drain=draw(FLAGS)),
    )


ANY_CODE = st.sampled_from([*xid_table.table(), 9999])
LISTS = st.lists(records(ANY_CODE), max_size=6, unique_by=lambda record: (record.code, record.gi))
ACTIONS = st.one_of(
    st.builds(action, st.integers(0, 9), st.integers(-50, 40), st.integers(0, 200)),
    st.just(RecoveryAction()),
    st.just(RecoveryAction(support="Unsupported", observed_at=at(0))),
    st.builds(
        RecoveryAction,
        support=st.sampled_from(["Unknown", "Supported", "Unsupported"]),
        logged=st.integers(0, 9),
        logged_at=st.integers(0, 200).map(at),
    ),
)


@st.composite
def gpus(draw: st.DrawFn) -> GpuHealth:
    build = draw(st.sampled_from([gpu, mig_gpu]))
    epoch = draw(st.integers(1, 2))
    return build(
        0,
        *draw(LISTS),
        recovery_action=draw(ACTIONS),
        presence=draw(st.sampled_from(["Present", "Present", "Lost", "Unknown"])),
        epoch=epoch,
        epoch_started=at(60) if epoch == 2 else at(-999),
        memory=MemoryHealth(
            row_remap_failed=answer(draw(FLAGS)), row_remap_pending=answer(draw(FLAGS))
        ),
    )


def standing(judged: Verdict) -> list[Fault]:
    return [fault for fault in faults_of(judged) if fault.ended is None]


def severity(judged: Verdict) -> tuple[int, int]:
    """The worst class that stands, and the worst that is certain."""
    faults = standing(judged)
    ranks = [SEVERITY.index(fault.fault_class) for fault in faults]
    certain = [SEVERITY.index(fault.fault_class) for fault in faults if fault.certain]
    return max(ranks, default=-1), max(certain, default=-1)


@given(gpus(), st.data())
def test_the_order_of_records_never_matters(health: GpuHealth, data: st.DataObject) -> None:
    shuffled = tuple(data.draw(st.permutations(health.xids)))

    assert verdict(msgspec.structs.replace(health, xids=shuffled)) == verdict(health)


@given(
    st.lists(records(st.sampled_from(APPLICATION)), max_size=4),
    st.sampled_from(["Unknown", "Unsupported", "Supported"]),
    st.sampled_from(["Unknown", "Present"]),
)
def test_what_could_not_be_read_is_neither_sick_nor_healthy(
    noise: list[XidRecord], support: Support, presence: str
) -> None:
    """Every value None, whatever programs did."""
    blank = gpu(
        0,
        *noise,
        presence=presence,
        recovery_action=RecoveryAction(support=support),
        memory=MemoryHealth(),
        fabric=FabricHealth(),
        nvlink=NvlinkHealth(),
        epoch_started=None,
        mig=None,
    )

    assert isinstance(verdict(blank), Unknown)


@given(gpus(), st.text(min_size=1, max_size=5))
def test_a_report_that_cannot_be_believed_says_nothing(health: GpuHealth, why: str) -> None:
    assert verdict(health, unusable=why) == Unknown(why)


@given(st.lists(records(st.sampled_from(APPLICATION)), max_size=8), ACTIONS)
def test_application_xids_alone_are_no_fault_whatever_their_number(
    noise: list[XidRecord], reading: RecoveryAction
) -> None:
    quiet = verdict(gpu(0, recovery_action=reading))

    assert verdict(gpu(0, *noise, recovery_action=reading)) == quiet


@given(gpus(), records(st.sampled_from(BENIGN)))
def test_a_benign_record_never_lowers_nor_raises_severity(
    health: GpuHealth, benign: XidRecord
) -> None:
    more = msgspec.structs.replace(health, xids=(*health.xids, benign))

    assert severity(verdict(more)) == severity(verdict(health))


@given(gpus(), records(ANY_CODE))
def test_another_record_never_lowers_the_class_that_stands(
    health: GpuHealth, record: XidRecord
) -> None:
    before, after = (
        verdict(health),
        verdict(msgspec.structs.replace(health, xids=(*health.xids, record))),
    )

    assert severity(after)[0] >= severity(before)[0]


@given(gpus())
def test_a_verdict_is_of_one_piece(health: GpuHealth) -> None:
    judged = verdict(health, Surroundings(sources=(SourceHealth(name="nvml", state="Up"),)))

    for fault in faults_of(judged):
        assert bool(fault.doubt) is not fault.certain
        assert fault.instance is None or fault.fault_class == "contained"
    match judged:
        case Sick():
            assert standing(judged)
        case Healthy():
            assert not standing(judged)
            assert health.presence == "Present"
            assert judged.since >= health.presence_since
        case Unknown():
            assert judged.why


@given(gpus())
def test_a_gpu_that_never_answered_in_this_epoch_ends_no_fault(health: GpuHealth) -> None:
    away = msgspec.structs.replace(health, presence="Unknown", recovery_action=RecoveryAction())

    assert all(fault.ended is None for fault in faults_of(verdict(away)))


@given(gpus())
def test_a_gpu_that_is_lost_ends_no_fault_but_what_nvml_says_of_itself(health: GpuHealth) -> None:
    lost = msgspec.structs.replace(health, presence="Lost")

    assert isinstance(verdict(lost), Sick)
