"""The fleet benchmark: objects as the project reads them, and a small fleet that is measured."""

from datetime import UTC, datetime

import msgspec
import pytest

from allocation.model.pods import Pod
from benchmarks import fleet_objects
from benchmarks.figures import Figure
from benchmarks.fleet import tenants
from benchmarks.fleet.__main__ import main
from benchmarks.fleet.bench import POLICY, FleetBench, Size
from benchmarks.fleet.explaining import CHANGES, SIGNALS, ExplainerBench, total
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
    status = fleet_objects.allocation(7, 2, "train-000012", fleet_objects.pod_uid(12))
    body = fleet_objects.claim("train-000012", "default") | {"status": status}
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


def test_pods_that_wait_are_of_many_kinds() -> None:
    kinds = {
        (tenants.waiting_count(number), *tenants.node_selector(number).values())
        for number in range(10 * tenants.KINDS)
    }

    assert len(kinds) == tenants.KINDS


@pytest.mark.parametrize(
    ("status", "node", "kind", "holds"),
    [
        (tenants.pod_that_runs(NOW), "node-00007", "Ready", "True"),
        (tenants.pod_that_waits(NOW, 300), "", "PodScheduled", "False"),
    ],
)
def test_the_explainer_reads_claim_node_and_state_of_a_pod(
    status: fleet_objects.Json, node: str, kind: str, holds: str
) -> None:
    body = tenants.pod("train-000012", "tenant-12", node=node) | {"status": status}

    pod = msgspec.convert(body, Pod)
    found = pod.condition(kind)
    assert (pod.claim_keys(), pod.spec.node_name) == (["tenant-12/train-000012"], node)
    assert found
    assert found.status == holds


PAGE = b"""\
# TYPE draguard_claims gauge
draguard_claims{dra_claim_namespace="a",state="Pending",reason="ClassMissing"} 2
draguard_claims{dra_claim_namespace="b",state="Pending",reason="ClassMissing"} 1
draguard_claims{dra_claim_namespace="b",state="Running",reason="Running"} 40
draguard_claims_older{reason="ClassMissing"} 7
draguard_explainer_unexplained_pods 3
"""


@pytest.mark.parametrize(
    ("family", "label", "expected"),
    [
        ("draguard_claims", "", 43),
        ("draguard_claims", 'reason="ClassMissing"', 3),
        ("draguard_explainer_unexplained_pods", "", 3),
        ("draguard_explainer_look_seconds", "", 0),
    ],
)
def test_samples_of_a_page_are_added_up(family: str, label: str, expected: float) -> None:
    assert total(PAGE, family, label) == expected


def test_before_and_explainer_are_two_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--before", "elsewhere", "--explainer"])

    assert "leave out --explainer" in capsys.readouterr().err


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


@pytest.mark.verify
def test_the_explainer_can_be_measured_on_a_small_fleet() -> None:
    size = Size(nodes=10, claims=80, sick=1, steady=1.0, waiting=40)
    stated: list[str] = []
    with ExplainerBench(size, stated.append, rounds=2) as bench:
        alone, beside = bench.measure()

    found: dict[str, Figure] = {figure.what: figure for figure in alone.figures + beside.figures}
    # Namespaces, Nodes with report, slice and Lease, and claims with their pods.
    assert found["objects loaded"].values == (100 + 4 * 10 + 2 * 80 + 2 * 40,)
    assert found["a list of all pods"].values > found["a list of all deviceclasses"].values
    assert found["start of the explainer until no pod is unexplained"].values > (0.0,)
    assert found["one look"].values > (0.0,)
    assert len(found["a new pod that waits until its reason is counted"].values) == CHANGES
    for state in SIGNALS:
        assert len(found[f"a GPU fails until NoSchedule is stored, explainer {state}"].values) == 2
