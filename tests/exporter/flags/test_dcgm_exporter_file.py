"""dcgm-exporter's YAML file: what is in force, what is reported, and what ends the start."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from exporter.flags import dcgm_exporter_file
from exporter.flags.dcgm_exporter_keys import KEYS
from exporter.flags.parser import parse
from exporter.metrics.counters_file import CountersFile
from exporter.settings import Settings, SettingsError
from tests.exporter.flags.recorded import rows

NAME = "/etc/dcgm-exporter/config.yaml"


class Theirs(NamedTuple):
    key: str
    versions: str
    value: str


def recorded() -> list[Theirs]:
    """Return the rows of the list; a newer list with an unknown key turns these tests red."""
    return [Theirs(**row) for row in rows("dcgm_exporter_keys.csv")]


CASES = [(setting, int(version)) for setting in recorded() for version in setting.versions.split()]


def nested(key: str, value: str) -> Any:
    """Return the document that says one key alone."""
    found: Any = value
    for part in reversed(key.replace("[]", ".[]").split(".")):
        found = [found] if part == "[]" else {part: found}
    return found


def document(setting: Theirs, version: int) -> bytes:
    logged_text = nested(setting.key, setting.value)
    return yaml.safe_dump({**logged_text, "version": version}, sort_keys=False).encode()


@pytest.mark.parametrize(
    ("one", "version"), CASES, ids=lambda case: getattr(case, "key", str(case))
)
def test_each_of_their_keys_is_known_in_its_schema(one: Theirs, version: int) -> None:
    found = dcgm_exporter_file.parse(document(one, version), NAME)
    assert "Unknown" not in {reported.reason for reported in found.ignored}


@pytest.mark.parametrize("one", recorded(), ids=lambda case: case.key)
def test_each_of_their_keys_is_unknown_in_the_other_schema(one: Theirs) -> None:
    for version in {1, 2} - set(map(int, one.versions.split())):
        found = dcgm_exporter_file.parse(document(one, version), NAME)
        assert {reported.reason for reported in found.ignored} == {"Unknown"}


def test_no_key_is_known_that_they_have_not_but_the_address() -> None:
    assert {key.path for key in KEYS} - {setting.key for setting in recorded()} == {
        "server.address"
    }
    for key in KEYS:
        (theirs,) = [setting.versions for setting in recorded() if setting.key == key.path] or [
            "1 2"
        ]
        assert tuple(map(int, theirs.split())) == key.versions


FULL = """\
version: 2
metrics:
  fields:
    - name: DCGM_FI_DEV_GPU_TEMP
      prometheusType: gauge
      help: GPU temperature.
    - {name: DCGM_FI_DRIVER_VERSION, prometheusType: label, help: "Driver, of the node"}
  enableExporterMetrics: true
server:
  maxConcurrentScrapes: 8
sources:
  dcgm:
    watch: {maxKeepAge: 10m, maxKeepSamples: 0}
    detectBindUnbind: {enabled: true, pollInterval: 1s}
collections:
  - name: scrape
    every: 30s
    metrics:
      include: ["*"]
"""


class Files:
    """Configuration files in a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "config.yaml"

    def settings(self, text: str, *flags: str, **env: str) -> Settings:
        self.path.write_text(text, encoding="utf-8")
        found, logged_text = parse([f"--config-file={self.path}", *flags], env)
        assert set(logged_text) >= {setting.message for setting in found.ignored}
        return found

    def ignored(self, text: str, *flags: str, **env: str) -> dict[str, str]:
        return {
            setting.name: setting.reason for setting in self.settings(text, *flags, **env).ignored
        }

    def refused(self, text: str) -> str:
        with pytest.raises(SettingsError) as caught:
            self.settings(text)
        assert str(caught.value).startswith(f"--config-file: {self.path}, line ")
        return str(caught.value)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_what_can_be_done_is_in_force_and_the_rest_is_reported(files: Files) -> None:
    found = files.settings(FULL)
    assert (found.max_scrapes, found.interval, found.collectors) == (8, 30.0, None)
    assert [(row.line, row.name, row.type) for row in found.counter_rows] == [
        (4, "DCGM_FI_DEV_GPU_TEMP", "gauge"),
        (7, "DCGM_FI_DRIVER_VERSION", "label"),
    ]
    assert files.ignored(FULL) == {
        "sources.dcgm.watch.maxKeepAge": "NotSupported",
        "sources.dcgm.watch.maxKeepSamples": "NotSupported",
    }
    (first, _) = found.ignored
    assert first.source == "file"
    assert first.message == (
        f"sources.dcgm.watch.maxKeepAge on line 13 of {files.path} has no meaning here: DCGM keeps "
        "what one look needs"
    )


