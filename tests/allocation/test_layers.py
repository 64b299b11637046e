"""The first layer that a pod has not passed, from what the cluster says."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from allocation.answers import Answers
from allocation.demand import Demand
from allocation.layers.explanation import elsewhere
from allocation.layers.finding import DeviceNote, Finding, PodView
from allocation.layers.scheduling import parts
from allocation.layers.walk import first_finding
from allocation.model.claims import Allocation, Claim
from allocation.model.device_use import DeviceUse
from allocation.model.events import Event
from allocation.model.nodes import Node, NodeTaint
from allocation.model.pods import Pod
from allocation.plugin import Supply
from allocation.summary import Summary
from exporter.model.device import Device
from tests.allocation.builders import DRIVER, Json, evaluate

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BEGUN = NOW - timedelta(minutes=4)
GPU = Device(DRIVER, "node-a", "gpu-0")
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/2 nodes are available: 2 cannot allocate all claims. preemption: 0/2 nodes are "
    "available: 2 Preemption is not helpful for scheduling.",
}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def pod(status: Json | None = None, **spec: Any) -> Pod:
    """Return a pod of one claim, `mine`, that is called `devices` in it."""
    uses = {"resourceClaims": [{"name": "devices", "resourceClaimName": "mine"}]}
    return msgspec.convert(
        {
            "metadata": {"name": "train", "namespace": "team", "uid": "1"},
            "spec": uses | spec,
            "status": {"phase": "Pending", "conditions": [UNSCHEDULABLE]} | (status or {}),
        },
        Pod,
    )


def on_node(phase: str = "Pending", **status: Any) -> Pod:
    return pod({"phase": phase, "conditions": [SCHEDULED], **status}, nodeName="node-a")


def claim(results: list[Json] | None = None, **status: Any) -> Claim:
    """Return the pod's claim: it waits, or it has these devices."""
    allocation = {
        "devices": {"results": results},
        "allocationTimestamp": BEGUN.isoformat(),
        "nodeSelector": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}
            ]
        },
    }
    stated = ({"allocation": allocation} if results is not None else {}) | status
    return msgspec.convert(
        {"metadata": {"name": "mine", "namespace": "team", "uid": "2"}, "status": stated}, Claim
    )


def gpu(**fields: Any) -> Json:
    return {"driver": DRIVER, "pool": "node-a", "device": "gpu-0", "request": "r", **fields}


def device_status(kind: str, status: str, message: str = "") -> Json:
    condition = {"type": kind, "status": status, "reason": "Because", "message": message}
    return {"driver": DRIVER, "pool": "node-a", "device": "gpu-0", "conditions": [condition]}


def event(reason: str, message: str, minutes: int = 1) -> Event:
    at = NOW - timedelta(minutes=minutes)
    return Event(
        metadata=msgspec.convert({"name": "e"}, type(pod().metadata)),
        type="Warning",
        reason=reason,
        message=message,
        last_timestamp=at,
    )


def found(of: Pod, *claims: Claim, **fields: Any) -> Finding:
    known = {each.metadata.name: each for each in claims}
    return first_finding(PodView(pod=of, now=NOW, claims=known, **fields))


def at(finding: Finding) -> tuple[str, str]:
    return finding.layer, finding.reason


