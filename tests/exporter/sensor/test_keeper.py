"""The sensor of `run` is started again, whatever came of the last attempt."""

import re
import sys
from pathlib import Path

import pytest

from exporter.sensor.keeper import SensorKeeper
from tests.exporter.running import wait_for


def test_a_sensor_that_cannot_be_started_is_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    program = tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(program))
    keeper = SensorKeeper([])
    keeper.start()
    try:
        wait_for(lambda: "cannot be started" in caplog.text, what="a failure")
        made = tmp_path / "made"
        made.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
        made.chmod(0o700)
        made.rename(program)
        wait_for(lambda: re.search(r"sensor \d+ started", caplog.text), what="a sensor")
    finally:
        keeper.stop()
