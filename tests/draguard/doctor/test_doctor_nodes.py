"""The doctor knows each node's container runtime, its driver beside its GPUs, and driver pods."""

from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest

from draguard.doctor.check import Check
from draguard.doctor.nodes import drivers, runtimes
from draguard.doctor.pod_status import Pod
from draguard.doctor.pods import driver_pods, own_pods
from draguard.doctor.running import kernel_logs
from exporter.model.node_health import NodeDeviceHealth, NodeHealth, SourceHealth
from exporter.model.node_health_words import Via
from kubeapi.types import ObjectMeta
from simulator.cluster.workloads import pod, pod_spec
from tests.draguard.doctor.objects import NOW, stored_node, stored_pod
from tests.draguard.fleet import Fleet
from tests.draguard.printed import printed
from tests.lab.cluster import Json
from tests.remediator.builders import gpu


@pytest.mark.parametrize(
    ("runtime", "state", "says"),
    [
        ("containerd://2.1.4", "ok", "containerd 2.1.4 on 1 node: CDI is on by default"),
        ("containerd://1.7.27", "warn", "only with enable_cdi = true"),
        ("containerd://1.6.20~ds1", "bad", "containers start without the devices"),
        ("cri-o://1.31.2", "ok", "cri-o 1.31.2"),
        ("cri-o://1.22.0", "bad", "does not do CDI"),
        ("docker://28.0.1", "unknown", "whether docker 28.0.1 on node-a does CDI is unknown"),
        ("", "unknown", "unknown on node-a"),
    ],
)
def test_a_container_runtime_is_judged_by_whether_it_does_cdi(
    runtime: str, state: str, says: str
) -> None:
    (found,) = runtimes([stored_node(runtime=runtime)])

    assert (found.state, says in found.says) == (state, True)


def test_nodes_with_one_runtime_are_one_line() -> None:
    found = list(
        runtimes([stored_node(f"node-{n}", runtime="containerd://1.7.1") for n in range(5)])
    )

    assert [check.state for check in found] == ["warn"]
    assert "on node-0, node-1, node-2 and 2 more" in found[0].says


def report(
    driver: str, product: str = "NVIDIA H100 80GB HBM3", name: str = "a"
) -> NodeDeviceHealth:
    status = NodeHealth(driver_version=driver, gpus=(gpu(0, product=product),))
    return NodeDeviceHealth(metadata=ObjectMeta(name=name), status=status)


@pytest.mark.parametrize(
    ("driver", "product", "states"),
    [
        ("580.65.06", "NVIDIA H100 80GB HBM3", ["ok"]),
        ("550.54.15", "NVIDIA H100 80GB HBM3", ["warn", "ok"]),
        ("515.65.01", "NVIDIA H100 80GB HBM3", ["bad", "warn", "ok"]),
        ("565.57.01", "NVIDIA B200", ["bad", "ok"]),
        ("570.86.15", "NVIDIA GB200", ["ok"]),
        ("570.86.15", "NVIDIA GB300", ["bad", "ok"]),
        ("580.65.06", "a product of next year", ["ok"]),
        ("515.65.01", "NVIDIA A100-SXM4-80GB", ["warn", "ok"]),
        ("", "NVIDIA H100 80GB HBM3", []),
    ],
)
def test_a_driver_is_compared_with_its_gpus(driver: str, product: str, states: list[str]) -> None:
    assert [check.state for check in drivers([report(driver, product)])] == states


@pytest.mark.parametrize(
    ("driver", "publishing", "states"),
    [
        ("570.133.20", {"a"}, ["warn", "ok"]),
        ("580.65.06", {"a"}, ["ok"]),
        ("570.133.20", {"b"}, ["ok"]),
    ],
)
def test_a_driver_is_compared_with_the_dra_driver_where_that_publishes(
    driver: str, publishing: set[str], states: list[str]
) -> None:
    found = list(drivers([report(driver)], publishing))

    assert [check.state for check in found] == states
    assert found[0].state == "ok" or found[0].remedy == "install driver R580 or newer"


def test_drivers_that_differ_are_a_matrix_and_the_odd_nodes_are_named() -> None:
    versions = {"a": "580.65.06", "b": "580.65.06", "c": "575.57.08"}
    (found,) = drivers([report(version, name=name) for name, version in versions.items()])

    assert found == Check(
        "driver",
        "warn",
        "versions differ: 580.65.06 on 2 nodes, 575.57.08 on 1 node",
        "finish the upgrade, or roll it back, on c",
    )


def crashing(reason: str = "CrashLoopBackOff", *, initial: bool = False) -> Pod:
    return stored_pod(
        {"restartCount": 7, "state": {"waiting": {"reason": reason}}},
        name="nvidia-driver-daemonset-x",
        namespace="gpu-operator",
        container="nvidia-driver-ctr",
        initial=initial,
    )