class TestBeforeTheScheduler:
    def test_a_gate_comes_first(self) -> None:
        gated = pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])

        assert at(found(gated)) == ("Admission", "SchedulingGated")

    def test_a_claim_that_is_being_deleted_names_its_pods(self) -> None:
        going = claim(reservedFor=[{"name": "other", "resource": "pods", "uid": "9"}])
        meta = msgspec.structs.replace(going.metadata, deletion_timestamp=BEGUN)
        finding = found(pod(), msgspec.structs.replace(going, metadata=meta))

        assert at(finding) == ("Admission", "ClaimDeleting")
        assert finding.evidence == ("still reserved for other",)

    def test_without_any_word_of_a_scheduler_its_name_is_given(self) -> None:
        finding = found(pod({"conditions": []}, schedulerName="volcano"), claim())

        assert at(finding) == ("Scheduling", "NoScheduler")
        assert "volcano" in finding.message

    def test_a_template_that_does_not_exist_is_named(self) -> None:
        of_template = pod(resourceClaims=[{"name": "d", "resourceClaimTemplateName": "one"}])

        assert found(of_template, templates={"one": False}).reason == "TemplateMissing"

    def test_a_template_that_was_not_read_is_not_called_missing(self) -> None:
        of_template = pod(resourceClaims=[{"name": "d", "resourceClaimTemplateName": "one"}])

        assert found(of_template).reason == "ClaimNotCreated"

    def test_a_claim_of_a_template_that_was_deleted_is_made_anew(self) -> None:
        status = {"resourceClaimStatuses": [{"name": "d", "resourceClaimName": "train-d-x7"}]}
        template = [{"name": "d", "resourceClaimTemplateName": "one"}]
        finding = found(pod(status, resourceClaims=template), templates={"one": True})

        assert finding.reason == "ClaimNotCreated"
        assert not any("create ResourceClaim" in each for each in finding.todo)

    def test_a_template_that_makes_no_claim_is_quoted_with_the_newest_event(self) -> None:
        of_template = pod(resourceClaims=[{"name": "d", "resourceClaimTemplateName": "one"}])
        events = (
            event("FailedResourceClaimCreation", "quota", minutes=1),
            event("FailedResourceClaimCreation", "older", minutes=5),
        )
        finding = found(of_template, templates={"one": True}, events=events)

        assert at(finding) == ("Admission", "ClaimNotCreated")
        assert finding.evidence == ("quota",)

    def test_a_claim_that_the_pod_turned_out_not_to_need_is_not_missed(self) -> None:
        status = {"resourceClaimStatuses": [{"name": "d"}], "conditions": []}
        of_template = pod(status, resourceClaims=[{"name": "d", "resourceClaimTemplateName": "x"}])

        assert found(of_template).reason == "NoScheduler"


class TestWithoutRights:
    def test_what_may_not_be_read_is_named_with_what_the_scheduler_says(self) -> None:
        finding = found(pod(), claim(), unread=("ana may not list nodes",))

        assert at(finding) == ("Allocation", "NotRead")
        assert finding.evidence == (UNSCHEDULABLE["message"],)
        assert finding.todo == ("ana may not list nodes",)


