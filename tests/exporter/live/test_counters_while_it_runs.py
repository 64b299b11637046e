"""What is requested of a running exporter: counters files, dcgm-exporter's arguments, labels."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.metrics import fields
from exporter.sensor.nvml import gpm, link_table
from exporter.sensor.nvml.table import TABLE
from simulator import holdings
from simulator.node import SimulatedNode
from tests.exporter.live.stage import (
    NVML_UP,
    OPENMETRICS,
    TEXT,
    exporter_of,
    fetch,
    labels_of,
    read_strictly,
    samples,
    simulated,
)
from tests.exporter.running import Exporter, send, wait_for

TEMPERATURE, POWER, MEMORY = (
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_FB_USED",
)
TEMPERATURE_ROW = f"{TEMPERATURE}, gauge, GPU temperature\n"
BAR1_ROW = "DCGM_FI_DEV_BAR1_USED, gauge, BAR1\n"
NOT_ON_THESE_BOARDS = frozenset(
    (
        *(120, 191),  # automatic boost, a fan
        *range(314, 318),  # ECC by part of the chip: boards before Ampere
        *range(320, 328),
        *range(330, 342),
        *(390, 391, 392),  # retired pages: boards before Ampere
        *(1024, 1032, 1034),  # an eighth decoder or JPEG engine, a second one for optical flow
        *range(1084, 1097),  # totals of GPM: drivers before R595
    )
)
NVML_TELLS = frozenset(
    (*TABLE, *gpm.METRICS, *link_table.LINK_FIELDS, *link_table.GPU_FIELDS)
) & frozenset(fields.table())


def rows_of(*names: str, kind: str = "gauge") -> str:
    return "".join(f"{name}, {kind}, help\n" for name in names)


def every_name() -> tuple[list[str], list[str]]:
    """Return all names, old and new, of number fields and of text fields."""
    numbers: list[str] = []
    texts: list[str] = []
    for field in fields.table().values():
        known = [name for name in (field.name, field.renamed, *field.also) if name]
        if field.type == "text":
            texts += known
        elif field.type != "binary":
            numbers += known
    return numbers, texts


def test_every_field_that_nvml_tells_is_shown_under_all_of_its_names() -> None:
    numbers, texts = every_name()
    with simulated("1xA100,2xH100,1xGB200", {2: ["1g.10gb"] * 2}) as node:
        file = node.root / "all.csv"
        file.write_text(rows_of(*numbers) + rows_of(*texts, kind="label"), encoding="utf-8")
        with exporter_of(node, f"--collectors={file}") as exporter:
            # What the exporter says of a rendering is on the page after it.
            rendered = "\ndraguard_render_duration_seconds "
            exporter.wait_shows(NVML_UP, "DCGM_FI_PROF_GR_ENGINE_ACTIVE{", rendered)
            text, strict = (fetch(exporter, form)[1] for form in (TEXT, OPENMETRICS))
    found = read_strictly(text, TEXT)
    assert read_strictly(strict, OPENMETRICS).keys() == found.keys()
    kinds = fields.table()
    reported = {number for number in NVML_TELLS if kinds[number].type not in ("text", "binary")}
    missing = {number for number in reported if kinds[number].name not in found}
    assert missing == NOT_ON_THESE_BOARDS & reported
    for field in kinds.values():
        if field.renamed and field.name in found:
            assert found[field.renamed] == found[field.name]
    shown = found[TEMPERATURE][0].keys()
    assert {"DCGM_FI_DEV_SERIAL", "DCGM_FI_DEV_BOARD_SERIAL", "DCGM_FI_NVML_VERSION"} <= shown


class Mounted:
    """A ConfigMap as the kubelet mounts it: a folder whose `..data` is swapped at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version = 0
        folder.mkdir()
        self.file = folder / "counters.csv"
        self.file.symlink_to("..data/counters.csv")

    def swap(self, text: str) -> None:
        self._version += 1
        version = self._folder / f"..version-{self._version}"
        version.mkdir()
        (version / "counters.csv").write_text(text, encoding="utf-8")
        fresh = self._folder / "..data_tmp"
        fresh.symlink_to(version.name)
        fresh.replace(self._folder / "..data")


