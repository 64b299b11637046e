"""What is served: names and labels as dashboards know them, and every form well-formed.

UPDATE_GOLDEN=1 rewrites tests/golden/.
"""

import gzip
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import parser as text_format
from prometheus_client.openmetrics import parser as strict_format

from exporter import ledger
from exporter.claims import Holder, Holders
from exporter.metrics import METRICS
from exporter.page import page
from exporter.readings import ClaimDevice, GpuReading, Hang, Observation
from exporter.report import SourceHealth
from exporter.self_metrics import SelfMetrics
from exporter.snapshot import Snapshot
from tests.exporter.worlds import START, Sensed, at, gpu, mig_gpu, seen, unseen

# The parsers carry no types.
text_families: Any = vars(text_format)["text_string_to_metric_families"]
strict_families: Any = vars(strict_format)["text_string_to_metric_families"]
GOLDEN = Path(__file__).parents[1] / "golden"
VALUES = {
    "product": "NVIDIA H100 80GB HBM3",
    "gpu_util": 97,
    "mem_util": 41,
    "fb_used": 1024 << 20,
    "fb_free": 80000 << 20,
    "temperature": 54,
    "power": 612345,
    "remap_failure": False,
}


def holder(container: str, device: str) -> Holder:
    claim = ClaimDevice(f"{container}-claim", "team", "gpu.nvidia.com", "node-a", device)
    return Holder(namespace="team", pod="train-0", container=container, dra=claim)


def snapshot(observation: Observation, *, signals: bool = True) -> Snapshot:
    report = ledger.observe(ledger.begin("boot-1", "1", START), seen(*EVERY))
    sensed = Sensed()
    told = [sensed.kmsg(1, 79), sensed.nvml(2, 94, 2, gi=5, ci=0)] if signals else []
    report = ledger.take(report, told, run="run-1", kernel_sequence=None)
    report = ledger.observe(report, observation)
    return Snapshot(
        node="node-a",
        at=at(30),
        report=report,
        nvml=observation.nvml,
        hang=observation.hang,
        holders=Holders(
            {
                "GPU-1": (holder("main", "gpu-0"),),
                "MIG-2-5": (holder("a", "gpu-1-mig"), holder("b", "gpu-1-mig")),
            }
        ),
        agent_sources=(SourceHealth(name="resourceslices", up=True),),
        rejected={"malformed": 2},
        join_misses={"no_uuid": 1},
    )


EVERY: tuple[GpuReading, ...] = (
    gpu(1, **VALUES),
    mig_gpu(2, product="NVIDIA H100 80GB HBM3", power=200000, recovery_action=1),
    gpu(3, hung_call="nvmlDeviceGetTemperature"),
    gpu(4, lost=True),
)


def text(observation: Observation) -> str:
    return page(snapshot(observation)).text.decode()


def samples(body: str, family: str) -> list[str]:
    return [line for line in body.splitlines() if line.startswith(family + "{")]


@pytest.mark.parametrize("form", ["text", "openmetrics"])
def test_the_page_is_as_recorded(form: str) -> None:
    rendered = page(snapshot(seen(*EVERY, seconds=30)))
    body = rendered.text if form == "text" else rendered.openmetrics
    golden = GOLDEN / f"node_page.{form}"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_bytes(body)
    assert body.decode() == golden.read_text(encoding="utf-8")


def test_both_forms_are_read_by_their_strict_parsers_with_the_exporters_own_families() -> None:
    own = SelfMetrics("1")
    rendered = page(snapshot(seen(*EVERY, seconds=30)), own.text(), own.openmetrics())
    plain = {one.name for one in text_families(rendered.text.decode())}
    strict = list(strict_families(rendered.openmetrics.decode()))
    # The text parser names a counter's family without _total.
    assert {metric.name.removesuffix("_total") for metric in METRICS} <= plain
    assert {one.name for one in strict} == plain
    assert "draguard_report_writes" in plain