@pytest.mark.parametrize("initial", [False, True])
def test_a_driver_pod_that_crash_loops_is_named_with_its_log(initial: bool) -> None:
    (found,) = driver_pods([crashing(initial=initial)])

    assert found.state == "bad"
    assert "gpu-operator/nvidia-driver-daemonset-x on node-a: container nvidia-driver-ctr: " in (
        found.says
    )
    assert "CrashLoopBackOff, 7 restarts" in found.says
    assert found.remedy.endswith("logs nvidia-driver-daemonset-x -c nvidia-driver-ctr --previous")


ERROR: Json = {"terminated": {"reason": "Error", "exitCode": 1}}
KILLED: Json = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
RUNS: Json = {"running": {"startedAt": "2026-11-26T11:59:00Z"}}


@pytest.mark.parametrize(
    ("status", "phase", "age", "says"),
    [
        ({"state": RUNS, "lastState": ERROR, "restartCount": 17}, "Running", 1, "after Error, 17"),
        ({"state": ERROR}, "Running", 1, "container a: Error"),
        ({"state": {"terminated": {"exitCode": 2}}}, "Running", 1, "container a: Error"),
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, "Pending", 11, "(Container"),
        ({"state": {"waiting": {"reason": "ImageInspectError"}}}, "Pending", 1, "ImageInspect"),
        ({"state": {"waiting": {"reason": "RegistryUnavailable"}}}, "Pending", 1, "RegistryUn"),
        ({}, "Failed", 1, "p on node-a: Failed"),
    ],
)
def test_a_driver_pod_that_does_not_work_is_named_between_back_offs_as_well(
    status: Json, phase: str, age: int, says: str
) -> None:
    (found,) = driver_pods(
        [stored_pod(status, phase, container="a", age=timedelta(minutes=age))], NOW
    )

    assert found.state == "bad"
    assert says in found.says
    assert found.remedy.startswith("kubectl -n n ")


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ({"state": RUNS, "ready": True, "lastState": ERROR, "restartCount": 17}, "Running"),
        ({"state": RUNS}, "Running"),
        (
            {
                "state": RUNS,
                "lastState": {"terminated": {"reason": "Unknown", "exitCode": 255}},
                "restartCount": 1,
            },
            "Running",
        ),
        ({"state": {"terminated": {"reason": "Completed"}}}, "Running"),
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, "Pending"),
    ],
)
def test_a_driver_pod_that_works_or_begins_is_ok(status: Json, phase: str) -> None:
    (found,) = driver_pods([stored_pod(status, phase, age=timedelta(minutes=9))], NOW)

    assert found.state == "ok"
    assert ("1 just created" in found.says) == (phase == "Pending")


def test_a_driver_pod_that_is_being_deleted_is_not_judged() -> None:
    failing = stored_pod({"state": ERROR})
    meta = msgspec.structs.replace(failing.metadata, deletion_timestamp=NOW)

    assert list(driver_pods([msgspec.structs.replace(failing, metadata=meta)], NOW)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("sensor", "exporter.sensor"), ("agent", "exporter.agent"), ("remediator", "remediator")],
)
@pytest.mark.parametrize(
    ("ready", "waiting", "state"),
    [(True, "", "warn"), (False, "", "bad"), (False, "CrashLoopBackOff", "bad")],
)
def test_a_pod_of_ours_that_was_killed_for_its_memory_is_named_with_the_limit(
    name: str, value: str, ready: bool, waiting: str, state: str
) -> None:
    status: Json = {
        "ready": ready,
        "restartCount": 30,
        "state": {"waiting": {"reason": waiting}} if waiting else RUNS,
        "lastState": KILLED,
    }
    (found,) = own_pods([stored_pod(status, container=name)], NOW)

    assert found.state == state
    assert "OOMKilled, 30 restarts" in found.says
    assert found.remedy.startswith(f"raise {value}.resources.limits.memory")


@pytest.mark.parametrize(("hours", "lines"), [(23, 1), (25, 0)])
def test_a_kill_of_the_day_before_is_over(hours: int, lines: int) -> None:
    at = NOW - timedelta(hours=hours)
    killed: Json = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at}}
    status: Json = {"ready": True, "restartCount": 1, "state": RUNS, "lastState": killed}

    assert len(list(own_pods([stored_pod(status)], NOW))) == lines


def of_exporter(status: Json) -> Pod:
    return stored_pod(
        status,
        name="draguard-exporter-x",
        namespace="draguard-system",
        container="sensor",
        node="gb200-0",
        account="draguard-exporter",
    )


EXEC_FORMAT = "exec /usr/bin/python3: exec format error\n"
"""The end of the log, where the kubelet takes it as the message: runc starts the container."""
LOG = "ERROR cannot connect: token not found, access denied\n" * 9 + "the last line\n"
NEVER_PULL = 'Container image "draguard-exporter:0.1.0" is not present with pull policy of Never'
NO_PLATFORM = 'failed to unpack image "r.example/x:0.1.0": no match for platform in manifest'


