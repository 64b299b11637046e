"""What is true of one GPU, row by row."""

from collections.abc import Callable

import msgspec
import pytest

from exporter.model import xid as catalogue
from exporter.model.node_health import GpuHealth, MemoryHealth, RecoveryAction
from remediator.diagnose.fault import Healthy, Sick, Surroundings, Unknown
from remediator.diagnose.readings import ended_since
from remediator.diagnose.verdict import verdict
from tests.remediator.builders import NO_ACTION_FIELD, action, at, dead, gpu, mig_gpu, xid

NOW = Surroundings(reported_at=at(0))
APPLICATION = sorted(
    code for code, row in catalogue.catalogue().items() if row.xid_class == "application"
)


@pytest.mark.parametrize("code", [*APPLICATION, 63, 154, 9999])
def test_application_information_and_unknown_codes_are_no_fault(code: int) -> None:
    one = gpu(0, xid(code, count=500), recovery_action=action(observed=1))

    assert isinstance(verdict(one), Healthy)


@pytest.mark.parametrize(
    ("one", "fault_class", "cause", "certain"),
    [
        (gpu(0, xid(95)), "gpu", "xid-95", False),
        (gpu(0, xid(95), recovery_action=action(1, 1, 1)), "gpu", "xid-95", True),
        (gpu(0, xid(95), recovery_action=action(4, 1, 1)), "gpu", "xid-95", False),
        (gpu(0, xid(95), recovery_action=NO_ACTION_FIELD), "gpu", "xid-95", True),
        (gpu(0, xid(79)), "lost", "xid-79", False),
        (gpu(0, xid(79), recovery_action=action(1, 1, 1)), "lost", "xid-79", True),
        (gpu(0, xid(79), presence="Unknown"), "lost", "xid-79", True),
        (dead(0), "lost", "xid-79", True),
        (gpu(0, presence="Lost", presence_since=at(0)), "lost", "gpu-lost", True),
        (gpu(0, recovery_action=action(1)), "gpu", "recovery-action-1", True),
        (gpu(0, recovery_action=action(2)), "node", "recovery-action-2", True),
        (gpu(0, recovery_action=action(3)), "fabric", "recovery-action-3", False),
        (gpu(0, recovery_action=action(4)), "gpu", "recovery-action-4", False),
        (gpu(0, recovery_action=action(5)), "fabric", "recovery-action-5", False),
        (gpu(0, recovery_action=action(6)), "gpu", "recovery-action-6", True),
        (gpu(0, recovery_action=action(7)), "node", "recovery-action-7", True),
        (gpu(0, recovery_action=action(9)), "gpu", "recovery-action-9", False),
        (
            gpu(0, memory=MemoryHealth(row_remap_failed="True")),
            "memory",
            "row-remap-failure",
            False,
        ),
        (mig_gpu(0, xid(94)), "contained", "xid-94", False),
        (mig_gpu(0, xid(94, gi=5)), "contained", "xid-94", True),
        (mig_gpu(0, xid(94, gi=5, reset=True)), "gpu", "xid-94", False),
        (gpu(0, xid(74)), "fabric", "xid-74", False),
        (gpu(0, xid(151)), "node", "xid-151", False),
    ],
)
def test_a_signal_makes_one_fault_of_its_class(
    one: GpuHealth, fault_class: str, cause: str, certain: bool
) -> None:
    judged = verdict(one)

    assert isinstance(judged, Sick)
    fault = next(candidate for candidate in judged.faults if candidate.cause == cause)
    assert (fault_class, certain) == (fault.fault_class, fault.certain)
    assert bool(fault.doubt) is not fault.certain


def test_the_recovery_action_read_after_an_xid_ends_its_fault() -> None:
    one = gpu(0, xid(95, seen=0), recovery_action=action(0, since=30, observed=60))

    judged = verdict(one)

    assert isinstance(judged, Healthy)
    assert judged.since == at(30)
    assert [fault.ended for fault in judged.ended] == [at(30)]


