"""The doctor judges pods as they are now: not what is left of others, nor what ended long ago."""

from datetime import timedelta
from typing import Any

import pytest

from draguard.doctor.pod_status import Pod
from draguard.doctor.pods import driver_pods, own_pods
from draguard.redaction import MASK
from tests.draguard.doctor.objects import NOW, WEEKS, stored_pod
from tests.lab.cluster import Json

RUNS: Json = {"ready": True, "state": {"running": {}}}
KILLED: Json = {"state": {"terminated": {"reason": "Error", "exitCode": 137}}}
UNKNOWN: Json = {"state": {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}}}
LOOPS: Json = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}


def ended(message: str = "", *, ago: timedelta = timedelta(), **more: Any) -> Json:
    what = {"reason": "Error", "exitCode": 1, "message": message, "finishedAt": NOW - ago}
    return {"restartCount": 2, "lastState": {"terminated": what}, **more}


@pytest.mark.parametrize("status", [KILLED, UNKNOWN], ids=["killed", "unknown"])
@pytest.mark.parametrize(
    ("replacement", "lines"),
    [
        (stored_pod(RUNS, name="new", age=timedelta(hours=1)), 0),
        (stored_pod({}, "Pending", name="new", age=timedelta(minutes=1)), 0),
        (stored_pod({}, "Pending", name="new", age=timedelta(hours=1)), 1),
        (stored_pod(RUNS, name="older", age=2 * WEEKS), 1),
        (stored_pod(RUNS, name="other", age=timedelta(hours=1), account="draguard-agent"), 1),
        (stored_pod(KILLED, "Failed", name="new", age=timedelta(hours=1)), 2),
    ],
    ids=["runs", "begins", "does not begin", "older", "another workload's", "failed too"],
)
def test_what_an_eviction_left_behind_is_a_line_only_where_no_pod_replaced_it(
    status: Json, replacement: Pod, lines: int
) -> None:
    evicted = stored_pod(status, "Failed", name="evicted", reason="Evicted")

    found = list(own_pods([evicted, replacement], NOW))

    assert [check.state for check in found] == ["warn"] * lines
    if lines:
        assert found[0].says == (
            "n/evicted on node-a: Failed (Evicted), and no pod runs in its place"
        )
        assert found[0].remedy == "kubectl -n n describe pod evicted"


@pytest.mark.parametrize(("node", "lines"), [("node-a", 0), ("node-b", 1)])
def test_the_agent_of_another_node_replaces_none(node: str, lines: int) -> None:
    failed = stored_pod(KILLED, "Failed", account="draguard-agent")
    other = stored_pod(
        RUNS, name="new", age=timedelta(hours=1), node=node, account="draguard-agent"
    )

    assert len(list(own_pods([failed, other], NOW))) == lines


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize(
    ("deleted", "words"),
    [
        (timedelta(seconds=-30), ""),
        (timedelta(minutes=9), ""),
        (timedelta(hours=2), "Terminating for 2h"),
    ],
)
def test_a_pod_that_is_being_deleted_is_a_line_once_that_takes_long(
    deleted: timedelta, words: str, *, ours: bool
) -> None:
    pods = [stored_pod(KILLED, deleted=deleted), stored_pod(RUNS, name="healthy")]

    found = list(own_pods(pods, NOW) if ours else driver_pods(pods, NOW))

    if not words:
        assert [check.state for check in found] == ([] if ours else ["ok"])
    else:
        (check,) = found
        assert check.state == ("warn" if ours else "bad")
        assert f"n/p on node-a: {words}" in check.says
        assert check.remedy == "kubectl -n n describe pod p"


def test_a_token_in_the_end_of_a_log_is_masked_before_that_is_cut() -> None:
    token = "tok3nTOK3N" * 19
    log = f"POST https://a.example.com failed, Authorization: Bearer {token} done"

    for status in (
        ended(log, state=LOOPS),
        {"state": {"waiting": {"reason": "RunContainerError", "message": log}}},
    ):
        (found,) = own_pods([stored_pod(status)], NOW)
        assert "tok3n" not in found.says
        assert MASK in found.says


def test_without_logs_the_reason_stays() -> None:
    status = ended("INFO team-a/train-0 is deleted", state=LOOPS)

    (found,) = own_pods([stored_pod(status)], NOW, logs=False)

    assert "train-0" not in found.says
    assert found.says.endswith("container agent: CrashLoopBackOff, 2 restarts: back-off 5m0s")


CONFIG: Json = {"reason": "CreateContainerConfigError", "message": 'secret "web" not found'}
START: Json = {"reason": "RunContainerError", "message": "open /dev/kmsg: permission denied"}
PULL: Json = {"reason": "ImagePullBackOff", "message": "Back-off pulling r/x@sha256:1: not found"}
NO_NAME: Json = {"reason": "InvalidImageName", "message": "couldn't parse image name"}


@pytest.mark.parametrize("before", [{}, ended("the end of an old log")], ids=["first", "again"])
@pytest.mark.parametrize(
    ("waiting", "remedy"),
    [
        (CONFIG, "kubectl -n n describe pod p"),
        (START, "kubectl -n n describe pod p"),
        (PULL, "check image.registry and the tags; of a chart that pins digests, set "),
        (NO_NAME, "check image.registry and the tags; of a chart that pins digests, set "),
    ],
)
def test_why_a_container_cannot_be_started_comes_before_its_old_log(
    waiting: Json, remedy: str, before: Json
) -> None:
    (found,) = own_pods([stored_pod({**before, "state": {"waiting": waiting}})], NOW)

    assert found.state == "bad"
    assert found.says.endswith(waiting["message"])
    assert found.remedy.startswith(remedy)


def test_an_image_that_is_not_found_may_be_another_than_the_charts() -> None:
    (found,) = own_pods([stored_pod({"state": {"waiting": PULL}})], NOW)

    assert 'image.exporter.digest and image.controller.digest to yours or to ""' in found.remedy
    assert "no image" not in found.remedy


@pytest.mark.parametrize(("hours", "lines"), [(23, 1), (25, 0)])
def test_an_error_of_the_day_before_explains_nothing(hours: int, lines: int) -> None:
    status = ended("x", ago=timedelta(hours=hours), state={"running": {}})

    assert len(list(own_pods([stored_pod(status)], NOW))) == lines


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ({"PodScheduled": WEEKS, "Initialized": timedelta(minutes=2)}, "ok"),
        ({"PodScheduled": timedelta(minutes=2)}, "ok"),
        ({"PodScheduled": WEEKS, "Initialized": timedelta(hours=1)}, "bad"),
        ({"PodScheduled": WEEKS, "Ready": timedelta(minutes=2)}, "bad"),
        ({}, "bad"),
    ],
)
def test_a_driver_pod_begins_again_when_its_node_restarts(
    conditions: dict[str, timedelta], state: str
) -> None:
    changed = [{"type": kind, "lastTransitionTime": NOW - ago} for kind, ago in conditions.items()]
    waits: Json = {"state": {"waiting": {"reason": "PodInitializing"}}}

    (found,) = driver_pods([stored_pod(waits, "Pending", conditions=changed)], NOW)

    assert found.state == state
