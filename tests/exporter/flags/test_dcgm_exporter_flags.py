"""Every flag and variable of dcgm-exporter means something here, or is logged with what to use."""

from typing import NamedTuple

import pytest

from exporter.flags.dcgm_exporter import ENVIRONMENT, UNUSED
from exporter.flags.parser import parse
from exporter.settings import SettingsError
from tests.exporter.flags.recorded import rows


class Theirs(NamedTuple):
    flag: str
    short: str
    environment: str
    kind: str


def recorded() -> list[Theirs]:
    """Return the rows of the list; a newer list with an unknown flag turns these tests red."""
    return [Theirs(**row) for row in rows("dcgm_exporter_flags.csv")]


VALUES = {"text": "f", "number": "5000", "list": "a,b", "switch": "true"}
OF_ONE = {"kubernetes-gpu-id-type": "uid", "log-format": "json", "collectors": "/etc/none.csv"}


def is_known(*arguments: str) -> bool:
    """Whether the parser takes arguments: what it takes may be refused, in a sentence."""
    try:
        parse(arguments, {})
    except SettingsError:
        return True
    except SystemExit:
        return False
    return True


@pytest.mark.parametrize("one", recorded(), ids=lambda case: case.flag)
def test_each_of_their_flags_is_known_in_every_form(one: Theirs) -> None:
    value = OF_ONE.get(one.flag, VALUES[one.kind])
    assert is_known(f"--{one.flag}={value}")
    if one.kind != "switch":
        assert is_known(f"--{one.flag}", value)
    else:
        assert is_known(f"--{one.flag}")
        assert is_known(f"--{one.flag}=false")
    if one.short:
        assert is_known(f"-{one.short}", *([] if one.kind == "switch" else [value]))


def test_a_flag_that_they_have_not_is_unknown() -> None:
    assert not is_known("--no-such-flag=1")


@pytest.mark.parametrize("one", recorded(), ids=lambda case: case.environment)
def test_each_of_their_variables_is_known(one: Theirs) -> None:
    known = {entry.name for entry in ENVIRONMENT} | {entry.env for entry in UNUSED}
    assert one.environment in known