def test_labels_have_dcgm_exporters_names_and_order() -> None:
    (line,) = samples(text(seen(*EVERY)), "DCGM_FI_DEV_GPU_TEMP")
    assert re.findall(r'(\w+)="', line) == [
        "gpu",
        "UUID",
        "pci_bus_id",
        "device",
        "modelName",
        "Hostname",
        "pod",
        "namespace",
        "container",
        "dra_claim_name",
        "dra_claim_namespace",
        "dra_driver_name",
        "dra_pool_name",
        "dra_device_name",
    ]
    assert 'pci_bus_id="00000000:01:00.0"' in line
    assert line.endswith(" 54")


def test_a_slice_carries_its_parents_uuid_and_its_own_memory() -> None:
    body = text(seen(*EVERY))
    lines = [line for line in samples(body, "DCGM_FI_DEV_FB_USED") if "GPU_I_ID" in line]
    assert [line.rpartition(" ")[2] for line in lines] == ["3", "5"]
    assert all('UUID="GPU-2"' in line and 'GPU_I_PROFILE="1g.10gb"' in line for line in lines)


def test_one_sum_over_a_family_counts_no_device_twice() -> None:
    """A slice that two containers share is one series; the info family has two rows."""
    body = text(seen(*EVERY))
    shared = [line for line in samples(body, "DCGM_FI_DEV_FB_USED") if 'GPU_I_ID="5"' in line]
    assert len(shared) == 1
    assert 'pod="train-0"' in shared[0]
    assert "container=" not in shared[0]
    rows = samples(body, "draguard_device_allocation_info")
    assert sum('dra_mig_device_uuid="MIG-2-5"' in row for row in rows) == 2


def test_what_could_not_be_read_has_no_sample() -> None:
    blank = gpu(1, **{name: None for name in VALUES if name != "product"})
    body = text(seen(blank))
    assert not samples(body, "DCGM_FI_DEV_GPU_TEMP")
    assert not samples(body, "DCGM_FI_DEV_ROW_REMAP_FAILURE")


def test_while_nvml_is_down_readings_vanish_and_every_gpu_stays_visible() -> None:
    body = text(unseen(30))
    assert not samples(body, "DCGM_FI_DEV_GPU_TEMP")
    assert not samples(body, "draguard_gpu_recovery_action")
    assert 'draguard_source_up{source="nvml",reason="Crashed"} 0' in body
    assert len(samples(body, "draguard_gpu_info")) == 4
    # Lost was found before and stays; of the others nothing is known.
    assert [line.rpartition(" ")[2] for line in samples(body, "draguard_gpu_up")] == ["0"]


def test_a_hang_is_named_with_gpu_and_call() -> None:
    hang = Hang("nvmlDeviceGetTemperature", 0, "GPU-1")
    body = text(msgspec.structs.replace(unseen(30), hang=hang))
    named = 'draguard_source_hang_info{gpu="0",UUID="GPU-1",call="nvmlDeviceGetTemperature"} 1'
    assert named in body
    up = {line.split('"')[1]: line[-1] for line in samples(body, "draguard_gpu_up")}
    assert up == {"GPU-1": "0", "GPU-4": "0"}


def test_the_last_xid_is_told_with_its_meaning() -> None:
    lines = samples(text(seen(*EVERY)), "DCGM_FI_DEV_XID_ERRORS")
    assert [line.rpartition(" ")[2] for line in lines] == ["79", "0", "0", "94"]
    assert 'err_code="79"' in lines[0]


def test_gzip_is_the_same_page() -> None:
    rendered = page(snapshot(seen(*EVERY)))
    assert gzip.decompress(rendered.text_gzip) == rendered.text
    assert gzip.decompress(rendered.openmetrics_gzip) == rendered.openmetrics
    assert rendered.openmetrics.endswith(b"# EOF\n")
    assert rendered.openmetrics.count(b"# EOF") == 1
