"""Whose error it is that the kernel log tells of by an address alone."""

import pytest

from exporter.agent.report import ledger
from tests.exporter.worlds import START, Sensed, counts, gpu, seen


@pytest.mark.parametrize("lost", [False, True])
def test_an_error_at_an_address_is_of_the_board_that_is_there_now(lost: bool) -> None:
    old, swapped = gpu(1), gpu(2, bus_id=gpu(1).bus_id, lost=lost)
    report = ledger.observe(ledger.begin("boot-1", "1", START), seen(old))
    report = ledger.observe(report, seen(swapped, seconds=1))
    report = ledger.take(report, [Sensed().kmsg(2, 48)], run="run-1", kernel_sequence=None)
    assert counts(report) == {"GPU-2": {(48, None): 1}}
