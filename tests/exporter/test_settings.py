"""Flags into settings."""

import pytest

from exporter.settings import SettingsError, parse


def test_flags_become_one_value_and_one_line() -> None:
    settings = parse(["agent", "--node-name=a", "--interval=5", "--no-report"])
    assert (settings.role, settings.node_name, settings.interval) == ("agent", "a", 5.0)
    assert not settings.report
    assert "interval=5.0" in settings.one_line()
    assert "\n" not in settings.one_line()


@pytest.mark.parametrize(
    ("flag", "names"),
    [
        ("--interval=0", "--interval"),
        ("--interval=nan", "--interval"),
        ("--listen=9400", "--listen"),
        ("--sensor-socket=/" + "x" * 120, "--sensor-socket"),
        ("--kube-token-file=/t", "--kube-server"),
        ("--log-level=LOUD", "--log-level"),
    ],
)
def test_a_flag_that_cannot_be_used_is_named(flag: str, names: str) -> None:
    with pytest.raises(SettingsError, match=names):
        parse(["run", "--node-name=a", flag])


def test_the_node_name_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "node-7")
    assert parse([]).node_name == "node-7"
