"""Flags and environment into settings."""

import pytest

from exporter.flags.dcgm_exporter import ALIASES, ENVIRONMENT, UNUSED
from exporter.flags.parser import parse
from exporter.settings import FLAGS, FOUND, Settings, SettingsError


def settings_of(*flags: str, **environment: str) -> Settings:
    return parse(flags, environment)[0]


def test_flags_become_one_value_and_one_line() -> None:
    settings = settings_of("agent", "--node-name=a", "--interval=5", "--no-report")
    assert (settings.role, settings.node_name, settings.interval) == ("agent", "a", 5.0)
    assert not settings.report
    assert "interval=5.0" in settings.one_line()
    assert "\n" not in settings.one_line()


def test_every_setting_has_one_flag() -> None:
    flags = [flag.setting for flag in FLAGS]
    assert sorted(flags) == sorted(set(Settings.__struct_fields__) - {"role"} - FOUND)


@pytest.mark.parametrize(
    ("flag", "names"),
    [
        ("--interval=0", "--interval"),
        ("--interval=nan", "--interval"),
        ("--listen=9400", "--listen"),
        ("--sensor-socket=/" + "x" * 120, "--sensor-socket"),
        ("--kube-token-file=/t", "--kube-server"),
        ("--log-level=LOUD", "--log-level"),
        ("--labels=all", "--labels"),
        ("--dcgm=somewhere", "--dcgm"),
        ("--devices=x:1", "--devices"),
        ("--devices=g:4-2", "--devices"),
        ("--pod-label-allow=(", "--pod-label-allow"),
        ("--max-series=0", "--max-series"),
        ("--gpu-drivers=g_pu", "--gpu-drivers takes names of DRA drivers .* not 'g_pu'"),
        ("--gpu-drivers=", "--gpu-drivers takes names of DRA drivers .* not nothing"),
        ("--collect-interval=soon", "--collect-interval"),
        ("--config-file=/nowhere/x.yaml", "--config-file"),
        ("--fake-gpus", "simulator"),
    ],
)
def test_a_flag_that_cannot_be_used_is_named(flag: str, names: str) -> None:
    with pytest.raises(SettingsError, match=names):
        settings_of("run", "--node-name=a", flag)


def test_the_node_name_comes_from_the_environment() -> None:
    assert settings_of(NODE_NAME="node-7").node_name == "node-7"


def test_the_arguments_of_a_dcgm_exporter_daemonset_go_on_working() -> None:
    given, message = parse(
        [
            *("-f", "/etc/dcgm-exporter/dcp-metrics-included.csv", "-a", ":9401", "-c", "15000"),
            *("--kubernetes=true", "-o", "-r", "10.0.0.7:5555", "--enable-dcgm-log", "-d", "g:0,2"),
        ],
        {"DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS": "true", "KUBERNETES_ENABLE_DRA": "true"},
    )
    assert given.collectors is None
    assert (given.listen, given.interval, given.dcgm) == (":9401", 15.0, "10.0.0.7:5555")
    assert given.kubernetes
    assert given.old_namespace
    assert given.pod_labels
    assert given.devices == "g:0,2"
    assert message == (
        "--enable-dcgm-log of dcgm-exporter has no meaning here: set __DCGM_DBG_LVL for the sensor",
        "/etc/dcgm-exporter/dcp-metrics-included.csv is not here; "
        "the default counters are its rows",
    )


def test_the_file_of_1x_that_is_not_there_is_the_default_set_under_its_own_names() -> None:
    file = "/etc/dcgm-exporter/1.x-compatibility-metrics.csv"
    given, message = parse(["-f", file], {})
    assert given.collectors is None
    assert message == (
        f"{file} is not here; the default counters are shown, under their DCGM_FI_* names and not "
        "under the lower-case ones of 1.x",
    )