class TestBinding:
    LATE = gpu(bindingConditions=["Attached"], bindingFailureConditions=["AttachFailed"])

    def test_a_condition_that_is_not_true_yet_is_awaited(self) -> None:
        finding = found(pod(), claim([self.LATE]))

        assert at(finding) == ("Binding", "BindingPending")
        assert finding.evidence == (f"Attached of {GPU}",)
        assert finding.since == BEGUN
        assert "until 12:06:00Z" in finding.message

    def test_what_the_driver_says_of_it_is_quoted(self) -> None:
        waits = claim([self.LATE], devices=[device_status("Attached", "False", "cabling")])

        assert found(pod(), waits).evidence == (f"Attached of {GPU}: cabling",)

    def test_a_failure_is_no_waiting(self) -> None:
        failed = claim([self.LATE], devices=[device_status("AttachFailed", "True", "no slot")])
        finding = found(pod(), failed)

        assert at(finding) == ("Binding", "BindingFailed")
        assert finding.evidence == ("Because", "no slot")

    def test_a_failure_that_is_not_is_none(self) -> None:
        fine = claim([self.LATE], devices=[device_status("AttachFailed", "False")])

        assert found(pod(), fine).reason == "BindingPending"

    def test_a_full_claim_that_includes_the_pod_is_not_in_use_by_others(self) -> None:
        users = [{"name": f"p{n}", "resource": "pods", "uid": f"{n}"} for n in range(256)]

        assert found(pod(), claim([gpu()], reservedFor=users)).reason == "BindingPending"

    def test_a_condition_that_is_met_is_passed(self) -> None:
        ready = claim([self.LATE], devices=[device_status("Attached", "True")])

        assert found(pod(), ready).reason == "OtherResources"

    def test_a_claim_on_a_node_where_the_pod_may_not_run(self) -> None:
        node = Node("node-a", taints=(NodeTaint("team", "b", "NoSchedule"),))
        demand = Demand.of(pod(), (), (claim([gpu()]),))
        there = elsewhere(demand, (node, Node("node-b")), Answers(evaluate))
        finding = found(pod(), claim([gpu()]), elsewhere=there, demand=demand)

        assert at(finding) == ("Scheduling", "ClaimElsewhere")
        assert finding.evidence == ("node-a: NodeTainted team",)

    def test_the_first_attempt_has_no_condition_yet_and_is_no_lack_of_a_scheduler(self) -> None:
        mine = [{"name": "train", "resource": "pods", "uid": "1"}]
        reserved = claim([self.LATE], reservedFor=mine)

        assert found(pod({"conditions": []}), reserved).reason == "BindingPending"

    def test_a_pod_whose_claims_are_ready_is_about_to_be_bound(self) -> None:
        bare = pod({"conditions": [], "nominatedNodeName": "node-a"})

        assert at(found(bare, claim([gpu()]))) == ("Binding", "BindingPending")

    def test_a_date_beyond_the_calendar_is_no_crash(self) -> None:
        late = claim([self.LATE])
        allocation = msgspec.structs.replace(
            late.status.allocation or Allocation(),
            allocation_timestamp=datetime(9999, 12, 31, 23, 59, tzinfo=UTC),
        )
        status = msgspec.structs.replace(late.status, allocation=allocation)

        finding = found(pod(), msgspec.structs.replace(late, status=status))

        assert finding.reason == "BindingPending"

    @pytest.mark.parametrize(("pods", "reason"), [(256, "ClaimInUse"), (255, "OtherResources")])
    def test_a_claim_has_room_for_256_pods(self, pods: int, reason: str) -> None:
        users = [{"name": f"p{n}", "resource": "pods", "uid": f"u{n}"} for n in range(pods)]

        assert found(pod(), claim([gpu()], reservedFor=users)).reason == reason


