"""What the supervisor says of NVML beside its readings."""

import logging

import pytest

from exporter import protocol
from exporter.model.readings import NvmlReading
from exporter.sensor.nvml.vendor import NO_EVENTS, NvmlVendor
from exporter.settings import Settings
from tests.exporter.worlds import at, gpu


def test_gpus_that_tell_no_events_are_a_reason_and_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    vendor = NvmlVendor(Settings(node_name="node-a"), tuple)
    requested = protocol.SampleRequest()
    deaf = protocol.Sampled(NvmlReading(at=at(0), gpus=(gpu(1), gpu(2, without_events=True))))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert vendor.reading(deaf, requested) is not None
    reason, sentence, hang = vendor.remark()
    assert (reason, hang) == (NO_EVENTS, None)
    assert "events of GPU 1 " in sentence
    assert sum("events of GPU 1 " in message for message in caplog.messages) == 1
    vendor.reading(protocol.Sampled(NvmlReading(at=at(1), gpus=(gpu(1), gpu(2)))), requested)
    assert vendor.remark() == ("", "", None)
