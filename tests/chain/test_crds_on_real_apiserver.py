"""What the real API server and the real kubectl make of our two objects."""

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from exporter.agent.report import outline
from exporter.model.node_health import NodeHealth, Summary
from kubeapi.client import ApiError
from tests.chain.scene import REPORTS, Scene
from tests.chain.test_taint_and_move import off_the_bus
from tests.exporter.agent.report.test_limits import REPORTS as DRAWN
from tests.lab.cluster import await_true
from tests.remediator.builders import gpu, report

LONG_AGO = "2026-01-01T00:00:00Z"


def test_kubectl_get_reads_well_at_a_glance(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    scene.remediator()
    sick = msgspec.structs.replace(
        report(off_the_bus(one)),
        summary=Summary(gpus=1, present=0, attention="GPU-a0000000: XID 79", sources_down="nvml"),
    )
    scene.write("node-a", sick)
    await_true("the device is tainted", lambda: scene.phase() in ("Tainted", "Evicting", "Drained"))

    kubectl = scene.cluster.plane.kubectl
    reports, incidents = kubectl("get", "ndh"), kubectl("get", "di")

    header, row = reports.splitlines()
    assert header.split() == ["NAME", "GPUS", "PRESENT", "ATTENTION", "SOURCES-DOWN", "AGE"]
    assert row.split()[:7] == ["node-a", "1", "0", "GPU-a0000000:", "XID", "79", "nvml"]
    header, row = incidents.splitlines()
    assert header.split() == ["NAME", "NODE", "FAULT", "SCOPE", "PHASE", "MODE", "AGE"]
    words = row.split()
    assert words[:5] == [
        "gpu-a0000000-0000-0000-0000-000000000000-1",
        "node-a",
        "xid-79",
        "whole",
        "GPU",
    ]
    assert "XID code" in kubectl("explain", "ndh.status.gpus.xids.code")


@pytest.mark.parametrize(
    ("status", "complaint"),
    [
        ({"gpus": [{"presence": "Present"}]}, "uuid"),
        (
            {"gpus": [{"uuid": "GPU-1", "presence": "Maybe", "presenceTransitionTime": LONG_AGO}]},
            "Unsupported value",
        ),
        (
            {"gpus": [{"uuid": "x", "presence": "Lost", "presenceTransitionTime": LONG_AGO}]},
            "should match",
        ),
        ({"bootID": "b" * 65}, "Too long"),
        ({"sources": [{"name": "nvml", "state": "Up"}] * 17}, "Too many"),
        ({"xidsDropped": -1}, "greater than or equal to 0"),
        ({"schemaVersion": "one"}, "must be of type integer"),
    ],
)
def test_a_report_that_breaks_the_schema_is_refused(
    scene: Scene, status: dict[str, object], complaint: str
) -> None:
    scene.node("node-a", gpu(0))

    with pytest.raises(ApiError, match=complaint):
        scene.cluster.client.merge_patch(f"{REPORTS}/node-a/status", {"status": status})


@settings(
    max_examples=8,
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(DRAWN)
def test_every_report_that_was_cut_is_stored(scene: Scene, drawn: NodeHealth) -> None:
    scene.write("node-a", outline.finished(drawn))


def test_a_newer_agents_fields_are_dropped_and_the_rest_is_stored(scene: Scene) -> None:
    scene.node("node-a", gpu(0))

    scene.cluster.client.merge_patch(
        f"{REPORTS}/node-a/status", {"status": {"driverVersion": "600.1", "fromTheFuture": 1}}
    )

    stored = scene.cluster.get(f"{REPORTS}/node-a")["status"]
    assert stored["driverVersion"] == "600.1"
    assert "fromTheFuture" not in stored
