"""A bundle part by part: pages by the API server's proxy, few pods of many, a fault in one part."""

import errno
import io
import os
import tarfile
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pytest
from typing_extensions import Buffer

from draguard.bundle import archive as archives
from draguard.bundle.archive import Archive
from draguard.bundle.collect import Collector, Ran
from draguard.bundle.pseudonyms import Pseudonyms
from draguard.bundle.stripped_objects import stripped
from draguard.cluster.own_pods import MOST, OwnPod, chosen
from draguard.connection.retrying_client import RetryingClient
from kubeapi.endpoint import Endpoint
from kubeapi.resources import INCIDENTS, REPORTS
from tests.draguard.bundle.playing import PlayedApi

AT = datetime(2026, 1, 5, tzinfo=UTC)
FINE = Ran(0, "fine", "")
NS = "/api/v1/namespaces/draguard-system"


def two_containers(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "x"}, {"name": "y"}]}}


def pod(name: str, *, restarts: int = 0, account: str = "draguard-agent") -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "spec": {
            "serviceAccountName": account,
            "containers": [
                {
                    "name": "agent",
                    "args": ["--web-config=/etc/x"] if name == "secured" else [],
                    "ports": [{"name": "metrics", "containerPort": 9400}],
                }
            ],
        },
        "status": {
            "containerStatuses": [{"name": "agent", "ready": True, "restartCount": restarts}]
        },
    }


class FullDisk(io.BytesIO):
    """Is full once, after the header of an archive: what follows fits again."""

    full = False

    def write(self, content: Buffer, /) -> int:
        if self.tell() > 64 and not self.full:
            self.full = True
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(content)


def collected(
    answers: dict[str, object],
    ran: Ran = FINE,
    *,
    disk: type[io.BytesIO] = io.BytesIO,
    silent: tuple[str, ...] = (),
    requested: list[str] | None = None,
    names: bool = True,
) -> dict[str, str]:
    """Collect from a server that has these answers and no others."""
    file = disk()
    archive = Archive(file, "b", AT)

    def run(words: Sequence[str]) -> Ran:
        if words == ("doctor",):
            raise RuntimeError("a bug")
        return ran

    with PlayedApi(answers, silent, requested) as api:
        client = RetryingClient(Endpoint(server=f"http://127.0.0.1:{api.port}"), timeout=5.0)
        printed = list[str]()
        collector = Collector(client, "draguard-system", archive, says=printed.append, run=run)
        collector.collect(timeout=5.0, names=names)
        client.close()
    archive.close(())
    file.seek(0)
    with tarfile.open(fileobj=file) as tar:
        members = {each.name.partition("/")[2]: tar.extractfile(each) for each in tar.getmembers()}
        return {name: each.read().decode() for name, each in members.items() if each}


def test_pages_come_by_the_proxy_of_the_api_server() -> None:
    pods = {"items": [pod("plain"), pod("secured"), pod("r", account="draguard-remediator")]}
    pages = {
        f"{NS}/pods/plain:9400/proxy/metrics": "up 1\n",
        f"{NS}/pods/plain:9400/proxy/debug": "seen token=opensesame\n",
        f"{NS}/pods/https:secured:9400/proxy/metrics": "up 2\n",
        f"{NS}/pods/r:9400/proxy/debug/plan": "nothing to do\n",
    }
    found = collected({f"{NS}/pods": pods, **pages})

    assert found["pages/plain/metrics.txt"] == "up 1\n"
    assert found["pages/plain/debug.txt"] == "seen token=<redacted>\n"
    assert found["pages/secured/metrics.txt"] == "up 2\n"
    assert found["pages/r/debug.txt"] == "nothing to do\n"
    assert "pages/secured/debug.txt" in found["manifest.txt"]


def test_a_container_that_has_run_before_has_two_logs() -> None:
    found = collected(
        {f"{NS}/pods": {"items": [pod("a", restarts=2)]}, f"{NS}/pods/a/log": "stopped\n"}
    )

    assert found["logs/a/agent.log"] == found["logs/a/agent.previous.log"] == "stopped\n"


def test_a_fault_in_one_part_costs_no_other() -> None:
    found = collected({})

    assert found["status.txt"] == "fine"
    assert "doctor.txt" not in found
    assert "a fault of this program: RuntimeError: a bug" in found["manifest.txt"]


def test_a_full_disk_is_no_fault_of_one_part() -> None:
    noise = Ran(0, os.urandom(1 << 19).hex(), "")

    with pytest.raises(OSError, match="No space left"):
        collected({}, noise, disk=FullDisk)


def test_an_answer_that_is_no_list_is_a_line() -> None:
    found = collected({f"{NS}/pods": "hello", f"{NS}/events": {"items": [7]}})

    assert "the response is not a list" in found["manifest.txt"]
    assert "objects/events.json" not in found


def test_what_a_command_says_beside_its_output_is_a_note() -> None:
    found = collected({}, Ran(1, "half", "draguard plan: the pods cannot be listed\n"))

    assert found["plan.txt"] == "half"
    assert "draguard plan: the pods cannot be listed" in found["manifest.txt"]