def test_rows_in_the_file_are_the_counters_and_bad_ones_are_left_out(files: Files) -> None:
    more = "    - {name: DCGM_FI_OF_NEXT_YEAR, prometheusType: gauge, help: x}\n    - {}\n"
    text = FULL.replace("  enableExporterMetrics", f"{more}  enableExporterMetrics")
    found = files.settings(text)
    file = CountersFile(found.collectors, found.counter_rows, str(found.config_file))
    assert [row.name for row in file.current.metrics] == ["DCGM_FI_DEV_GPU_TEMP"]
    assert [row.help for row in file.current.labels] == ["Driver, of the node"]
    assert file.current.left_out == {"UnknownField": 2}
    assert file.current.notes[0].startswith(f"line 8 of {files.path}: 'DCGM_FI_OF_NEXT_YEAR'")
    file.ask()
    assert not file.look()


def test_a_help_text_of_several_lines_is_one_line(files: Files) -> None:
    text = "version: 1\nmetrics:\n  fields:\n  - name: A\n    help: |\n      two\n      lines\n"
    (row,) = files.settings(text).counter_rows
    assert (row.name, row.type, row.help) == ("A", "", "two lines")


def test_a_flag_outranks_the_environment_which_outranks_the_file(files: Files) -> None:
    text = FULL + "    extra: 1\n"
    assert files.settings(text).max_scrapes == 8
    env = {"DCGM_EXPORTER_MAX_CONCURRENT_SCRAPES": "9", "DCGM_EXPORTER_INTERVAL": "7000"}
    assert files.settings(text, **env).max_scrapes == 9
    assert files.settings(text, **env).interval == 7.0
    flags = ("--max-concurrent-scrapes=10", "-c", "3000")
    assert files.settings(text, *flags, **env).max_scrapes == 10
    assert files.settings(text, *flags, **env).interval == 3.0
    # What a flag outranks is no setting without effect: it is the order that is requested.
    assert "collections[0].every" not in files.ignored(text, *flags, **env)


def test_the_file_may_be_named_by_a_variable(files: Files) -> None:
    files.path.write_text(FULL, encoding="utf-8")
    assert parse([], {"DCGM_EXPORTER_CONFIG_FILE": str(files.path)})[0].max_scrapes == 8


def test_a_counters_file_that_is_named_besides_replaces_the_rows(files: Files) -> None:
    assert files.settings(FULL, "-f", "/mine.csv").counter_rows == ()
    assert str(files.settings(FULL, "-f", "/mine.csv").collectors) == "/mine.csv"
    assert files.settings(FULL, DCGM_EXPORTER_COLLECTORS="/mine.csv").counter_rows == ()
    named = "version: 2\nmetrics: {file: /of/the/file.csv}\n"
    assert str(files.settings(named).collectors) == "/of/the/file.csv"
    assert str(files.settings(named, "-f", "/mine.csv").collectors) == "/mine.csv"


def test_a_file_of_their_image_that_is_not_there_is_the_default_set(files: Files) -> None:
    text = "version: 2\nmetrics: {file: /etc/dcgm-exporter/default-counters.csv}\n"
    files.path.write_text(text, encoding="utf-8")
    found, logged_text = parse([f"--config-file={files.path}"], {})
    assert found.collectors is None
    assert "the default counters are its rows" in logged_text[0]


def collections(*every: tuple[str, str]) -> str:
    """Return a file with collections: pattern and interval."""
    rows = (
        f"  - {{name: c{number}, every: {seconds}, metrics: {{include: ['{pattern}']}}}}\n"
        for number, (pattern, seconds) in enumerate(every)
    )
    return "version: 2\ncollections:\n" + "".join(rows)


@pytest.mark.parametrize(
    ("every", "interval", "in_vain"),
    [
        ([("*", "45s")], 45.0, []),
        ([("*", "30s"), ("DCGM_FI_DEV_GPU_TEMP", "5s")], 5.0, [0]),
        ([("*", "30s"), ("DCGM_FI_DEV_GPU_TEMP", "5m")], 30.0, [1]),
        ([("DCGM_FI_DEV_GPU_TEMP", "5s"), ("DCGM_FI_DEV_SM_CLOCK", "5s")], 5.0, []),
        ([("DCGM_FI_DEV_GPU_TEMP", "5m")], 30.0, [0]),
    ],
)
def test_there_is_one_interval_and_the_shortest_one_wins(
    files: Files, every: list[tuple[str, str]], interval: float, in_vain: list[int]
) -> None:
    text = collections(*every)
    assert files.settings(text).interval == interval
    reasons = {f"collections[{number}].every": "OneInterval" for number in in_vain}
    assert files.ignored(text) == reasons


def test_an_interval_that_a_flag_names_makes_those_of_parts_vain(files: Files) -> None:
    text = collections(("*", "30s"), ("DCGM_FI_DEV_GPU_TEMP", "5s"))
    assert files.settings(text, "--interval=10").interval == 10.0
    assert files.ignored(text, "--interval=10") == {"collections[1].every": "OneInterval"}
    (logged_text,) = files.settings(text, "--interval=10").ignored
    assert logged_text.message == (
        "collections[1].every of dcgm-exporter's file requests 5 s: all fields are sampled at one "
        "interval here, which is 10 s; set it with --interval"
    )