@pytest.mark.parametrize("name", ["mine.csv", "a" * 300])
def test_a_counters_file_of_ones_own_that_is_not_there_is_no_default(name: str) -> None:
    assert str(settings_of("-f", f"/etc/{name}").collectors) == f"/etc/{name}"


def test_a_flag_outranks_the_environment_and_ours_outranks_theirs() -> None:
    env = {"DCGM_EXPORTER_INTERVAL": "1000"}
    assert parse([], env)[0].interval == 1.0
    assert parse(["--collect-interval=2000"], env)[0].interval == 2.0
    assert parse(["--collect-interval=2000", "--interval=3"], env)[0].interval == 3.0


@pytest.mark.parametrize("alias", ALIASES, ids=lambda alias: alias.flag)
def test_each_alias_sets_a_setting(alias: tuple[str, ...]) -> None:
    assert alias[2] in Settings.__struct_fields__


@pytest.mark.parametrize("variable", ENVIRONMENT, ids=lambda variable: variable.name)
def test_each_variable_sets_a_setting(variable: tuple[str, ...]) -> None:
    assert variable[1] in Settings.__struct_fields__


def test_a_variable_that_cannot_be_read_is_named() -> None:
    with pytest.raises(SettingsError, match=r"\$DCGM_EXPORTER_KUBERNETES"):
        settings_of(DCGM_EXPORTER_KUBERNETES="maybe")


@pytest.mark.parametrize("one", UNUSED, ids=lambda case: case.flag)
def test_each_unused_flag_is_reported_with_what_to_use_instead(one: tuple[str, ...]) -> None:
    flag, env, instead, _, refused, unanswered = one[:6]
    if refused:
        with pytest.raises(SettingsError, match=flag):
            settings_of(f"--{flag}", *(["x"] if one[3] else []))
        with pytest.raises(SettingsError, match=env):
            parse([], {env: "something"})
        return
    _, message = parse([], {env: "true"})
    assert message == (
        () if unanswered else (f"${env} of dcgm-exporter has no meaning here: {instead}",)
    )


def test_a_switch_can_be_turned_off_as_with_dcgm_exporter() -> None:
    assert not settings_of("--kubernetes=false").kubernetes
    assert not settings_of("-o", "--use-old-namespace=false").old_namespace
    assert settings_of("--no-hostname=true").hostname_label == "none"


@pytest.mark.parametrize(
    ("message", "meant"),
    [
        ("10.0.0.7", "10.0.0.7:5555"),
        ("tcp://10.0.0.7:5556", "10.0.0.7:5556"),
        ("unix:///run/nv-hostengine.sock", "unix:///run/nv-hostengine.sock"),
    ],
)
def test_a_host_engine_is_named_as_with_dcgm_exporter(message: str, meant: str) -> None:
    assert settings_of("-r", message).dcgm == meant
    assert settings_of(DCGM_REMOTE_HOSTENGINE_INFO=message).dcgm == meant


@pytest.mark.parametrize("flag", ["--pod-label-allow", "--kubernetes-pod-label-allowlist-regex"])
def test_a_list_that_is_given_twice_is_all_of_it(flag: str) -> None:
    assert settings_of(flag, "^a,^b", f"{flag}=^c").pod_label_allow == ("^a", "^b", "^c")


def test_resource_names_may_be_given_one_by_one() -> None:
    found = settings_of("--nvidia-resource-names=a.io/gpu", "--nvidia-resource-names", "b.io/gpu")
    assert found.nvidia_resource_names == ("a.io/gpu", "b.io/gpu")


def test_the_limit_of_scrapes_at_once_has_their_name_too() -> None:
    assert settings_of("--max-concurrent-scrapes=3").max_scrapes == 3
    assert settings_of(DCGM_EXPORTER_MAX_CONCURRENT_SCRAPES="5").max_scrapes == 5


@pytest.mark.parametrize("flag", ["--version", "-v"])
def test_it_says_its_version(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        settings_of(flag)
    assert capsys.readouterr().out.startswith("draguard exporter ")
