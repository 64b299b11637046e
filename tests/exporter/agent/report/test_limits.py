"""Any report, after it was cut, is one that the CRD takes: its schema is read from the file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from exporter.agent.report import limits, outline, reduced_report
from exporter.model.node_health import (
    FabricHealth,
    GpuHealth,
    Inventory,
    MemoryHealth,
    MemorySlices,
    MigInstance,
    NodeHealth,
    NvlinkHealth,
    PublishedDevice,
    RecoveryAction,
    SourceHealth,
    SwitchHealth,
    SxidRecord,
    XidRecord,
)

CRD = Path(__file__).parents[4] / "deploy" / "crds" / "nodedevicehealths.yaml"
NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)
RANGES = {"int32": 2**31 - 1, "int64": 2**63 - 1}
Schema = dict[str, Any]

TEXTS = st.one_of(st.text(max_size=4), st.integers(1, 2000).map(lambda size: "x" * size))
NUMBERS = st.sampled_from([-1, 0, 1, 7, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**70])
MAYBE = st.none() | NUMBERS
BUSES = st.sampled_from(["0000:c2:00.0", "", "no address", "0000:c2:00.0" * 2])
MOMENTS = st.integers(0, 10**6).map(lambda seconds: NOW + timedelta(seconds=seconds))


def lists(each: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    """Few of them, or one of them far too often."""
    often = st.tuples(each, st.integers(1, most)).map(lambda drawn: (drawn[0],) * drawn[1])
    return st.lists(each, max_size=3).map(tuple) | often


SOURCES = st.builds(
    SourceHealth, name=TEXTS, state=st.sampled_from(["Up", "Down"]), reason=TEXTS, message=TEXTS
)
XIDS = st.builds(
    XidRecord,
    code=st.sampled_from([13, 79, 94]) | NUMBERS,
    count=NUMBERS,
    first_seen=MOMENTS,
    last_seen=MOMENTS,
    epoch=NUMBERS,
    gi=MAYBE,
    ci=MAYBE,
    gi_profile_id=MAYBE,
    placement=st.none() | st.builds(MemorySlices, start=NUMBERS, size=NUMBERS),
    pid=MAYBE,
    process=TEXTS,
    message=TEXTS,
    caused_by=MAYBE,
    sources=lists(TEXTS, 9),
)


def gpus(xids: int, links: int, slices: int) -> st.SearchStrategy[GpuHealth]:
    return st.builds(
        GpuHealth,
        uuid=st.sampled_from(["GPU-1", "GPU-2", "unknown-0000:01:00.0", "MIG-1", "", "GPU-" * 99]),
        presence=st.sampled_from(["Present", "Lost", "Unknown"]),
        presence_since=MOMENTS,
        presence_reason=TEXTS,
        pci_bus_id=BUSES,
        serial=TEXTS,
        minor=MAYBE,
        product=TEXTS,
        recovery_action=st.builds(RecoveryAction, value=MAYBE, logged=MAYBE),
        epoch=NUMBERS,
        xids=lists(XIDS, xids),
        xids_dropped=NUMBERS,
        memory=st.builds(MemoryHealth, dbe_volatile=MAYBE, dbe_aggregate=MAYBE),
        fabric=st.builds(
            FabricHealth,
            state=MAYBE,
            status=MAYBE,
            health_mask=MAYBE,
            clique=MAYBE,
            cluster_uuid=TEXTS,
        ),
        nvlink=st.builds(NvlinkHealth, up=lists(NUMBERS, links), failed=lists(NUMBERS, links)),
        instances=lists(
            st.builds(
                MigInstance,
                uuid=st.sampled_from(["MIG-1", "GPU-1"]),
                gi=NUMBERS,
                ci=NUMBERS,
                profile=TEXTS,
                placement_start=MAYBE,
                placement_size=MAYBE,
            ),
            slices,
        ),
        last_published=lists(
            st.builds(
                PublishedDevice, driver=TEXTS, pool=TEXTS, device=TEXTS, placement_size=MAYBE
            ),
            slices,
        ),
    )


SWITCHES = st.builds(
    SwitchHealth,
    pci_bus_id=BUSES,
    sxids=lists(
        st.builds(
            SxidRecord,
            code=NUMBERS,
            count=NUMBERS,
            first_seen=MOMENTS,
            last_seen=MOMENTS,
            links=lists(NUMBERS, 99),
            message=TEXTS,
        ),
        30,
    ),
)
REPORTS = st.builds(
    NodeHealth,
    boot_id=TEXTS,
    agent_version=TEXTS,
    driver_version=TEXTS,
    observed_at=MOMENTS,
    sources=lists(SOURCES, 40),
    gpus=lists(gpus(1, 1, 1), 140) | st.tuples(gpus(300, 99, 50)),
    switches=lists(SWITCHES, 40),
    inventory=st.builds(Inventory, seen=MAYBE, missing=lists(TEXTS, 60)),
    xids_dropped=NUMBERS,
)


def schema() -> Schema:
    definition: Schema = yaml.safe_load(CRD.read_text(encoding="utf-8"))
    (version,) = definition["spec"]["versions"]
    found: Schema = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    return bounded(found)


def bounded(part: Schema) -> Schema:
    """Say formats of integers as bounds, and that a field is not there unless it is declared."""
    part = dict(part)
    if part.get("format") in RANGES:
        part["maximum"] = RANGES[part["format"]]
    if "properties" in part:
        part["properties"] = {name: bounded(schema) for name, schema in part["properties"].items()}
        part["additionalProperties"] = False
    if "items" in part:
        part["items"] = bounded(part["items"])
    return part


TAKES: Any = jsonschema.Draft7Validator(schema())


def misfit(report: NodeHealth) -> str:
    """Return the first thing that an API server would mind, "" when there is none."""
    error = next(TAKES.iter_errors(msgspec.json.decode(msgspec.json.encode(report))), None)
    return f"{error.json_path}: {error.message[:200]}" if error else ""


@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(REPORTS, st.sampled_from(reduced_report.SIZES))
def test_every_report_that_was_cut_is_one_that_the_crd_takes(
    report: NodeHealth, size: reduced_report.Size
) -> None:
    written = reduced_report.reduced(outline.finished(report), size)

    assert misfit(written) == ""


def gpu(*records: XidRecord, uuid: str = "GPU-1", presence: str = "Present") -> GpuHealth:
    raw = {"uuid": uuid, "presence": presence, "presenceTransitionTime": NOW}
    return msgspec.structs.replace(msgspec.convert(raw, GpuHealth), xids=records)


def xid(code: int, **fields: Any) -> XidRecord:
    return XidRecord(code=code, count=1, first_seen=NOW, last_seen=NOW, **fields)


def test_a_report_within_its_limits_stays_as_it_is() -> None:
    report = NodeHealth(gpus=(gpu(xid(79)),))

    assert limits.within(report) is report


def test_the_most_severe_records_stay_and_the_others_are_counted() -> None:
    many = tuple(xid(13, gi=number) for number in range(300))
    found = limits.within(NodeHealth(gpus=(gpu(*many, xid(79)),)))

    assert found.gpus[0].xids[-1].code == 79
    assert (len(found.gpus[0].xids), found.gpus[0].xids_dropped, found.xids_dropped) == (
        256,
        45,
        45,
    )
    assert found.truncated == ("gpus.xids",)


def test_too_many_records_that_are_one_object_are_too_many_all_the_same() -> None:
    record = SxidRecord(code=1, severity="Fatal", count=1, first_seen=NOW, last_seen=NOW)
    switch = SwitchHealth(pci_bus_id="0000:c2:00.0", sxids=(record,) * 19)
    found = limits.within(NodeHealth(switches=(switch,)))
    assert len(found.switches[0].sxids) == 16


def test_a_lost_gpu_stays_where_there_are_too_many() -> None:
    others = (gpu(uuid=f"GPU-{number}", presence="Unknown") for number in range(200))
    found = limits.within(NodeHealth(gpus=(*others, gpu(uuid="GPU-lost", presence="Lost"))))

    assert (len(found.gpus), found.gpus[-1].uuid) == (128, "GPU-lost")
    assert found.truncated == ("gpus",)


@pytest.mark.parametrize("state", ["up", "down", "failed"])
def test_of_links_as_many_stay_as_the_crd_takes(state: str) -> None:
    links = schema()["properties"]["gpus"]["items"]["properties"]["nvlink"]["properties"]
    most: int = links[state]["maxItems"]
    wide = msgspec.structs.replace(
        gpu(), nvlink=msgspec.convert({state: list(range(most + 1))}, NvlinkHealth)
    )

    found = limits.within(NodeHealth(gpus=(wide,)))

    assert getattr(found.gpus[0].nvlink, state) == tuple(range(most))
    assert found.truncated == (f"gpus.nvlink.{state}",)
    assert misfit(found) == ""


def test_what_is_cut_is_named() -> None:
    one = msgspec.structs.replace(gpu(xid(79, message="m" * 500)), serial="s" * 100, minor=-1)
    found = limits.within(NodeHealth(gpus=(one,)))

    assert found.truncated == ("gpus.minor", "gpus.serial", "gpus.xids.message")
    assert (found.gpus[0].minor, len(found.gpus[0].serial)) == (None, 96)
    assert found.gpus[0].xids[0].code == 79


def test_a_count_that_is_too_large_is_the_largest_and_not_unknown() -> None:
    worn = msgspec.structs.replace(gpu(), memory=MemoryHealth(dbe_volatile=2**64 - 1))

    assert limits.within(NodeHealth(gpus=(worn,))).gpus[0].memory.dbe_volatile == 2**63 - 1


def test_what_is_left_out_of_a_smaller_report_is_named_and_its_faults_stay() -> None:
    whole = outline.finished(NodeHealth(gpus=(gpu(xid(79, message="fallen off the bus")),)))
    essential, bare = (reduced_report.reduced(whole, size) for size in ("Essential", "Bare"))

    (one,) = essential.gpus
    assert ("nvlink" in one.omitted, one.xids[0].code, one.xids[0].message) == (True, 79, "")
    assert (bare.gpus, "gpus" in bare.omitted, bare.cursor) == ((), True, NodeHealth().cursor)


def test_sizes_shrink_to_the_smallest_and_the_whole_one_is_tried_again_later() -> None:
    sizing = reduced_report.Sizing(retry=450.0)

    assert [(sizing.refused(10.0), sizing.size) for _ in range(3)] == [
        (True, "Essential"),
        (True, "Bare"),
        (False, "Bare"),
    ]
    sizing.look(459.0)
    assert sizing.size == "Bare"
    sizing.look(460.0)
    assert sizing.size == "Whole"
