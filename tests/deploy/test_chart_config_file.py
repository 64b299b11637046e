"""dcgm-exporter's YAML file in the chart: both containers read it, and start anew for it."""

from pathlib import Path
from typing import cast

import pytest

from exporter.flags import parser
from tests.deploy import rendered
from tests.deploy.rendered import Json
from tests.deploy.settings import SETTINGS
from tests.deploy.test_chart_flags import containers

pytestmark = pytest.mark.usefixtures("helm_built")

FILE = "/etc/draguard/config/config.yaml"
ROWS = """version: 2  # ours: {{ .Values }} "quoted" 'twice' ü
metrics:
  fields:
    - {name: DCGM_FI_DEV_GPU_TEMP, prometheusType: gauge, help: Temperature}
collections:
  - name: all
    every: 10s
    metrics: {include: ["*"]}
server: {maxConcurrentScrapes: 3}
"""


def given(text: str, *values: str) -> list[Json]:
    # In --set a comma begins the next value.
    return rendered.objects((f"exporter.config={text.replace(',', chr(92) + ',')}", *values))


def text_of(objects: list[Json]) -> str:
    named = (found for found in objects if found["metadata"]["name"] == "draguard-exporter-config")
    return "".join(found["data"]["config.yaml"] for found in named)


def read(objects: list[Json], role: str, tmp_path: Path) -> parser.Settings:
    """Read a container's arguments, and the file where the ConfigMap would be mounted."""
    mounted = tmp_path / "config.yaml"
    mounted.write_text(text_of(objects), encoding="utf-8")
    container = containers(objects)[role]
    arguments = [str(argument).replace(FILE, str(mounted)) for argument in container["args"]]
    return parser.parse(arguments[1:], {"NODE_NAME": "node-a"})[0]


def checksum(objects: list[Json]) -> str | None:
    (exporter,) = (found for found in objects if found["kind"] == "DaemonSet")
    annotations = cast("dict[str, str]", exporter["spec"]["template"]["metadata"]["annotations"])
    return annotations.get("draguard.dev/config-checksum")


@pytest.mark.parametrize("role", ["sensor", "agent"])
def test_both_containers_read_the_file(role: str, tmp_path: Path) -> None:
    objects = given(ROWS)
    container = containers(objects)[role]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    found = read(objects, role, tmp_path)

    assert text_of(objects) == ROWS
    assert mounts["config"] == str(Path(FILE).parent)
    assert (found.interval, found.max_scrapes) == (10.0, 3)
    assert [row.name for row in found.counter_rows] == ["DCGM_FI_DEV_GPU_TEMP"]


def test_an_interval_of_the_chart_outranks_those_of_the_file(tmp_path: Path) -> None:
    assert read(given(ROWS, "exporter.interval=20"), "agent", tmp_path).interval == 20.0
    assert read(given("version: 2"), "agent", tmp_path).interval == 30.0


def test_rows_of_the_chart_take_the_place_of_a_file_that_the_file_names(tmp_path: Path) -> None:
    text = "version: 1\nmetrics: {file: /etc/dcgm-exporter/default-counters.csv}\n"
    found = read(given(text, *SETTINGS["rows of its own"]), "agent", tmp_path)

    assert found.collectors == Path("/etc/draguard/counters/counters.csv")


def test_pods_start_anew_when_the_file_changes_and_not_without_one() -> None:
    first, other = checksum(given("version: 1")), checksum(given("version: 2"))

    assert first != other
    assert None not in {first, other}
    assert checksum(rendered.objects(())) is None
    assert text_of(rendered.objects(())) == ""
