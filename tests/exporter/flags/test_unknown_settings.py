"""Flags and variables that only a newer dcgm-exporter knows: a word, and no end of the process."""

import pytest

from exporter.flags.parser import parse
from exporter.metrics import counters
from exporter.metrics.debug_page import debug_page
from exporter.metrics.shown import shown
from exporter.model.given import Ignored
from exporter.settings import Settings
from tests.exporter.metrics.pages import rendered, snapshot
from tests.exporter.worlds import gpu, seen


def ignored(*flags: str, **env: str) -> list[tuple[str, str, str]]:
    settings, text = parse(flags, env)
    assert text == tuple(setting.message for setting in settings.ignored)
    return [(setting.source, setting.name, setting.reason) for setting in settings.ignored]


@pytest.mark.parametrize(
    "flags",
    [
        ["--kubernetes-enable-foo"],
        ["--kubernetes-enable-foo=true"],
        ["-kubernetes-enable-foo=true"],
        ["--kubernetes-enable-foo", "some-value"],
        ["--kubernetes-enable-foo", "--no-report"],
    ],
)
def test_an_unknown_flag_of_theirs_is_passed_over_with_its_value(flags: list[str]) -> None:
    assert ignored(*flags) == [("flag", "kubernetes-enable-foo", "Unknown")]
    (text,) = parse(flags, {})[1]
    assert text.startswith("--kubernetes-enable-foo is in no release of dcgm-exporter")


def test_what_stands_behind_an_unknown_flag_still_counts() -> None:
    settings, _ = parse(["--dump-to", "agent", "--interval=5"], {})
    assert (settings.role, settings.interval) == ("agent", 5.0)
    settings, _ = parse(["--dump-to", "/dumps", "sensor", "-k=false"], {})
    assert (settings.role, settings.kubernetes) == ("sensor", False)


@pytest.mark.parametrize(
    "flag",
    [
        "--kubernetse",
        "--kubernetes-enable-dar",
        "--web-confg=/x",
        "--dcgm-helth",
        "--max-sries=1",
        "--no-dcgm-helth",
        "--intervall=5",
        "--reprot",
        "--lease-something",
        "-z",
    ],
)
def test_a_slip_of_the_pen_and_what_is_not_theirs_end_the_process(flag: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse([flag], {})


def test_an_unknown_variable_of_theirs_is_reported() -> None:
    assert ignored(DCGM_EXPORTER_OF_NEXT_YEAR="1", DCGM_EXPORTER_EMPTY="", OTHER="1") == [
        ("environment", "DCGM_EXPORTER_OF_NEXT_YEAR", "Unknown")
    ]


def test_variables_that_the_kubelet_sets_for_a_service_are_nobodys_setting() -> None:
    of_a_service = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_METRICS", "PORT")
    more = ("PORT_9400_TCP", "PORT_9400_TCP_ADDR")
    assert ignored(**{f"DCGM_EXPORTER_{name}": "10.0.0.1" for name in of_a_service + more}) == []


def test_what_is_known_and_changes_nothing_is_reported_with_what_to_use() -> None:
    assert ignored("--enable-pprof", DCGM_EXPORTER_DUMP_DIRECTORY="/d") == [
        ("flag", "enable-pprof", "NotSupported"),
        ("environment", "DCGM_EXPORTER_DUMP_DIRECTORY", "NotSupported"),
    ]


def test_what_is_always_so_and_what_asks_for_nothing_is_not_reported() -> None:
    assert ignored("--kubernetes-enable-dra", "--enable-pprof=false", "-m", "none") == []


def test_each_is_a_series_and_a_line_for_a_person() -> None:
    settings, _ = parse(["--enable-pprof", "--dump-to=x", "--dump-to=y"], {})
    what = snapshot(seen(gpu(1)), shown=shown(settings, counters.default()))
    assert rendered(what)["draguard_setting_ignored"] == [
        ({"source": "flag", "name": "dump-to", "reason": "Unknown"}, 1),
        ({"source": "flag", "name": "enable-pprof", "reason": "NotSupported"}, 1),
    ]
    page = debug_page(what)
    assert "SETTINGS WITHOUT EFFECT (3)" in page
    assert "use py-spy" in page


def test_the_line_of_settings_has_what_was_set_alone() -> None:
    message = Ignored("flag", "x", "Unknown", "words")
    assert "words" not in Settings(node_name="a", ignored=(message,)).one_line()