@pytest.mark.parametrize(("none", "stands"), [(61, False), (60, True), (-1, True), (None, True)])
def test_an_xid_that_the_driver_answered_with_none_stays_over_under_a_later_action(
    none: float | None, stands: bool
) -> None:
    later = action(1, since=4000, observed=4060)
    none_at = None if none is None else at(none)
    asks = msgspec.structs.replace(later, none_at=none_at)

    judged = verdict(gpu(0, xid(79, seen=0), recovery_action=asks))

    assert isinstance(judged, Sick)
    standing = {fault.cause: fault.needs for fault in judged.faults if fault.ended is None}
    by_itself = {"xid-79": "node-reboot"} if stands else {}
    assert standing == {"recovery-action-1": "gpu-reset", **by_itself}


def test_an_xid_that_was_answered_with_none_stays_over_under_a_line_that_tells_of_an_action() -> (
    None
):
    read = action(0, since=-10, observed=4000)
    asks = msgspec.structs.replace(read, logged=1, logged_at=at(4001), logged_source="kmsg")

    judged = verdict(gpu(0, xid(79, seen=0), recovery_action=asks))

    assert isinstance(judged, Sick)
    assert [fault.cause for fault in judged.faults if fault.ended is None] == ["recovery-action-1"]


def test_an_xid_that_was_answered_with_none_does_not_stand_again_when_nothing_is_read() -> None:
    unread = RecoveryAction(
        support="Supported", since=at(4000), observed_at=at(4060), none_at=at(3999)
    )
    around = Surroundings(reported_at=at(4060))

    assert isinstance(verdict(gpu(0, xid(79, seen=0), recovery_action=unread), around), Unknown)


def test_a_recovery_action_read_before_the_xid_proves_nothing() -> None:
    assert isinstance(verdict(gpu(0, xid(95, seen=5), recovery_action=action(observed=4))), Sick)


def test_without_the_field_only_a_new_epoch_ends_a_fault() -> None:
    same = gpu(0, xid(95), recovery_action=NO_ACTION_FIELD)
    after_reset = gpu(0, xid(95), recovery_action=NO_ACTION_FIELD, epoch=2, epoch_started=at(40))

    assert isinstance(verdict(same), Sick)
    judged = verdict(after_reset)
    assert isinstance(judged, Healthy)
    assert judged.since == at(40)


@pytest.mark.parametrize("read", [40, 50])
def test_a_reset_that_an_old_driver_was_read_after_counts_while_nvml_is_down(read: float) -> None:
    """Else each failure of NVML would taint the GPU again for the soak time."""
    field = msgspec.structs.replace(NO_ACTION_FIELD, observed_at=at(read))
    away = gpu(0, xid(95), epoch=2, epoch_started=at(40), presence="Unknown", recovery_action=field)

    assert isinstance(verdict(away), Unknown)
    for begun in (None, at(60)):
        assert isinstance(verdict(msgspec.structs.replace(away, epoch_started=begun)), Sick)


def test_an_epoch_ends_what_came_before_it_whatever_was_counted_when() -> None:
    begun = gpu(0, epoch=2, epoch_started=at(40))
    assert ended_since(begun, at(0), 1) == at(40)
    assert ended_since(begun, at(50), 1) is None, "counted before its own epoch began"
    undated = gpu(0, epoch=2, epoch_started=None, presence_since=at(30))
    assert ended_since(undated, at(0), 1) == at(30)


@pytest.mark.parametrize(
    "one",
    [
        gpu(0, presence="Unknown", presence_reason="nvml is down"),
        gpu(0, recovery_action=RecoveryAction()),
    ],
)
def test_what_could_not_be_read_is_neither_healthy_nor_sick(one: GpuHealth) -> None:
    assert isinstance(verdict(one), Unknown)


def test_a_kernel_line_counts_although_nvml_cannot_answer() -> None:
    one = gpu(0, xid(79), presence="Unknown", recovery_action=RecoveryAction())

    assert isinstance(verdict(one), Sick)


