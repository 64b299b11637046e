"""Series of NVSwitches, their links, CPUs and cores, in dcgm-exporter's names and labels."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from exporter.metrics.labels import Options
from exporter.metrics.snapshot import Snapshot
from exporter.model.readings import DcgmReading, NodePart
from tests.exporter.metrics.pages import rendered, shown, snapshot
from tests.exporter.worlds import START, gpu, seen

ROWS = (
    "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT,gauge,x",
    "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX,gauge,x",
    "DCGM_FI_DEV_CPU_TEMP_CURRENT,gauge,x",
    "DCGM_FI_DEV_CPU_UTIL_TOTAL,gauge,x",
)
PARTS = (
    NodePart(kind="switch", id=3, values={858: 45, 1524: "1.2.3"}),
    NodePart(kind="switch", id=0, values={858: 41}),
    NodePart(kind="link", id=7, of=3, values={780: 12}),
    NodePart(kind="cpu", id=1, serial="0x1A", values={1110: 47.5, 1100: 0.5}),
    NodePart(kind="core", id=72, of=1, values={1100: 0.25}),
)
HOST = {"Hostname": "node-a"}


def page_of(
    *parts: NodePart, rows: Sequence[str] = ROWS, driver: str = "", **options: Any
) -> Snapshot:
    return snapshot(
        seen(gpu(1), driver=driver),
        dcgm=DcgmReading(at=START, node_parts=parts),
        shown=shown(*rows, options=msgspec.convert(options, Options)),
    )


def test_each_has_the_labels_that_dcgm_exporter_gives_it() -> None:
    found = rendered(page_of(*PARTS))
    assert found["DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT"] == [
        ({"nvswitch": "nvswitch3"} | HOST, 45),
        ({"nvswitch": "nvswitch0"} | HOST, 41),
    ]
    assert found["DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX"] == [
        ({"nvlink": "7", "nvswitch": "nvswitch3"} | HOST, 12)
    ]
    assert found["DCGM_FI_DEV_CPU_TEMP_CURRENT"] == [
        ({"cpu": "1", "cpu_serial": "0x1A"} | HOST, 47.5)
    ]
    assert found["DCGM_FI_DEV_CPU_UTIL_TOTAL"] == [
        ({"cpu": "1", "cpu_serial": "0x1A"} | HOST, 0.5),
        ({"cpucore": "72", "cpu": "1"} | HOST, 0.25),
    ]


def test_labels_stand_in_their_order() -> None:
    text = rendered(page_of(*PARTS))
    (labels, _), *_ = text["DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX"]
    assert list(labels) == ["nvlink", "nvswitch", "Hostname"]
    (labels, _), (core, _) = text["DCGM_FI_DEV_CPU_UTIL_TOTAL"]
    assert list(labels) == ["cpu", "cpu_serial", "Hostname"]
    assert list(core) == ["cpucore", "cpu", "Hostname"]


def test_rows_of_type_label_ride_on_what_reported_them() -> None:
    rows = (
        *ROWS,
        "DCGM_FI_DRIVER_VERSION,label,x",
        "DCGM_FI_DEV_NVSWITCH_FIRMWARE_VERSION,label,x",
    )
    found = rendered(page_of(*PARTS, rows=rows, driver="580.95.05"))
    driver = {"DCGM_FI_DRIVER_VERSION": "580.95.05"}
    assert found["DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT"] == [
        (
            {"nvswitch": "nvswitch3", "DCGM_FI_DEV_NVSWITCH_FIRMWARE_VERSION": "1.2.3"}
            | HOST
            | driver,
            45,
        ),
        ({"nvswitch": "nvswitch0"} | HOST | driver, 41),
    ]
    lean = rendered(page_of(*PARTS, rows=rows, driver="580.95.05", preset="lean"))
    assert lean["DCGM_FI_DEV_CPU_TEMP_CURRENT"] == [({"cpu": "1"} | HOST, 47.5)]


@pytest.mark.parametrize("label", ["hostname", "none"])
def test_the_hosts_label_is_spelled_as_everywhere(label: str) -> None:
    found = rendered(page_of(PARTS[1], hostname_label=label))
    host = {"hostname": "node-a"} if label == "hostname" else {}
    assert found["DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT"] == [
        ({"nvswitch": "nvswitch0"} | host, 41)
    ]


def test_what_was_not_read_has_no_sample() -> None:
    found = rendered(page_of(NodePart(kind="switch", id=0, values={859: 90})))
    assert "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT" not in found
    unanswered = msgspec.structs.replace(page_of(*PARTS), seen=seen(gpu(1)))
    assert not set(rendered(unanswered)) & {row.partition(",")[0] for row in ROWS}
