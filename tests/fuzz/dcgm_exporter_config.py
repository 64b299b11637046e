"""What operators wrote for dcgm-exporter: its YAML file, and counters files of any release."""
# pyright: basic
# Documents of strangers have no types.

import json
import re
import zlib
from collections import Counter
from random import Random
from typing import Any, NamedTuple

import yaml

from exporter.flags import dcgm_exporter_file, yaml_text
from exporter.flags.dcgm_exporter_file import FileSettings
from exporter.flags.dcgm_exporter_keys import KEYS
from exporter.flags.yaml_text import Node, YamlError
from exporter.metrics import counters
from exporter.metrics.counters import CountersError
from exporter.metrics.shown import shown
from exporter.settings import Settings, SettingsError, check
from tests.exporter.metrics.pages import rendered, snapshot
from tests.exporter.worlds import gpu, seen
from tests.fuzz import hostile
from tests.fuzz.target import Target, demand

NAME = "config.yaml"
FILES = (
    b"version: 2\nmetrics:\n  file: /etc/dcgm-exporter/default-counters.csv\n",
    b"version: 2\nmetrics:\n  fields:\n    - name: DCGM_FI_DEV_GPU_TEMP\n"
    b"      prometheusType: gauge\n      help: GPU temperature (in C).\n"
    b"  enableExporterMetrics: true\n",
    b"collections:\n  - name: scrape\n    every: 30s\n    metrics:\n      include: ['*']\n"
    b"  - name: fast\n    every: 5s\n    metrics: {include: [DCGM_FI_DEV_GPU_TEMP]}\n",
    b"sources:\n  dcgm:\n    watch: {maxKeepAge: 10m, maxKeepSamples: 0}\n",
    b"server:\n  maxConcurrentScrapes: 16\n  address: ':9400'\n",
    b"version: 1\ncollection:\n  interval: 1m30s\n  watchGroups:\n    - name: fast\n"
    b"      interval: 250ms\n      fields: [DCGM_FI_DEV_GPU_TEMP]\n",
    b"a: &a {b: [1, 2]}\nc: {<<: *a}\nd: *a\n",
    b"? [a]\n: b\n",
    b"--- a\n--- b\n",
    b'e: "\\x00\\ud800\\U00110000"\n',
    b"f: !!binary aGVsbG8=\n",
    b"g: |\n  several\n  lines\n",
    b"\xef\xbb\xbfversion: 2\r\n",
    b"%YAML 1.2\n---\n",
    b"h: \xff\n",
)
_NULLS = ("", "~", "null", "Null", "NULL")
_PAGE_OF = 64
"""One input in so many is shown on a page."""


class Row(NamedTuple):
    """A line of a counters file, and why it is left out; "" for a good one."""

    line: str
    reason: str


_HELP = ("", "x", '"a, b"', "°C", '"say ""x"""')
_GOOD = (
    "DCGM_FI_DEV_GPU_TEMP, gauge", "DCGM_FI_DEV_SM_CLOCK ,gauge", "DCGM_FI_DRIVER_VERSION,label",
    "DCGM_EXP_XID_ERRORS_TOTAL,counter", "DCGM_EXP_CLOCK_EVENTS_TOTAL,  counter",
    "DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL,counter", "DCGM_FI_DEV_GPU_TEMP_CELSIUS,summary",
)  # fmt: skip
_BAD = (
    Row("DCGM_EXP_OF_NEXT_YEAR,counter,x", "UnknownField"),
    Row("DCGM_FI_DEV_GPU_TMEP,gauge,x", "UnknownField"),
    Row("dcgm_gpu_temp,gauge,x", "UnknownField"),
    Row(",,", "UnknownField"),
    Row("DCGM_FI_DEV_GPU_TEMP,Gauge,x", "UnknownType"),
    Row("DCGM_FI_DEV_GPU_TEMP,,x", "UnknownType"),
    Row("DCGM_FI_DEV_GPU_TEMP,gauge", "ColumnCount"),
    Row("DCGM_FI_DEV_GPU_TEMP,gauge,a,b", "ColumnCount"),
    Row("nonsense", "ColumnCount"),
    Row('DCGM_FI_DEV_GPU_TEMP,gauge,"open', "BadQuotes"),
)


def make(random: Random) -> tuple[str, Any]:
    kind = random.choice(("yaml", "yaml", "tree", "rows"))
    if kind == "rows":
        return kind, [_row(random) for _ in range(random.randrange(12))]
    if kind == "tree":
        return kind, json.dumps(_tree(random)).encode()
    parts = random.sample(FILES, k=random.choice((1, 2, 3)))
    raw = b"".join(parts)
    if random.randrange(4):
        raw = hostile.mutated(random, raw, 4, FILES)
    return kind, b"[" * 400 + raw if random.randrange(500) == 0 else raw


def _row(random: Random) -> tuple[str, str]:
    if random.randrange(3):
        return f"{random.choice(_GOOD)},{random.choice(_HELP)}", ""
    return random.choice(_BAD)


def _tree(random: Random) -> Any:
    """Return a document of their keys, some of them with values that make no sense."""
    found: Any = {"version": random.choice((1, 2, 2, "2", 3))}
    for key in random.sample(KEYS, k=random.randrange(6)):
        _put(random, found, key.path.replace("[]", ".[]").split("."))
    if random.randrange(4) == 0:
        found[hostile.text(random)] = hostile.text(random)
    return found