class TestWhatElseTheSchedulerSays:
    def test_its_sentence_is_taken_apart(self) -> None:
        message = (
            "0/9 nodes are available: 3 Insufficient cpu, 4 node(s) had untolerated taint(s), "
            "2 cannot allocate all claims. preemption: 0/9 nodes are available: 9 No victims."
        )

        assert parts(message) == [
            (3, "Insufficient cpu"),
            (4, "node(s) had untolerated taint(s)"),
            (2, "cannot allocate all claims"),
        ]

    def test_a_sentence_of_another_scheduler_is_kept_whole(self) -> None:
        assert parts("gang needs 8, has 3") == [(0, "gang needs 8, has 3")]

    def test_what_fits_by_now_is_waited_for(self) -> None:
        fits = Summary("Allocatable", "", {"Allocated": 1}, (), "node-b")

        assert at(found(pod(), claim(), summary=fits)) == ("Scheduling", "Allocatable")

    @pytest.mark.parametrize(
        "refusal", ["cannot allocate all claims", "invalid resource pools were encountered: a"]
    )
    def test_so_is_what_it_has_refused_because_of_devices(self, refusal: str) -> None:
        fits = Summary("Allocatable", "", {"Allocated": 1}, (), "node-b")
        before = UNSCHEDULABLE | {"message": f"0/2 nodes are available: 2 {refusal}."}

        assert found(pod({"conditions": [before]}), claim(), summary=fits).reason == "Allocatable"

    def test_a_scheduler_that_has_failed_is_quoted(self) -> None:
        failed = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}
        finding = found(pod({"conditions": [failed | {"message": "running plugin"}]}), claim([]))

        assert at(finding) == ("Scheduling", "SchedulerError")
        assert finding.evidence == ("running plugin",)

    def test_a_device_plugin_with_too_few_is_explained_by_numbers(self) -> None:
        message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
        short = {"conditions": [UNSCHEDULABLE | {"message": message}]}
        supply = Supply("nvidia.com/gpu", 8, 2, 16, 15, 10, 8, 3)
        finding = found(pod(short, resourceClaims=[]), supplies=(supply,))

        assert at(finding) == ("Scheduling", "Insufficient")
        assert finding.evidence == (
            "2 nodes: Insufficient nvidia.com/gpu",
            "nvidia.com/gpu: 16 installed on 2 nodes, 1 unhealthy, 10 requested by other pods, "
            "3 free on the emptiest node",
        )

    @pytest.mark.parametrize(
        ("supply", "why"),
        [
            (Supply("nvidia.com/gpu", 8, 2, 16, 16, 0, 8, 8), "Insufficient nvidia.com/gpu"),
            (Supply("nvidia.com/gpu", 8, 2, 16, 16, None, 8, None), "Insufficient nvidia.com/gpu"),
            (Supply("nvidia.com/gpu", 8, 2, 16, 16, 9, 8, 3), "Insufficient nvidia.com/gpu.shared"),
        ],
        ids=["enough on one node", "not known", "another resource"],
    )
    def test_nodes_without_the_resource_are_no_lack_of_it(self, supply: Supply, why: str) -> None:
        """The scheduler says so of each node that has no GPU at all."""
        message = f"0/9 nodes are available: 1 Insufficient cpu, 8 {why}."
        short = {"conditions": [UNSCHEDULABLE | {"message": message}]}
        finding = found(pod(short, resourceClaims=[]), supplies=(supply,))

        assert at(finding) == ("Scheduling", "OtherResources")
        assert finding.evidence[:2] == ("1 nodes: Insufficient cpu", f"8 nodes: {why}")

    @pytest.mark.parametrize(
        ("supply", "left", "todo"),
        [
            (
                Supply("nvidia.com/gpu", 16, 2, 16, 16, 0, 8, 8),
                "the largest has 8 that are well",
                "request fewer, or add larger nodes",
            ),
            (
                Supply("nvidia.com/gpu", 8, 2, 16, 14, None, 7, None),
                "the largest has 7 that are well",
                "request fewer, or add larger nodes; the device plugin calls devices unhealthy: "
                "see its log",
            ),
            (
                Supply("nvidia.com/gpu", 8, 2, 16, 15, 10, 8, 3),
                "the emptiest has 3 left",
                "wait until pods end, or add nodes",
            ),
            (
                Supply("nvidia.com/gpu", 1, 0, 0, 0, None, 0, None),
                "no node has any",
                "no device plugin and no DeviceClass offers nvidia.com/gpu: install one",
            ),
        ],
        ids=["larger than any node", "unhealthy", "in use", "nowhere"],
    )
    def test_too_few_on_one_node(self, supply: Supply, left: str, todo: str) -> None:
        message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
        short = {"conditions": [UNSCHEDULABLE | {"message": message}]}
        finding = found(pod(short, resourceClaims=[]), supplies=(supply,))

        assert finding.reason == "Insufficient"
        assert finding.message.endswith(left)
        assert finding.todo == (todo,)

    def test_a_plugin_whose_use_is_not_known_is_not_denied(self) -> None:
        message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
        short = {"conditions": [UNSCHEDULABLE | {"message": message}]}
        supply = Supply("nvidia.com/gpu", 1, 2, 16, 16, None, 8, None)
        finding = found(pod(short, resourceClaims=[]), supplies=(supply,))

        assert finding.message == "the scheduler finds no node for it"

    @pytest.mark.parametrize(
        "words",
        [
            "request r: device class gpu does not exist",
            "resource claim team/mine is in the process of being allocated",
        ],
    )
    def test_other_words_of_its_device_plugin_are_of_devices(self, words: str) -> None:
        message = f"0/2 nodes are available: 2 {words}. no new claims to deallocate, preemption: x."
        fits = Summary("Allocatable", "", {"Allocated": 1}, (), "node-b")
        stated = {"conditions": [UNSCHEDULABLE | {"message": message}]}

        assert found(pod(stated), claim(), summary=fits).reason == "Allocatable"

    def test_refusals_of_devices_are_not_denied(self) -> None:
        message = "0/9 nodes are available: 1 Insufficient cpu, 8 cannot allocate all claims."
        both = {"conditions": [UNSCHEDULABLE | {"message": message}]}
        fits = Summary("Allocatable", "", {"Allocated": 1}, (), "node-b")
        finding = found(pod(both), claim(), summary=fits)

        assert finding.message == (
            "the scheduler finds no node for it; its devices could be had on node-b"
        )

    def test_the_condition_of_a_gate_that_is_gone_is_of_no_scheduler(self) -> None:
        lifted = UNSCHEDULABLE | {"reason": "SchedulingGated"}

        assert found(pod({"conditions": [lifted]}), claim()).reason == "NoScheduler"


