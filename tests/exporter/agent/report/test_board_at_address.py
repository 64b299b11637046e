"""Whose error it is that the kernel log tells of by an address alone."""

import pytest

from exporter.agent.report import ledger
from exporter.agent.report.ledger import Published
from tests.exporter.worlds import BUS, START, Sensed, counts, gpu, seen


@pytest.mark.parametrize("lost", [False, True])
def test_an_error_at_an_address_is_of_the_board_that_is_there_now(lost: bool) -> None:
    old, swapped = gpu(1), gpu(2, bus_id=gpu(1).bus_id, lost=lost)
    report = ledger.observe(ledger.begin("boot-1", "1", START), seen(old))
    report = ledger.observe(report, seen(swapped, seconds=1))
    report = ledger.take(report, [Sensed().kmsg(2, 48)], run="run-1", kernel_sequence=None)
    assert counts(report) == {"GPU-2": {(48, None): 1}}


HERE, THERE = BUS["GPU-1"], BUS["GPU-2"]
OF_LAST_BOOT = Published(frozenset({"GPU-1"}), {HERE: "GPU-1"})
"""GPU-1 was at HERE; in this boot it is at THERE, and the board at HERE has an error."""
MOVED = gpu(1, bus_id=THERE, product="NVIDIA H100")


@pytest.mark.parametrize("read_first", [False, True])
def test_slices_of_before_a_reboot_give_no_board_the_errors_of_another(read_first: bool) -> None:
    report = ledger.begin("boot-2", "1", START)
    if read_first:
        report = ledger.observe(report, seen(MOVED), published=OF_LAST_BOOT)
    report = ledger.take(report, [Sensed().kmsg(1, 79)], run="run-1", kernel_sequence=None)
    for seconds in (2, 32):
        report = ledger.observe(report, seen(MOVED, seconds=seconds), published=OF_LAST_BOOT)
    assert counts(report) == {f"unknown-{HERE}": {(79, None): 1}}


def test_a_name_that_only_slices_gave_is_taken_back_when_nvml_reads_it_elsewhere() -> None:
    report = ledger.begin("boot-2", "1", START)
    report = ledger.take(report, [Sensed().kmsg(1, 79)], run="run-1", kernel_sequence=None)
    report = ledger.observe(report, seen(gpu(3), seconds=2), published=OF_LAST_BOOT)
    assert counts(report) == {"GPU-1": {(79, None): 1}}
    report = ledger.observe(report, seen(MOVED, seconds=3), published=OF_LAST_BOOT)
    assert counts(report) == {f"unknown-{HERE}": {(79, None): 1}}


def test_a_name_that_is_taken_back_adds_its_errors_to_those_that_had_no_name() -> None:
    sensed = Sensed()
    signals = [sensed.kmsg(1, 79), sensed.nvml(1, 48)]
    report = ledger.begin("boot-2", "1", START)
    report = ledger.take(report, signals, run="run-1", kernel_sequence=None)
    assert counts(report) == {f"unknown-{HERE}": {(79, None): 1}, "GPU-1": {(48, None): 1}}
    report = ledger.observe(report, seen(MOVED, seconds=2), published=OF_LAST_BOOT)
    assert counts(report) == {f"unknown-{HERE}": {(48, None): 1, (79, None): 1}}


def test_a_board_that_is_put_into_another_slot_keeps_its_errors() -> None:
    before = gpu(1, product="NVIDIA H100")
    report = ledger.observe(ledger.begin("boot-1", "1", START), seen(before))
    report = ledger.take(report, [Sensed().kmsg(1, 79)], run="run-1", kernel_sequence=None)
    report = ledger.observe(report, seen(MOVED, seconds=2))
    assert counts(report) == {"GPU-1": {(79, None): 1}}


def test_an_error_that_had_no_name_counts_in_the_epoch_of_its_time() -> None:
    """Two boards give one UUID meanwhile; each name begins with an epoch of its own."""
    sensed, report = Sensed(), ledger.begin("boot-1", "1", START)
    for seconds in (60, 120):
        report = ledger.observe(report, seen(gpu(), gpu(2), seconds=seconds - 30))
        load = [sensed.kmsg(seconds, 0, kind="driver-load")]
        report = ledger.take(report, load, run="run-1", kernel_sequence=None)
    report = ledger.observe(report, seen(gpu(), gpu(2), seconds=130))
    report = ledger.observe(report, seen(gpu(), gpu(2, uuid="GPU-1"), seconds=180))
    error = [sensed.kmsg(200, 95)]
    report = ledger.take(report, error, run="run-1", kernel_sequence=None)
    report = ledger.observe(report, seen(gpu(), gpu(2), seconds=240))

    (found,) = (one for one in report.gpus if one.uuid == "GPU-1")
    assert [(each.code, each.epoch) for each in found.xids] == [(95, found.epoch)]
    assert found.epoch == 3