def test_a_report_that_cannot_be_believed_says_nothing_even_of_a_dead_gpu() -> None:
    assert verdict(dead(0), NOW, "node-a is silent") == Unknown("node-a is silent")


def test_a_contained_error_without_mig_that_needs_no_action_is_no_fault() -> None:
    one = gpu(0, xid(94, reset=False), recovery_action=action(observed=1))

    assert isinstance(verdict(one), Healthy)


def test_nor_is_it_one_before_the_action_is_read_if_its_line_requests_nothing() -> None:
    """Else an incident would be opened whenever the report was faster than NVML."""
    one = gpu(0, xid(94, seen=5, reset=False), recovery_action=action(observed=4))
    judged = verdict(one)

    assert isinstance(judged, Healthy)
    assert judged.since == at(5)  # a soak begins anew with it
    assert isinstance(verdict(gpu(0, xid(94, seen=5), recovery_action=action(observed=4))), Sick)


def test_an_instance_in_a_line_is_ignored_while_mig_is_off() -> None:
    judged = verdict(gpu(0, xid(94, gi=0)))

    assert isinstance(judged, Sick)
    assert judged.faults[0].instance is None


def test_a_gpu_that_came_back_a_moment_ago_is_healthy_since_then() -> None:
    judged = verdict(gpu(0, presence_since=at(-1)))

    assert isinstance(judged, Healthy)
    assert judged.since == at(-1)


def test_an_error_of_an_older_epoch_still_stands_while_the_gpu_cannot_be_queried() -> None:
    one = gpu(0, xid(95), epoch=2, epoch_started=at(40), presence="Unknown")

    assert isinstance(verdict(one), Sick)


@pytest.mark.parametrize(
    "reading",
    [
        RecoveryAction(support="Supported", observed_at=at(0)),
        action(observed=-600),
        RecoveryAction(support="Supported", value=0),
    ],
)
def test_an_action_without_value_or_read_long_ago_proves_no_health(reading: RecoveryAction) -> None:
    assert isinstance(verdict(gpu(0, recovery_action=reading), NOW), Unknown)


def test_without_the_field_an_error_from_before_the_agent_moves_nobody() -> None:
    one = gpu(0, xid(48, seen=-30), recovery_action=NO_ACTION_FIELD, presence_since=at(-10))

    judged = verdict(one)

    assert isinstance(judged, Sick)
    assert not judged.faults[0].certain


def test_without_the_field_a_contained_error_is_over_when_it_is_written() -> None:
    judged = verdict(mig_gpu(0, xid(94, gi=5), recovery_action=NO_ACTION_FIELD))

    assert isinstance(judged, Healthy)
    assert judged.ended[0].certain


@pytest.mark.parametrize("build", [gpu, mig_gpu])
def test_without_the_field_a_contained_error_stays_over_while_nvml_is_away(
    build: Callable[..., GpuHealth],
) -> None:
    """A driver upgrade must not make an old error of a restarted program stand again."""
    away = build(0, xid(94, gi=5), recovery_action=NO_ACTION_FIELD, presence="Unknown")

    assert not isinstance(verdict(away), Sick)


def test_what_was_proven_over_stays_over_while_nvml_is_away() -> None:
    """A driver upgrade takes NVML away from many nodes at once: old errors must not stand again."""
    read = msgspec.structs.replace(action(0, since=-10), observed_at=at(60))
    by_action = gpu(0, xid(95), presence="Unknown", recovery_action=read)
    by_epoch = gpu(
        0, xid(95), epoch=2, epoch_started=at(40), presence="Unknown", recovery_action=read
    )

    assert isinstance(verdict(by_action), Unknown)
    assert isinstance(verdict(by_epoch), Unknown)


def test_a_gpu_of_which_parts_could_not_be_written_is_not_healthy_and_its_faults_stand() -> None:
    judged = verdict(gpu(0, omitted=("memory", "nvlink")))

    assert isinstance(judged, Unknown)
    assert "without memory, nvlink" in judged.why
    assert isinstance(verdict(gpu(0, xid(79), presence="Lost", omitted=("memory",))), Sick)