def test_schema_1_has_its_own_names(files: Files) -> None:
    text = (
        "version: 1\ncollection:\n  interval: 1m30s\n  retention: {maxAge: 10m}\n  watchGroups:\n"
        "    - {name: fast, interval: 500ms, fields: [DCGM_FI_DEV_GPU_TEMP]}\n"
    )
    assert files.settings(text).interval == 0.5
    assert files.ignored(text) == {
        "collection.interval": "OneInterval",
        "collection.retention.maxAge": "NotSupported",
    }


def test_keys_of_a_newer_release_are_reported_and_no_end(files: Files) -> None:
    text = FULL + "    of_next_year: {a: [1, 2]}\nnewer: [1]\n"
    assert {name for name, reason in files.ignored(text).items() if reason == "Unknown"} == {
        "collections[0].of_next_year",
        "newer",
    }


def test_of_very_many_keys_the_first_are_reported(files: Files) -> None:
    text = "version: 2\n" + "".join(f"k{number}: 1\n" for number in range(1000)) + f"{'k' * 999}: 1"
    found = files.settings(text).ignored
    assert len(found) == dcgm_exporter_file.MOST_REPORTED + 1
    assert found[-1].message == f"951 more keys of {files.path} have no effect"
    (long,) = files.settings(f"version: 2\n{'k' * 999}: 1\n").ignored
    assert len(long.name) == 120


def test_an_address_is_where_to_listen(files: Files) -> None:
    assert files.settings("version: 2\nserver: {address: ':9555'}\n").listen == ":9555"


def test_what_is_left_empty_says_nothing(files: Files) -> None:
    text = "version: 2\nmetrics:\nserver: {maxConcurrentScrapes: }\ncollections:\nsources: ~\n"
    found = files.settings(text)
    assert (found.max_scrapes, found.interval, found.ignored) == (16, 30.0, ())


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("version: 2\nmetrics: [\n", 3, "this is not YAML"),
        ("version: 2\nversion: 2\n", 2, "comes twice"),
        ("metrics: {file: x}\n", 1, "version must be 1 or 2"),
        ("a: 1\nversion: 3\n", 2, "version must be 1 or 2, not '3'"),
        ("version: [2]\n", 1, "version must be a plain value"),
        ("just words\n", 1, "the file must be a mapping"),
        ("version: 2\nmetrics: x\n", 2, "metrics must be a mapping"),
        ("version: 2\nmetrics:\n  file: [a]\n", 3, "metrics.file must be a plain value"),
        ("version: 2\nmetrics:\n  file: a\n  fields: [{name: b}]\n", 4, "both file and fields"),
        ("version: 2\nmetrics:\n  fields: {name: b}\n", 3, "metrics.fields must be a list"),
        ("version: 2\nmetrics:\n  fields: [b]\n", 3, r"metrics.fields\[0\] must be a mapping"),
        ("version: 2\nserver:\n  maxConcurrentScrapes: 0\n", 3, "above 0, not '0'"),
        ("version: 2\nserver:\n  maxConcurrentScrapes: many\n", 3, "above 0, not 'many'"),
        ("version: 2\nserver:\n  address: nowhere\n", 3, "host:port"),
        ("version: 2\nserver:\n  address: ':94122'\n", 3, "host:port"),  # found by fuzzing
        ("version: 2\ncollections: 5\n", 2, "collections must be a list"),
        ("version: 2\ncollections:\n- every: 30000\n", 3, "a duration such as 30s"),
        ("version: 2\ncollections:\n- every: 500us\n", 3, "whole milliseconds"),
        ("version: 2\ncollections:\n- every: 0s\n", 3, "whole milliseconds and not 0"),
        ("version: 2\ncollections:\n- every: 25h\n", 3, "24h or less"),
        ("version: 2\ncollections:\n- every: -5s\n", 3, "a duration"),
    ],
)
def test_what_cannot_be_used_ends_the_start_with_file_and_line(
    files: Files, text: str, line: int, words: str
) -> None:
    logged_text = files.refused(text)
    assert f", line {line}: " in logged_text
    with pytest.raises(SettingsError, match=words):
        dcgm_exporter_file.parse(text.encode(), NAME)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.yaml"):
        with pytest.raises(SettingsError, match=r"--config-file: .* cannot be read .*mount it"):
            parse([f"--config-file={path}"], {})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5.0),
        ("1m30s", 90.0),
        ("250ms", 0.25),
        ("1.5h", 5400.0),
        ("+.5s", 0.5),
        ("24h", 86400),
    ],
)
def test_durations_are_gos(text: str, seconds: float) -> None:
    found = dcgm_exporter_file.parse(collections(("*", text)).encode(), NAME)
    assert found.intervals[0].seconds == pytest.approx(seconds)
