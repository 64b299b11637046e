"""`--switch-devices` and `--cpu-devices`, as dcgm-exporter takes them."""

import pytest

from exporter.flags.parser import parse
from exporter.model.device_option import ALL, Selection
from exporter.sensor.dcgm.options import Chosen, options_of
from exporter.settings import SettingsError

EMBEDDED = "--dcgm=embedded"
HINT = "add --dcgm=embedded, or the address of a host engine"


@pytest.mark.parametrize(
    "flags", [("-s", "g:0,2-3"), ("--switch-devices=g:0,2-3",), ("--switch-devices", "g:0,2-3")]
)
def test_switches_are_chosen_by(flags: tuple[str, ...]) -> None:
    settings, message = parse((EMBEDDED, *flags), {})
    assert message == ()
    desired = Selection(wholes=frozenset({0, 2, 3}), parts=frozenset())
    assert options_of(settings).chosen == Chosen(switches=desired, cpus=ALL)


def test_cpus_are_chosen_by_flag_and_by_variable() -> None:
    desired = Chosen(cpus=Selection(wholes=frozenset(), parts=frozenset({0, 1})))
    assert options_of(parse((EMBEDDED, "-p", "i:0-1"), {})[0]).chosen == desired
    env = {"DCGM_EXPORTER_CPU_DEVICES_STR": "i:0-1", "DCGM_EXPORTER_OTHER_DEVICES_STR": "f"}
    assert options_of(parse((EMBEDDED,), env)[0]).chosen == desired


def test_a_form_that_cannot_be_read_names_its_flag() -> None:
    with pytest.raises(SettingsError, match=r"^--switch-devices: 'x' cannot be read; write f, g"):
        parse((EMBEDDED, "-s", "x"), {})
    with pytest.raises(SettingsError, match=r"^--cpu-devices: '4-2' is neither a number"):
        parse((EMBEDDED,), {"DCGM_EXPORTER_CPU_DEVICES_STR": "g:4-2"})


def test_without_dcgm_a_choice_is_reported_to_change_nothing() -> None:
    settings, message = parse(("-s", "g"), {"DCGM_EXPORTER_CPU_DEVICES_STR": "i"})
    assert message == (
        f"--switch-devices selects values of DCGM only, and --dcgm is off: {HINT}",
        "$DCGM_EXPORTER_CPU_DEVICES_STR selects values of DCGM only, and --dcgm is off: " + HINT,
    )
    assert [(setting.source, setting.name, setting.reason) for setting in settings.ignored] == [
        ("flag", "switch-devices", "NeedsDcgm"),
        ("environment", "DCGM_EXPORTER_CPU_DEVICES_STR", "NeedsDcgm"),
    ]


@pytest.mark.parametrize("flags", [("-s", "f", "-p", "f"), ("-r", "10.0.0.1", "-s", "g")])
def test_what_is_usual_or_has_its_dcgm_is_not_reported(flags: tuple[str, ...]) -> None:
    settings, message = parse(flags, {})
    assert (settings.ignored, message) == ((), ())
