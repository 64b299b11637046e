"""The fleet benchmark: objects as the project reads them, and a small fleet that is measured."""

from datetime import UTC, datetime

import msgspec
import pytest

from benchmarks import fleet_objects
from benchmarks.figures import Figure
from benchmarks.fleet.bench import POLICY, FleetBench, Size
from exporter.model.device import NVIDIAS, Device
from exporter.model.node_health import NodeHealth
from exporter.model.resource_slices import ResourceSlice, inventory
from kubeapi.lease import Lease
from remediator.diagnose.fault import Healthy, Sick
from remediator.model.claim import Claim, affected_pods
from remediator.plan.boards import bind_boards
from remediator.plan.view import AgentView, NodeView, SliceView
from remediator.policy.limits import LIFTED
from remediator.policy.load import read

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def view(failed: int | None = None) -> NodeView:
    published = msgspec.convert(fleet_objects.resource_slice(7, 8), ResourceSlice)
    report = msgspec.convert(fleet_objects.health(7, 8, NOW, failed), NodeHealth)
    return NodeView(
        node="node-00007",
        agent=AgentView(
            report=report,
        ),
        slices=SliceView(
            inventory=inventory([published], NVIDIAS),
        ),
    )


def test_a_healthy_report_has_the_size_of_a_real_one() -> None:
    body = msgspec.json.encode(fleet_objects.health(7, 8, NOW))

    assert 3 * 1024 <= len(body) <= 8 * 1024


def test_every_gpu_of_a_healthy_node_is_judged_healthy() -> None:
    judged = bind_boards(view(), NOW)

    assert len(judged) == 8
    assert all(isinstance(board.verdict, Healthy) for board in judged)


def test_the_failed_gpu_is_judged_sick_and_its_siblings_healthy() -> None:
    judged = bind_boards(view(failed=3), NOW)
    sick = [board.uuid for board in judged if isinstance(board.verdict, Sick)]

    assert sick == [fleet_objects.gpu_uuid(7, 3)]


def test_a_claim_holds_a_published_device_for_a_pod() -> None:
    body = fleet_objects.claim(12) | {"status": fleet_objects.allocation(12, 7, 2)}
    device = Device(fleet_objects.DRIVER, "node-00007", "gpu-2")

    (hold,) = affected_pods([msgspec.convert(body, Claim)], frozenset({device}))
    assert hold.pod == "train-000012"


def test_a_lease_says_when_its_agent_was_alive() -> None:
    found = msgspec.convert(fleet_objects.lease(7, NOW), Lease)

    assert found.spec.renew_time == NOW


def test_the_policy_enforces_and_holds_nothing_back() -> None:
    policy = read(POLICY)

    assert {row.mode for row in policy.rows} == {"enforce"}
    assert policy.limits == LIFTED


@pytest.mark.verify
def test_a_small_fleet_can_be_measured_on_the_real_apiserver() -> None:
    size = Size(nodes=40, claims=40, sick=2, storm=10, steady=1.0)
    stated: list[str] = []
    with FleetBench(size, stated.append) as bench:
        (section,) = bench.measure()

    found: dict[str, Figure] = {figure.what: figure for figure in section.figures}
    assert found["objects loaded"].values == (160.0,)
    assert found["cold start to a correct plan"].values > (0.0,)
    assert found["until the last NoSchedule is stored"].values > (0.0,)
    assert len(found["draguard status"].values) == len(found["draguard incidents"].values) > 1
    # Ten rules and ten incidents at least, and each incident's status.
    assert found["writes until then"].values >= (30.0,)