class TestOnTheNode:
    def test_a_driver_s_error_is_quoted(self) -> None:
        stated = "Failed to prepare dynamic resources: NodePrepareResources failed: no such GPU"
        finding = found(
            on_node(), claim([gpu()]), events=(event("FailedPrepareDynamicResources", stated),)
        )

        assert at(finding) == ("Preparation", "PreparationFailed")
        assert finding.evidence == (stated,)

    @pytest.mark.parametrize(
        "error",
        [
            f"DRA driver {DRIVER} is not registered",
            f"dial unix /var/lib/kubelet/plugins/{DRIVER}/dra.sock: connect: connection refused",
        ],
    )
    def test_a_driver_that_is_not_there_is_named(self, error: str) -> None:
        stated = f"prepare dynamic resources: {error}"
        finding = found(
            on_node(), claim([gpu()]), events=(event("FailedPrepareDynamicResources", stated),)
        )

        assert at(finding) == ("Preparation", "DriverDown")
        assert finding.message.startswith(f"DRA driver {DRIVER} does not answer")

    def test_an_error_that_the_kubelet_does_not_repeat_is_over(self) -> None:
        stated = f"DRA driver {DRIVER} is not registered"
        repeated, old = (
            found(
                on_node(),
                claim([gpu()]),
                events=(event("FailedPrepareDynamicResources", stated, minutes=minutes),),
            )
            for minutes in (10, 12)
        )

        assert at(repeated) == ("Preparation", "DriverDown")
        assert at(old) == ("Preparation", "Preparing")
        assert old.todo == ("check that the kubelet of node-a runs",)

    def test_an_error_of_before_counts_no_more_once_the_devices_are_ready(self) -> None:
        ready = {"type": "PodReadyToStartContainers", "status": "True"}
        late = on_node(conditions=[SCHEDULED, ready])
        old = event("FailedPrepareDynamicResources", "not registered yet", minutes=9)
        finding = found(late, claim([gpu()]), events=(old, event("Pulling", "image x")))

        assert at(finding) == ("Runtime", "Starting")
        assert finding.evidence == ("Pulling: image x",)

    def test_a_sandbox_that_cannot_be_made_comes_after_the_devices(self) -> None:
        old = event("FailedPrepareDynamicResources", "is not registered", minutes=9)
        new = event("FailedCreatePodSandBox", "no such runtime class")
        finding = found(on_node(), claim([gpu()]), events=(old, new))

        assert finding.reason == "Preparing"
        assert finding.evidence == ("FailedCreatePodSandBox: no such runtime class",)

    def test_what_the_kubelet_has_not_given_is_named_with_its_minutes(self) -> None:
        finding = found(on_node(), claim([gpu()]), uses=())

        assert at(finding) == ("Preparation", "Preparing")
        assert finding.evidence == (
            "claim mine was allocated 4 min ago, and the kubelet has not given it",
        )

    def test_what_is_no_gpu_the_exporter_does_not_see(self) -> None:
        nic = claim([gpu(driver="nic.example.com")])

        assert found(on_node(), nic, uses=()).evidence == ()

    def test_a_claim_of_the_last_minute_may_be_given_and_not_seen_yet(self) -> None:
        view = PodView(
            pod=on_node(),
            now=BEGUN + timedelta(seconds=59),
            claims={"mine": claim([gpu()])},
            uses=(),
        )

        assert first_finding(view).evidence == ()

    def test_what_the_kubelet_has_given_is_prepared(self) -> None:
        mount = event("FailedMount", "secret not found")
        uses = (DeviceUse(str(GPU)),)
        finding = found(on_node(), claim([gpu()]), events=(mount,), uses=uses)

        assert at(finding) == ("Runtime", "Starting")
        assert finding.evidence == (
            "FailedMount: secret not found",
            f"the kubelet has given it {GPU}",
        )

    @pytest.mark.parametrize(
        ("claims", "reason"), [((), "ClaimMissing"), ((claim(),), "NotAllocated")]
    )
    def test_a_pod_that_was_put_on_its_node_by_hand(
        self, claims: tuple[Claim, ...], reason: str
    ) -> None:
        stated = "pod train is not allowed to use ResourceClaim mine"
        refused = event("FailedPrepareDynamicResources", stated)

        assert at(found(on_node(), *claims, events=(refused,))) == ("Preparation", reason)

    def test_a_kubelet_that_has_not_begun_is_waited_for_with_what_else_is_wrong(self) -> None:
        waiting = [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}]
        mount = event("FailedMount", "secret not found")
        finding = found(on_node(containerStatuses=waiting), claim([gpu()]), events=(mount,))

        assert at(finding) == ("Preparation", "Preparing")
        assert finding.evidence == ("FailedMount: secret not found",)

    @pytest.mark.parametrize(
        ("reason", "message", "expected"),
        [
            ("CreateContainerError", "unresolvable CDI devices x=y", "CdiDeviceMissing"),
            ("CrashLoopBackOff", "back-off 5m0s", "Crashing"),
            ("ImagePullBackOff", "no such image", "ContainerNotStarted"),
            ("ErrImagePull", "image CDI-tools not found", "ContainerNotStarted"),
            ("RunContainerError", "CDI device injection failed", "CdiDeviceMissing"),
            ("RunContainerError", "exec: no such file", "ContainerNotStarted"),
        ],
    )
    def test_a_container_that_does_not_start(
        self, reason: str, message: str, expected: str
    ) -> None:
        state = {"waiting": {"reason": reason, "message": message}}
        finding = found(on_node(containerStatuses=[{"name": "main", "state": state}]))

        assert at(finding) == ("Runtime", expected)
        assert finding.evidence == (message,)

    def test_what_the_runtime_could_not_start_is_no_crash_of_the_program(self) -> None:
        waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
        ended = {"reason": "StartError", "message": "nvml error", "exitCode": 128}
        status = {"name": "main", "state": waiting, "lastState": {"terminated": ended}}
        finding = found(on_node(containerStatuses=[status]))

        assert finding.reason == "ContainerNotStarted"
        assert finding.evidence == ("back-off", "StartError, exit code 128: nvml error")

    def test_a_program_that_is_killed_says_so(self) -> None:
        waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
        status = {
            "name": "main",
            "state": waiting,
            "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
        }
        finding = found(on_node("Running", containerStatuses=[status]))

        assert (finding.reason, finding.evidence) == ("Crashing", ("OOMKilled, exit code 137: ",))

    def test_an_init_container_that_runs_is_beyond_preparation(self) -> None:
        running: Json = {"name": "init", "state": {"running": {}}}

        assert found(on_node(initContainerStatuses=[running])).reason == "Starting"

    def test_why_the_scheduler_waited_is_no_evidence_on_the_node(self) -> None:
        old = event("FailedScheduling", "2 cannot allocate all claims")

        assert found(on_node(), claim([gpu()]), events=(old,)).evidence == ()

    def test_a_claim_of_a_template_that_was_not_made_yet_is_none_that_is_missing(self) -> None:
        template = [{"name": "d", "resourceClaimTemplateName": "x"}]
        given = pod({"conditions": [SCHEDULED]}, nodeName="node-a", resourceClaims=template)

        assert found(given).reason == "Preparing"


