"""A driver that NVML has had open for a while was not loaded meanwhile."""

from exporter.sensor.kernel_log.reload import SETTLED, DriverUse


def test_only_nvml_that_answered_long_enough_without_a_gap_rules_a_load_out() -> None:
    use = DriverUse()
    assert not use.rules_out_load(1000.0)

    use.note(1000.0, answers=True)
    use.note(1030.0, answers=True)
    assert not use.rules_out_load(1000.0 + SETTLED - 1)
    assert use.rules_out_load(1000.0 + SETTLED)

    use.note(1100.0, answers=False)
    assert not use.rules_out_load(1100.0)

    use.note(1101.0, answers=True)
    assert not use.rules_out_load(1100.0 + SETTLED)
    assert use.rules_out_load(1101.0 + SETTLED)
