"""Flags as Go's flag package reads them: one dash or two, and its words for true and false."""

from pathlib import Path

import pytest

from exporter.flags.parser import parse
from exporter.settings import Settings, SettingsError

TRUE = ("1", "t", "T", "TRUE", "true", "True")
FALSE = ("0", "f", "F", "FALSE", "false", "False")
DEFAULT_PATH = Path("/etc/dcgm-exporter/default-counters.csv")


def settings_of(*flags: str, **env: str) -> Settings:
    return parse(flags, env)[0]


def test_a_long_flag_may_have_one_dash() -> None:
    settings = settings_of(
        *("-collectors", "/x.csv", "-collect-interval=5000", "-debug", "-no-hostname=true"),
        *("-address", ":9401", "-rbmn", "-cpu-devices=g:0", "agent"),
    )

    assert (str(settings.collectors), settings.interval) == ("/x.csv", 5.0)
    assert (settings.log_level, settings.hostname_label) == ("DEBUG", "none")
    assert (settings.listen, settings.cpu_devices, settings.role) == (":9401", "g:0", "agent")
    assert settings.replace_blanks_in_model_name


def test_a_flag_without_effect_may_have_one_dash_and_is_reported() -> None:
    settings, _ = parse(["-hpc-job-mapping-dir", "/jobs", "-enable-pprof"], {})

    assert [given.name for given in settings.ignored] == ["hpc-job-mapping-dir", "enable-pprof"]


@pytest.mark.parametrize("word", ["-hurry", "-f/etc/x.csv", "-kn", "-d0"])
def test_letters_behind_one_dash_are_one_name_and_not_several_flags(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        settings_of(word)
    stated = capsys.readouterr().err
    assert (f"-{word} (values are not" in stated) == word[1:].isalpha()
    assert "not repeated" in stated


@pytest.mark.parametrize("word", TRUE)
def test_what_go_reads_as_true_is_true(word: str) -> None:
    assert settings_of(f"-o={word}").old_namespace
    assert settings_of(f"--pod-uid={word}").pod_uid
    assert settings_of(DCGM_EXPORTER_USE_OLD_NAMESPACE=word).old_namespace
    with pytest.raises(SettingsError, match="simulator"):
        settings_of(DCGM_EXPORTER_USE_FAKE_GPUS=word)
    with pytest.raises(SettingsError, match="simulator"):
        settings_of(f"--fake-gpus={word}")


@pytest.mark.parametrize("word", FALSE)
def test_what_go_reads_as_false_asks_for_nothing(word: str) -> None:
    assert not settings_of(f"-k={word}").kubernetes
    assert not settings_of(DCGM_EXPORTER_KUBERNETES=word).kubernetes
    variables = {
        "DCGM_EXPORTER_USE_FAKE_GPUS": word,
        "DCGM_EXPORTER_SYSTEMD_SOCKET": word,
        "DCGM_EXPORTER_ENABLE_PPROF": word,
    }
    flags = [f"--web-systemd-socket={word}", f"-enable-dcgm-log={word}"]
    assert parse(flags, variables)[0].ignored == ()


@pytest.mark.parametrize("word", ["tRUE", "yes", "on", "F_", "2"])
def test_what_go_reads_as_neither_is_refused_by_name(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SettingsError, match="write true or false"):
        settings_of(DCGM_EXPORTER_KUBERNETES=word)
    with pytest.raises(SystemExit, match="2"):
        settings_of(f"--kubernetes={word}")
    assert "--kubernetes" in capsys.readouterr().err


def test_a_window_of_zero_counts_nothing_and_is_no_mistake() -> None:
    settings = settings_of("-x", "0", DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE="0")

    assert (settings.xid_window, settings.clock_events_window) == (0.0, 0.0)
    with pytest.raises(SettingsError, match="--xid-window"):
        settings_of("-x", "-1")


def mounted(*flags: str, **env: str) -> Path | None:
    """Return the counters file where one is mounted at dcgm-exporter's own path."""
    return parse(flags, env, is_there=lambda path: path == DEFAULT_PATH)[0].collectors


def test_a_file_at_their_default_path_is_the_counters_file() -> None:
    assert mounted() == DEFAULT_PATH
    assert settings_of().collectors is None


def test_a_file_that_is_named_outranks_the_one_at_their_default_path(tmp_path: Path) -> None:
    rows, other = tmp_path / "rows.yaml", tmp_path / "other.yaml"
    row = "{name: DCGM_FI_DEV_GPU_TEMP, prometheusType: gauge, help: x}"
    rows.write_text(f"version: 2\nmetrics: {{fields: [{row}]}}\n")
    other.write_text("version: 2\nserver: {maxConcurrentScrapes: 3}\n")

    assert mounted("-f", "/mine.csv") == Path("/mine.csv")
    assert mounted(DCGM_EXPORTER_COLLECTORS="/mine.csv") == Path("/mine.csv")
    assert mounted(f"--config-file={rows}") is None
    assert mounted(f"--config-file={other}") == DEFAULT_PATH


def test_all_addresses_of_both_families_are_listened_on_by_default() -> None:
    assert settings_of().listen == ":9400"


def test_blanks_beside_the_commas_of_a_list_belong_to_no_word() -> None:
    settings, _ = parse(["agent", "--pod-label-allow=^app$, ^team$"], {})
    assert settings.pod_label_allow == ("^app$", "^team$")