class TestRunning:
    def test_what_it_uses_of_its_devices_is_evidence(self) -> None:
        uses = (DeviceUse("gpu-0", 1 << 30, 0.0), DeviceUse("gpu-1", 1 << 30, 0.3))
        finding = found(on_node("Running"), claim([gpu()]), uses=uses)

        assert at(finding) == ("Running", "Running")
        assert finding.evidence == tuple(map(str, uses))

    def test_one_that_uses_none_of_its_devices_is_idle(self) -> None:
        uses = (DeviceUse("gpu-0", 1 << 30, 0.0), DeviceUse("gpu-1", 0))

        assert found(on_node("Running"), claim([gpu()]), uses=uses).reason == "Idle"

    @pytest.mark.parametrize("uses", [None, (), (DeviceUse("gpu-0"),)])
    def test_what_is_not_known_is_not_idle(self, uses: tuple[DeviceUse, ...] | None) -> None:
        assert found(on_node("Running"), claim([gpu()]), uses=uses).reason == "Running"


class TestOnTheDevice:
    SICK = DeviceNote(GPU, "DeviceSick", "incident gpu-1-1, Tainted: XID 79")
    TAINTED = DeviceNote(GPU, "DeviceTainted", "tainted gpu.nvidia.com/xid:NoSchedule")
    CRASHES = (
        {"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "b"}}},
    )

    def test_a_program_that_ends_on_a_sick_gpu_is_not_blamed(self) -> None:
        given = on_node("Running", containerStatuses=self.CRASHES)
        finding = found(given, claim([gpu()]), health=(self.SICK,))

        assert at(finding) == ("Device", "DeviceSick")
        assert "container main does not start: CrashLoopBackOff" in finding.evidence

    def test_a_taint_beside_a_crash_is_evidence(self) -> None:
        given = on_node("Running", containerStatuses=self.CRASHES)
        finding = found(given, claim([gpu()]), health=(self.TAINTED,))

        assert at(finding) == ("Runtime", "Crashing")
        assert f"{GPU}: {self.TAINTED.text}" in finding.evidence

    def test_an_incident_comes_before_the_taint_that_it_has_set(self) -> None:
        notes = (
            DeviceNote(GPU, "DeviceTainted", "tainted draguard.dev/lost:NoExecute by rule x"),
            DeviceNote(GPU, "DeviceSick", "incident gpu-1-1, Tainted: XID 79"),
        )
        finding = found(on_node("Running"), claim([gpu()]), health=notes)

        assert at(finding) == ("Device", "DeviceSick")
        assert finding.evidence == (f"{GPU}: tainted draguard.dev/lost:NoExecute by rule x",)

    def test_what_the_kubelet_reads_of_the_driver(self) -> None:
        sick = {"resourceID": "cdi/gpu=0", "health": "Unhealthy", "message": "XID 79"}
        status = {
            "name": "main",
            "allocatedResourcesStatus": [{"name": "claim:d/r", "resources": [sick]}],
        }
        finding = found(on_node("Running", containerStatuses=[status]), claim([gpu()]))

        assert at(finding) == ("Device", "DeviceUnhealthy")
        assert finding.evidence == ("XID 79",)

    def test_what_the_driver_says_in_the_claim(self) -> None:
        sick = claim([gpu()], devices=[device_status("Ready", "False", "link down")])

        assert at(found(on_node("Running"), sick)) == ("Device", "DeviceNotReady")

    def test_a_device_of_another_share_is_not_meant(self) -> None:
        other = device_status("Ready", "False") | {"shareID": "b"}
        mine = claim([gpu(shareID="a")], devices=[other])

        assert found(on_node("Running"), mine).reason == "Running"


def test_a_pod_on_a_node_that_is_lost_is_not_ready() -> None:
    lost = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
    finding = found(on_node("Running", conditions=[SCHEDULED, lost]), claim([gpu()]))

    assert at(finding) == ("Running", "NotReady")
    assert finding.evidence == ("NodeNotReady",)


def test_a_pod_that_has_ended_says_how() -> None:
    ended = on_node("Failed", reason="Evicted", message="node was low on memory")

    assert at(found(ended)) == ("Running", "Finished")
    assert found(ended).evidence == ("Evicted: node was low on memory",)


def test_a_pod_that_is_deleted_says_by_whom() -> None:
    evicted = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByDeviceTaintManager",
    }
    going = on_node("Running", conditions=[SCHEDULED, evicted | {"message": "device tainted"}])
    meta = msgspec.structs.replace(going.metadata, deletion_timestamp=NOW)
    finding = found(msgspec.structs.replace(going, metadata=meta))

    assert at(finding) == ("Running", "Deleting")
    assert finding.evidence == ("DeletionByDeviceTaintManager: device tainted",)
