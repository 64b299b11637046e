"""Flags without a value, in every way in which dcgm-exporter takes them."""

import pytest

from exporter.flags.parser import parse
from exporter.settings import Settings, SettingsError


def settings_of(*flags: str, **env: str) -> Settings:
    return parse(flags, env)[0]


@pytest.mark.parametrize("flag", ["-k=false", "--kubernetes=F", "-k=0", "--no-kubernetes"])
def test_kubernetes_is_turned_off_by(flag: str) -> None:
    assert not settings_of(flag).kubernetes


@pytest.mark.parametrize("flag", ["-o", "-o=true", "--use-old-namespace", "-o=T"])
def test_the_old_names_are_queried_by(flag: str) -> None:
    assert settings_of(flag).old_namespace


@pytest.mark.parametrize("flag", ["-n", "--no-hostname", "-n=1", "--no-hostname=true"])
def test_the_host_name_is_left_out_by(flag: str) -> None:
    assert settings_of(flag).hostname_label == "none"
    assert settings_of("-n=false").hostname_label == "Hostname"


@pytest.mark.parametrize("flag", ["--debug", "--debug=true"])
def test_the_log_is_long_with(flag: str) -> None:
    assert settings_of(flag).log_level == "DEBUG"


def test_variables_are_true_as_go_reads_them() -> None:
    assert settings_of(DCGM_EXPORTER_USE_OLD_NAMESPACE="t").old_namespace
    assert not settings_of(DCGM_EXPORTER_KUBERNETES="F").kubernetes


def test_a_value_that_asks_for_nothing_is_no_mistake() -> None:
    assert parse(["-m", "none"], {"DCGM_EXPORTER_CONFIGMAP_DATA": "none"})[1] == ()
    with pytest.raises(SettingsError, match="configmap-data"):
        settings_of("-m", "gpu:metrics")