@pytest.fixture
def mounted(node: SimulatedNode) -> Mounted:
    made = Mounted(node.root / "config")
    made.swap(TEMPERATURE_ROW)
    return made


@pytest.fixture
def exporter(node: SimulatedNode, mounted: Mounted) -> Iterator[Exporter]:
    with exporter_of(node, f"--collectors={mounted.file}") as running:
        running.wait_shows(NVML_UP, f"{TEMPERATURE}{{")
        yield running


def failures(exporter: Exporter) -> float:
    return exporter.series("draguard_counters_reload_failures_total")[""]


def test_a_configmap_that_is_swapped_is_taken_up_and_a_bad_one_is_not(
    mounted: Mounted, exporter: Exporter
) -> None:
    assert not exporter.shows(f"{POWER}{{")
    # A field that nobody read before: the sensor must hear of it.
    mounted.swap(BAR1_ROW)
    exporter.wait_shows("DCGM_FI_DEV_BAR1_USED{")
    assert not exporter.shows(f"{TEMPERATURE}{{")
    mounted.swap("# no good row\nDCGM_FI_DEV_NO_SUCH_THING, gauge, x\n")
    exporter.wait_shows("draguard_counters_last_reload_success 0")
    assert failures(exporter) == 1
    assert exporter.shows("DCGM_FI_DEV_BAR1_USED{")
    exporter.wait_logged("line 2 of")
    exporter.wait_logged("DCGM_FI_DEV_NO_SUCH_THING")
    mounted.swap(TEMPERATURE_ROW)
    exporter.wait_shows("draguard_counters_last_reload_success 1", f"{TEMPERATURE}{{")
    assert failures(exporter) == 1


def test_a_bad_row_is_left_out_at_the_start_and_later_and_is_seen(
    node: SimulatedNode, mounted: Mounted
) -> None:
    left_out = 'draguard_counters_rows_left_out{reason="UnknownField"}'
    mounted.swap(f"{TEMPERATURE_ROW}DCGM_EXP_OF_NEXT_YEAR, counter, x\n")
    with exporter_of(node, f"--collectors={mounted.file}") as exporter:
        exporter.wait_shows(NVML_UP, f"{TEMPERATURE}{{", f"{left_out} 1")
        exporter.wait_logged("'DCGM_EXP_OF_NEXT_YEAR' is not a DCGM field")
        mounted.swap(f"dcgm_gpu_temp, gauge, x\n{BAR1_ROW}DCGM_FI_DEV_NO_SUCH, gauge, x\n")
        exporter.wait_shows("DCGM_FI_DEV_BAR1_USED{", f"{left_out} 2")
        exporter.wait_shows("draguard_counters_last_reload_success 1")
        assert failures(exporter) == 0
        mounted.swap(TEMPERATURE_ROW)
        exporter.wait_shows(f"{left_out} 0")


def test_sighup_reads_the_file_again_though_nothing_seems_changed(
    mounted: Mounted, exporter: Exporter
) -> None:
    mounted.swap("no, counters file\n")
    wait_for(lambda: failures(exporter) == 1)
    for times in (2, 3):
        send(exporter.pid, signal.SIGHUP)
        wait_for(lambda times=times: failures(exporter) == times, what="another look")
    assert exporter.get("/readyz")[0] == 200
    assert exporter.shows(f"{TEMPERATURE}{{")