def test_of_many_pods_the_remediators_and_the_failing_come_first() -> None:
    many = [pod(f"agent-{number:03}") for number in range(60)]
    bad = [pod("zz-failing", restarts=1), pod("zzz-leads", account="draguard-remediator")]
    pods = [msgspec.convert(each, OwnPod) for each in (*many, *bad)]

    found, others = chosen(pods)

    assert [each.name for each in found[:3]] == ["zzz-leads", "zz-failing", "agent-000"]
    assert (len(found), others) == (MOST, 62 - MOST)


def test_a_file_ends_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST", 1 << 20)
    file = io.BytesIO()
    archive = Archive(file, "b", AT)
    archive.text("a.txt", "x" * (3 << 20))

    assert archive.entries[0].size == 1 << 20
    assert archive.entries[0].note == "cut after 1 MiB"


@pytest.mark.parametrize(("silent", "logs"), [(("a",), 4), (("a", "b", "c", "d"), 3)])
def test_one_pod_without_answers_costs_no_other_pods_logs(
    silent: tuple[str, ...], logs: int
) -> None:
    pods = [two_containers(name) for name in ("a", "b", "c", "d")]
    requested = list[str]()
    found = collected(
        {f"{NS}/pods": {"items": pods}, **{f"{NS}/pods/{name}/log": "x" for name in "bcd"}},
        silent=tuple(f"{NS}/pods/{name}/log" for name in silent),
        requested=requested,
    )

    of_logs = [path for path in requested if path.endswith("/log")]
    assert len(dict.fromkeys(of_logs)) == logs
    if silent == ("a",):
        assert len(of_logs) == 1 + 3 * 2
        assert {f"logs/{name}/{c}.log" for name in "bcd" for c in "xy"} < set(found)
    else:
        assert len(of_logs) == 3
    assert "the node of the pod may be down" in found["manifest.txt"]
    assert "check that it is the right cluster" not in found["manifest.txt"]


def test_with_pseudonyms_no_text_is_left_that_may_name_a_pod_of_the_past() -> None:
    gone = "slurm-acme/worker-0"
    incident = {
        "metadata": {"name": "i"},
        "spec": {},
        "status": {
            "timeline": [{"phase": "Evicting", "text": f"{gone}: pod of a Slinky NodeSet"}],
            "conditions": [{"type": "EvictionBlocked", "message": gone}],
        },
    }
    xid = {"code": 79, "process": gone, "message": gone}
    report = {"status": {"gpus": [{"xids": [xid]}], "switches": [{"sxids": [{"message": gone}]}]}}
    answers: dict[str, object] = {
        INCIDENTS: {"items": [incident]},
        REPORTS: {"items": [{"metadata": {"name": "node-a"}, **report}]},
    }

    found = collected(answers, names=False)

    assert gone in "".join(collected(answers).values())
    assert gone not in "".join(found.values())
    assert '"phase": "Evicting"' in found["objects/deviceincidents.json"]
    assert '"code": 79' in found["objects/nodedevicehealths.json"]


@pytest.mark.parametrize("statuses", ["containerStatuses", "initContainerStatuses"])
@pytest.mark.parametrize("state", ["state", "lastState"])
def test_with_pseudonyms_the_end_of_a_log_is_left_out_of_the_status_of_a_pod(
    statuses: str, state: str
) -> None:
    gone = "acme/train-0"
    ended = {"terminated": {"reason": "Error", "exitCode": 1, "message": f"{gone} is deleted"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}
    status = {statuses: [{"name": "agent", "state": waiting, state: ended}]}
    answers: dict[str, object] = {f"{NS}/pods": {"items": [{**pod("a"), "status": status}]}}

    found = collected(answers, names=False)

    assert gone in collected(answers)["objects/pods.json"]
    assert gone not in "".join(found.values())
    assert '"exitCode": 1' in found["objects/pods.json"]
    assert ("back-off 5m0s" in found["objects/pods.json"]) == (state == "lastState")


def test_environment_variables_keep_their_names_alone() -> None:
    env = [{"name": "A", "value": "b"}]
    found = stripped(
        {
            "metadata": {"name": "a", "managedFields": [1], "annotations": {"x": "y"}},
            "spec": {"template": {"spec": {"initContainers": [{"env": env}]}}},
        }
    )

    container = found["spec"]["template"]["spec"]["initContainers"][0]
    assert container["env"] == [{"name": "A", "value": "<left out>"}]
    assert found["metadata"] == {"name": "a", "annotations": {"x": "y"}}


def test_a_pseudonym_stands_for_the_whole_word_everywhere() -> None:
    names = Pseudonyms({"draguard-system"})
    names.learn("namespace", ["team-a", "default", "draguard-system"])
    names.learn("pod", ["train", "train-0", "team-a"])

    assert names.text("team-a/train-0, train, trainer and x-train in default.") == (
        "namespace-1/pod-2, pod-1, trainer and x-train in default."
    )
    assert names.text('pod="train" train.team-a.svc draguard-system') == (
        'pod="pod-1" pod-1.namespace-1.svc draguard-system'
    )
    names.learn("claim", ["gpu", "nvidia", "com"])
    assert names.text("gpu.nvidia.com/node-b/gpu-0 request gpu") == (
        "gpu.nvidia.com/node-b/gpu-0 request gpu"
    )
    assert names.object({"train": ["train", 1, None]}) == {"train": ["pod-1", 1, None]}