def _put(random: Random, into: Any, path: list[str]) -> None:
    name, *below = path
    if not isinstance(into, dict):
        return
    if not below:
        into[name] = _value(random)
    elif below[0] == "[]":
        entries = into.setdefault(name, [])
        if not isinstance(entries, list):
            return
        if len(below) == 1:
            entries.append(_value(random))
        else:
            entries.append({})
            _put(random, entries[-1], below[1:])
    else:
        _put(random, into.setdefault(name, {}), below)


def _value(random: Random) -> Any:
    usual = ("5s", "30s", "1m30s", "250ms", "DCGM_FI_DEV_GPU_TEMP", "gauge", "*", ":9400", 8, True)
    kind = random.randrange(8)
    if kind == 0:
        return hostile.text(random)
    return random.choice((None, [], {}, 0, -1, 1e300)) if kind == 1 else random.choice(usual)


def check_config(made: tuple[str, Any]) -> None:
    kind, what = made
    if kind == "rows":
        _check_rows(what)
    else:
        _check_yaml(what)


def _check_rows(rows: list[tuple[str, str]]) -> None:
    text = "\n".join(line for line, _ in rows)
    bad = Counter(reason for _, reason in rows if reason)
    good = {line.split(",")[0].strip() for line, reason in rows if not reason}
    try:
        found = counters.parse(text.encode(), "counters.csv")
    except CountersError as error:
        demand(bad and not good, "a file with a good row is refused", error)
        first = next(reason for _, reason in rows if reason)
        demand(error.reason == first, "another reason than the first row's", error.reason, first)
        return
    demand(dict(found.left_out) == dict(bad), "other rows are left out", found.left_out, bad)
    taken = {row.name for row in (*found.metrics, *found.labels)}
    demand(taken == good, "other rows are taken", taken, good)


def _check_yaml(raw: bytes) -> None:
    _check_tree(raw)
    lines = raw.count(b"\n") + raw.count(b"\r") + 2
    try:
        found = dcgm_exporter_file.parse(raw, NAME)
    except SettingsError as error:
        stated = re.match(r"--config-file: config\.yaml, line (\d+): .", str(error))
        demand(stated and 1 <= int(stated[1]) <= _more_lines(raw, lines), "no line", str(error))
        return
    settings = _settings(found)
    demand(0.001 <= settings.interval <= 86_400, "an interval", settings.interval)
    requested = [interval.seconds for interval in found.intervals if not interval.whole]
    demand(
        all(settings.interval <= seconds for seconds in requested),
        "staler than requested",
        requested,
    )
    names = [setting.name for setting in found.ignored]
    demand(len(names) <= dcgm_exporter_file.MOST_REPORTED + 1, "too many words", len(names))
    demand(all(len(name) <= 120 for name in names), "a name without end", names)
    _check_inline(found, settings, raw)


def _more_lines(raw: bytes, lines: int) -> int:
    """Return the most lines that YAML may count: it breaks them at U+0085, 2028 and 2029, too."""
    return lines + len(re.findall("[\x85\u2028\u2029]", raw.decode("utf-8", "replace")))


def _settings(found: FileSettings) -> Settings:
    """Return them checked: what the file's own check let through must be fit for use."""
    interval, vain = dcgm_exporter_file.one_interval(found.intervals, None, 30.0)
    given: dict[str, Any] = {**found.given, "ignored": (*found.ignored, *vain)}
    return check(Settings(node_name="a", interval=interval, counter_rows=found.rows, **given))


def _check_inline(found: FileSettings, settings: Settings, raw: bytes) -> None:
    known = counters.default()
    if found.rows:
        try:
            known = counters.of_rows(found.rows, NAME)
        except CountersError as error:
            demand("line " in str(error) and NAME in str(error), "a refusal", error)
        else:
            names = {row.name for row in (*known.metrics, *known.labels)}
            again = sum(note.endswith("the first line counts") for note in known.notes)
            total = len(names) + sum(known.left_out.values()) + again
            demand(total == len(found.rows), "a row is lost", total, found.rows)
    if zlib.crc32(raw) % _PAGE_OF == 0:
        what = snapshot(seen(gpu(1, values={150: 1})), shown=shown(settings, known))
        series = rendered(what).get("draguard_setting_ignored", [])
        reported = {(setting.source, setting.name, setting.reason) for setting in settings.ignored}
        demand(len(series) == len(reported), "a setting without effect is not shown", reported)


def _check_tree(raw: bytes) -> None:
    """Hold what is read against what PyYAML's own composer makes of it."""
    try:
        found = yaml_text.read(raw)
    except YamlError:
        return
    if b"<<" not in raw:
        plain = yaml.load(raw.decode("utf-8-sig"), Loader=yaml.BaseLoader)  # noqa: S506 - texts alone
        demand(_of_node(found) == _of_yaml(plain), "read otherwise", _of_node(found), plain)


def _of_node(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {_key(name): _of_node(value) for name, value in node.value.items()}
    if isinstance(node.value, list):
        return [_of_node(entry) for entry in node.value]
    return "" if node.value in (None, *_NULLS) else node.value


def _of_yaml(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(name): _of_yaml(element) for name, element in value.items()}
    if isinstance(value, list):
        return [_of_yaml(element) for element in value]
    return "" if value in _NULLS else value


def _key(name: str) -> str:
    return "null" if name in _NULLS else name


TARGETS = (Target("dcgm-exporter-config", 15, make, check_config),)