def test_rows_of_type_label_ride_on_the_series_of_their_own_gpu(
    node: SimulatedNode, mounted: Mounted, exporter: Exporter
) -> None:
    labels = rows_of("DCGM_FI_DEV_SERIAL", "DCGM_FI_DEV_VBIOS_VERSION", kind="label")
    mounted.swap(TEMPERATURE_ROW + labels)
    exporter.wait_shows('DCGM_FI_DEV_SERIAL="', 'DCGM_FI_DEV_VBIOS_VERSION="')
    for number in range(3):
        gpu = node.gpu(number)
        (row,) = samples(exporter, TEMPERATURE, UUID=gpu.uuid)
        assert row["DCGM_FI_DEV_SERIAL"] == gpu.serial
        assert row["DCGM_FI_DEV_VBIOS_VERSION"] == gpu.product.vbios


def test_arguments_of_dcgm_exporter_start_and_mean_what_they_meant(
    node: SimulatedNode, mounted: Mounted
) -> None:
    id_type = "--kubernetes-gpu-id-type=device-name"
    arguments = ("-f", str(mounted.file), "-o", "-d", "g:0,1", "--kubernetes", id_type)
    ignored = ("-s", "f", "-p", "f", "--collect-interval", "500", "--enable-pprof")
    plugin = holdings.plugin("nvidia.com/gpu", "nvidia1")
    node.kubelet.set_pods([holdings.pod("train", holdings.container(plugins=[plugin]))])
    with exporter_of(node, *arguments, *ignored) as exporter:
        exporter.wait_shows(NVML_UP, 'pod_name="train"', f"{TEMPERATURE}{{")
        rows = labels_of(exporter, TEMPERATURE)
        assert {row["uuid"] for row in rows} == {node.gpu(0).uuid, node.gpu(1).uuid}
        (held,) = samples(exporter, TEMPERATURE, uuid=node.gpu(1).uuid)
        assert (held["pod_namespace"], held["container_name"]) == ("ml", "main")
        assert not exporter.shows(f"{POWER}{{")
        exporter.wait_logged("--enable-pprof")


def test_the_environment_of_dcgm_exporter_means_the_same(
    node: SimulatedNode, mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "COLLECTORS": str(mounted.file),
        "USE_OLD_NAMESPACE": "true",
        "NO_HOSTNAME": "true",
        "DEVICES_STR": "i",
        "KUBERNETES": "true",
        "REPLACE_BLANKS_IN_MODEL_NAME": "true",
    }.items():
        monkeypatch.setenv(f"DCGM_EXPORTER_{name}", value)
    mounted.swap(rows_of(MEMORY))
    with exporter_of(node) as exporter:
        exporter.wait_shows(NVML_UP, f"{MEMORY}{{")
        rows = labels_of(exporter, MEMORY)
        assert len(rows) == 7
        assert {row["modelName"] for row in rows} == {"NVIDIA-H100-80GB-HBM3"}
        assert not any("Hostname" in row or "UUID" in row for row in rows)


@pytest.mark.parametrize(
    ("preset", "present", "absent"),
    [
        ("drop-in", {"pci_bus_id", "modelName", "device", "pod"}, {"resource"}),
        ("full", {"pci_bus_id", "modelName", "device", "pod", "resource"}, {"dra_claim_name"}),
        ("lean", {"gpu", "UUID", "Hostname"}, {"pci_bus_id", "modelName", "device", "pod"}),
    ],
)
def test_a_preset_says_which_labels_ride_and_the_info_row_has_them_all(
    node: SimulatedNode, preset: str, present: set[str], absent: set[str]
) -> None:
    uuid = node.gpu(0).uuid
    plugin = holdings.plugin("nvidia.com/gpu", uuid)
    node.kubelet.set_pods([holdings.pod("train", holdings.container(plugins=[plugin]))])
    with exporter_of(node, f"--labels={preset}") as exporter:
        exporter.wait_shows(NVML_UP, 'pod="train"', f"{TEMPERATURE}{{")
        (row,) = samples(exporter, TEMPERATURE, UUID=uuid)
        assert present <= row.keys()
        assert not absent & row.keys()
        (info,) = samples(exporter, "draguard_device_allocation_info", UUID=uuid)
        assert (info["pod"], info["resource"]) == ("train", "nvidia.com/gpu")


