"""The remediator's flags: a list of drivers that cannot be is refused in words."""

import pytest

from exporter.model.device import NVIDIAS
from remediator.settings import parse


def test_the_drivers_of_gpus_are_nvidias_or_those_that_are_given() -> None:
    assert parse([]).drivers == NVIDIAS
    assert parse(["--gpu-drivers", "a.example, gpu.nvidia.com"]).drivers == NVIDIAS | {"a.example"}


def test_a_flag_is_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    """What is short for one flag today may be short for two after an upgrade."""
    with pytest.raises(SystemExit):
        parse(["--gpu-driver", "gpu.example.com"])

    assert "unrecognized arguments: --gpu-driver" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "named"), [("", "''"), ("gpu.nvidia.com,x_y", "'x_y'")])
def test_a_name_that_no_driver_can_have_is_refused(
    given: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(["--gpu-drivers", given])

    sentence = "--gpu-drivers takes names of DRA drivers with commas between, such as "
    assert f"{sentence}gpu.nvidia.com, not {named}" in capsys.readouterr().err