@pytest.mark.parametrize(
    ("reason", "message", "ended", "says", "remedy"),
    [
        ("ErrImagePull", NO_PLATFORM, "", "no match for platform", "architecture as well"),
        ("CrashLoopBackOff", "back-off 5m0s", EXEC_FORMAT, "exec format", "architecture as well"),
        ("CrashLoopBackOff", "back-off 5m0s", LOG, "the last line", "-c sensor --previous"),
        ("ImagePullBackOff", "401 Unauthorized", "", "401", "image.pullSecrets"),
        ("ImagePullBackOff", "manifest unknown", "", "manifest unknown", "image.registry"),
        (
            "ErrImageNeverPull",
            NEVER_PULL,
            "",
            "pull policy of Never",
            "load the image on this node",
        ),
        ("CrashLoopBackOff", "back-off 5m0s", "", "back-off 5m0s", "-c sensor --previous"),
    ],
)
def test_a_pod_of_ours_that_does_not_start_is_named_with_its_cause(
    reason: str, message: str, ended: str, says: str, remedy: str
) -> None:
    status: Json = {
        "restartCount": 3,
        "state": {"waiting": {"reason": reason, "message": message}},
        "lastState": {"terminated": {"reason": "Error", "exitCode": 1, "message": ended}}
        if ended
        else {},
    }
    (found,) = own_pods([of_exporter(status)])

    assert found.state == "bad"
    assert f"draguard-exporter-x on gb200-0: container sensor: {reason}, 3 restarts: " in found.says
    assert says in found.says
    assert remedy in found.remedy


@pytest.mark.parametrize(
    ("reason", "code", "message"),
    [
        ("Error", 1, EXEC_FORMAT),
        ("Error", 255, EXEC_FORMAT),
        ("StartError", 128, "failed to start container: exec format error: unknown"),
    ],
)
def test_an_image_of_another_architecture_is_named_between_two_starts_too(
    reason: str, code: int, message: str
) -> None:
    ended = {"reason": reason, "exitCode": code, "message": message}
    status = {"restartCount": 0, "state": {"terminated": ended}}

    (found,) = own_pods([of_exporter(status)])

    assert f"container sensor: {reason}, 0 restarts: {message.strip()}" in found.says
    assert "architecture as well" in found.remedy


def test_pods_of_ours_that_run_or_begin_are_no_line() -> None:
    assert list(own_pods([crashing("PodInitializing"), crashing("ContainerCreating")])) == []


def test_driver_pods_that_run_are_one_line_and_without_any_there_is_none() -> None:
    assert [check.state for check in driver_pods([crashing("PodInitializing")])] == ["ok"]
    assert list(driver_pods([])) == []


@pytest.fixture
def looping(fleet: Fleet) -> Iterator[Fleet]:
    """A pod with the labels of the GPU Operator's, as its kubelet would report it."""
    body = pod("nvidia-driver-daemonset-q", pod_spec(node="node-a"))
    body["metadata"]["labels"] = {"app.kubernetes.io/component": "nvidia-driver"}
    path = "/api/v1/namespaces/default/pods"
    fleet.cluster.client.create(path, body)
    name = f"{path}/nvidia-driver-daemonset-q"
    yield fleet
    fleet.cluster.client.delete(name, {"gracePeriodSeconds": 0})


def test_on_a_real_cluster_nodes_and_pods_are_read(
    looping: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = printed(capsys, "doctor", "--kubeconfig", looping.kubeconfig, ends=1)

    assert "ok       container runtimes: containerd 2.1.4 on 5 nodes: CDI is on" in stated
    assert "ok       driver: 580.65.06 on 4 nodes" in stated
    assert "ok       driver pods: 1 pod of the GPU Operator, none fails" in stated


def logged(name: str, via: Via | None, reason: str = "", *, up: bool = True) -> NodeDeviceHealth:
    kmsg = SourceHealth(name="kmsg", state="Up" if up else "Down", via=via, reason=reason)
    status = NodeHealth(sources=(SourceHealth(name="nvml", state="Up"), kmsg))
    return NodeDeviceHealth(metadata=ObjectMeta(name=name), status=status)


def test_how_each_node_reads_the_kernel_log_is_counted_with_what_it_costs() -> None:
    found = list(
        kernel_logs(
            [
                logged("a", "Journal"),
                logged("b", "Journal"),
                logged("c", "Device"),
                logged("d", "Syslog", "NoKernelRecords"),
                logged("e", "Syslog"),
                logged("f", None),
                logged("g", None, "PermissionDenied", up=False),
            ]
        )
    )
    assert [(check.state, check.says) for check in found] == [
        ("ok", "read from /dev/kmsg on 1 node (c); records are whole"),
        ("ok", "read from systemd's journal on 2 nodes (a, b); records are whole"),
        (
            "warn",
            "read by syslog(2) on 1 node (e); a fault that only the kernel log reports is not "
            "tainted there",
        ),
        (
            "warn",
            "read by syslog(2) on 1 node (d) (NoKernelRecords); a fault that only the kernel log "
            "reports is not tainted there",
        ),
        ("unknown", "read in an unknown way on 1 node (f)"),
    ]