def test_a_cap_on_series_is_kept_to_and_seen(node: SimulatedNode) -> None:
    cap = 50
    with exporter_of(node, f"--max-series={cap}") as exporter:
        exporter.wait_shows("DCGM_FI_DEV_SM_CLOCK{", 'draguard_series_dropped{family="')
        found = read_strictly(fetch(exporter, TEXT)[1], TEXT)
        dropped = exporter.series("draguard_series_dropped")
    assert sum(len(rows) for name, rows in found.items() if name.startswith("DCGM_")) <= cap
    assert sum(dropped.values()) > 50
    assert len(found["DCGM_FI_DEV_SM_CLOCK"]) == 3
    for kept in ("draguard_gpu_up", "draguard_gpu_recovery_action"):
        assert len(found[kept]) == 3


def test_what_held_the_clocks_down_and_xids_are_counted_for_rates(
    node: SimulatedNode, mounted: Mounted, exporter: Exporter
) -> None:
    clocks, xids = "DCGM_EXP_CLOCK_EVENTS_TOTAL", "DCGM_EXP_XID_ERRORS_TOTAL"
    mounted.swap(rows_of(clocks, xids, kind="counter"))
    exporter.wait_shows(f"{clocks}{{")
    uuid = node.gpu(0).uuid

    def counted(family: str, *marks: str) -> float:
        series = exporter.series(family).items()
        return sum(
            value for labels, value in series if all(mark in labels for mark in (uuid, *marks))
        )

    for times in (1, 2):
        node.set_value(0, "clocks_event_reasons", 0x24)
        wait_for(lambda times=times: counted(clocks, 'clock_event="sw_thermal"') == times)
        node.set_value(0, "clocks_event_reasons", 0x1)
        wait_for(lambda times=times: counted(clocks, 'clock_event="gpu_idle"') == times)
    assert counted(clocks) == 2 + 2 + 2
    node.inject_xid(0, 31, kernel=False)
    wait_for(lambda: counted(xids, 'xid="31"') == 1)


CONFIG = """\
version: 2
metrics:
  fields:
    - {name: DCGM_FI_DEV_POWER_USAGE, prometheusType: gauge, help: Power}
    - {name: DCGM_EXP_OF_NEXT_YEAR, prometheusType: counter, help: x}
sources: {dcgm: {watch: {maxKeepAge: 10m}}}
collections:
  - {name: scrape, every: 30s, metrics: {include: ["*"]}}
  - {name: fast, every: 500ms, metrics: {include: [DCGM_FI_DEV_POWER_USAGE]}}
"""


def test_the_yaml_file_of_dcgm_exporter_starts_and_means_what_can_be_done(
    node: SimulatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = node.root / "config.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    monkeypatch.setenv("DCGM_EXPORTER_CONFIG_FILE", str(file))
    monkeypatch.setenv("DCGM_EXPORTER_OF_NEXT_YEAR", "1")
    with exporter_of(node, "--enable-pprof", "--web-of-next-year=1") as exporter:
        exporter.wait_shows(NVML_UP, f"{POWER}{{")
        exporter.wait_shows('draguard_counters_rows_left_out{reason="UnknownField"} 1')
        assert not exporter.shows(f"{TEMPERATURE}{{")
        reported = labels_of(exporter, "draguard_setting_ignored")
        exporter.wait_logged(f"line 5 of {file}: 'DCGM_EXP_OF_NEXT_YEAR' is not a DCGM field")
    assert {(labels["source"], labels["name"]): labels["reason"] for labels in reported} == {
        ("environment", "DCGM_EXPORTER_OF_NEXT_YEAR"): "Unknown",
        ("file", "collections[1].every"): "OneInterval",
        ("file", "sources.dcgm.watch.maxKeepAge"): "NotSupported",
        ("flag", "enable-pprof"): "NotSupported",
        ("flag", "web-of-next-year"): "Unknown",
    }
