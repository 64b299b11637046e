"""Where pods stand: once for all that are alike, the oldest answers first."""

import hashlib
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import pytest

from allocation.answers import Answers, OutOfTimeError
from allocation.explainer.findings import EASE, MOST_COMPARED, MOST_REQUESTS, Findings, Look
from allocation.model.claims import Claim, ClaimSpec
from allocation.model.events import Event
from allocation.model.nodes import Node, NodeSelector
from allocation.model.pods import Pod
from allocation.selectors.answers import Answer
from allocation.selectors.device import SelectedDevice
from exporter.model.device import Device
from tests.allocation.builders import DRIVER, evaluate, request, waiting
from tests.allocation.explainer.snapshots import NoRemarks, at, claim, look, pod, snapshot, text


class Clock:
    """Each reading is a second later."""

    def __init__(self, step: float = 1.0) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def reason(given: Look, uid: str = "uid-team-train") -> str:
    return given.findings[uid].reason


def test_a_pod_that_waits_has_the_reason_that_why_gives() -> None:
    holder = pod("holder", "taken", node="node-a", phase="Running")
    given = snapshot([pod(), holder], [claim(), claim("taken", "gpu-0", reserved=[holder])])

    found = look(given)

    assert reason(found) == "Allocated"
    assert reason(found, "uid-team-holder") == "Running"
    assert found.unexplained == 0
    assert found.oldest is None


def test_no_claim_of_another_namespace_is_named() -> None:
    taken = claim("secret", "gpu-0", namespace="others")
    given = snapshot([pod(), pod(namespace="others")], [claim(), claim(namespace="others"), taken])

    found = look(given).findings

    mine, theirs = found["uid-team-train"], found["uid-others-train"]
    assert "secret" not in str(mine)
    assert "1 claim of another namespace" in mine.message
    assert "others/secret" in theirs.message


def test_a_large_claim_is_digested_once_however_many_pods_name_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digested, digest = list[int](), hashlib.blake2b

    def counted(stated: bytes, *, digest_size: int) -> Any:
        digested.append(len(stated))
        return digest(stated, digest_size=digest_size)

    monkeypatch.setattr("hashlib.blake2b", counted)
    selectors = [{"cel": {"expression": f"type:{'x' * 10_000}"}}]
    large = waiting(request(selectors=selectors))
    pods, findings = [pod("one"), pod("two")], Findings(Clock())
    for _ in range(2):
        look(snapshot(pods, [large]), findings)
    changed = waiting(request(selectors=selectors, count=2))

    found = look(snapshot(pods, [changed]), findings)

    assert sum(size > 10_000 for size in digested) == 2
    assert found.findings["uid-team-one"].message.startswith("request r needs 2")


def test_pods_that_are_alike_are_computed_once() -> None:
    clock = Clock(0)
    pods = [pod(f"train-{n}", f"job-{n}") for n in range(5)]
    claims = [claim(f"job-{n}", count=2) for n in range(5)]
    findings = Findings(clock)

    found = look(snapshot(pods, claims), findings)

    assert {each.reason for each in found.findings.values()} == {"TooFew"}
    assert len(findings.answers) == 1


def test_an_error_of_one_pod_is_none_of_a_pod_whose_nodes_are_refused() -> None:
    """Both request the same; the scheduler has come to the selector for one of them only."""
    request = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "fails"}}]}
    spec = msgspec.convert(
        {"devices": {"requests": [{"name": "r", "exactly": request}]}}, ClaimSpec
    )
    claims = [msgspec.structs.replace(claim(f"job-{n}"), spec=spec) for n in range(2)]
    refused, failed = pod("train-0", "job-0"), pod("train-1", "job-1")
    condition = msgspec.structs.replace(failed.status.conditions[0], reason="SchedulerError")
    status = msgspec.structs.replace(failed.status, conditions=(condition,))

    found = look(snapshot([refused, msgspec.structs.replace(failed, status=status)], claims))

    assert reason(found, "uid-team-train-0") == "OtherResources"
    assert reason(found, "uid-team-train-1") == "SelectorFails"


def test_what_there_is_no_time_for_is_explained_at_later_looks() -> None:
    pods = [pod(f"train-{n}", f"job-{n}") for n in range(3)]
    claims = [claim(f"job-{n}", count=2 + n) for n in range(3)]
    findings = Findings(Clock())

    left = [look(snapshot(pods, claims), findings, budget=0).unexplained for _ in range(3)]

    assert left == [2, 1, 0]


def test_the_oldest_answer_is_computed_anew_first() -> None:
    pods = [pod(f"train-{n}", f"job-{n}") for n in range(2)]
    claims = [claim(f"job-{n}", count=2 + n) for n in range(2)]
    findings = Findings(Clock())
    for seconds in (100, 200):
        look(snapshot(pods, claims, seconds=seconds), findings, budget=0)

    third = look(snapshot(pods, claims, seconds=1000, version=2), findings, budget=0)

    assert third.oldest == at(200)


def test_an_answer_stays_while_nothing_changes() -> None:
    findings, given = Findings(Clock()), snapshot([pod()], [claim(count=2)])
    look(given, findings)

    again = look(snapshot([pod()], [claim(count=2)], seconds=86_400), findings)

    assert again.oldest is None
    assert [each.at for each in findings.answers.values()] == [given.at]


def test_an_answer_that_was_costly_is_kept_for_longer() -> None:
    findings, first = Findings(Clock()), snapshot([pod()], [claim(count=2)])
    look(first, findings)
    soon = snapshot([pod()], [claim(count=2)], version=2, seconds=100 + EASE - 1)
    later = snapshot([pod()], [claim(count=2)], version=3, seconds=100 + EASE + 1)

    assert look(soon, findings).oldest == first.at
    assert look(later, findings).oldest is None


def test_a_pod_on_a_node_has_the_words_of_its_kubelet() -> None:
    hangs = pod(node="node-a")
    event = msgspec.convert(
        {
            "metadata": {"name": "e", "namespace": "team"},
            "reason": "FailedPrepareDynamicResources",
            "message": f"DRA driver {DRIVER} is not registered",
        },
        Event,
    )
    given = snapshot([hangs], [claim(device_name="gpu-0", reserved=[hangs])])

    assert reason(look(given)) == "Preparing"
    assert reason(look(given, remarks=NoRemarks(event))) == "DriverDown"


def test_the_words_of_a_kubelet_grow_old() -> None:
    hangs = pod(node="node-a")
    event = msgspec.convert(
        {
            "metadata": {"name": "e", "namespace": "team"},
            "reason": "FailedPrepareDynamicResources",
            "message": f"DRA driver {DRIVER} is not registered",
            "lastTimestamp": text(0),
        },
        Event,
    )
    claims, findings = [claim(device_name="gpu-0", reserved=[hangs])], Findings(Clock())
    soon, later = (snapshot([hangs], claims, seconds=seconds) for seconds in (60, 3600))

    assert reason(look(soon, findings, remarks=NoRemarks(event))) == "DriverDown"
    assert reason(look(later, findings, remarks=NoRemarks(event))) == "Preparing"


def test_a_pod_that_runs_on_a_sick_device_has_that_reason() -> None:
    runs = pod(node="node-a", phase="Running")
    sick = {Device(DRIVER, "node-a", "gpu-0"): "incident i, Tainted"}
    given = snapshot([runs], [claim(device_name="gpu-0", reserved=[runs])], incidents=sick)

    assert reason(look(given)) == "DeviceSick"


def test_a_gated_pod_costs_no_computation() -> None:
    findings = Findings(Clock())
    gated = pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])

    assert reason(look(snapshot([gated], [claim()]), findings)) == "SchedulingGated"
    assert findings.answers == {}


def test_what_cannot_be_read_leaves_the_reason_open() -> None:
    given = snapshot([pod()], [claim()], unreadable="this version cannot read resourceslices x")

    assert reason(look(given)) == "NotEvaluated"


def test_pods_that_have_ended_are_no_matter() -> None:
    assert look(snapshot([pod(node="node-a", phase="Succeeded")], [claim()])).findings == {}


def test_a_node_affinity_makes_another_kind() -> None:
    here, there = pod("here"), pod("there", "other", nodeSelector={"zone": "b"})
    given = snapshot([here, there], [claim(count=2), claim("other", count=1)])

    found = look(given)

    assert reason(found, "uid-team-here") == "TooFew"
    assert reason(found, "uid-team-there") == "NodeAffinity"


def test_a_pod_whose_claim_is_allocated_where_it_may_not_run_says_so() -> None:
    placed = claim(device_name="gpu-0", on="node-a")
    waits = pod(nodeSelector={"zone": "b"})
    nowhere = claim(device_name="gpu-0", on="node-z")

    assert reason(look(snapshot([waits], [placed]))) == "ClaimElsewhere"
    assert reason(look(snapshot([pod()], [nowhere]))) == "ClaimElsewhere"
    assert reason(look(snapshot([pod()], [placed]))) == "OtherResources"


def test_a_claim_of_another_pod_is_never_named() -> None:
    """Two pods that are alike, each with a claim that is allocated elsewhere and one that waits."""
    names = (
        {"name": "first", "resourceClaimName": "{}-placed"},
        {"name": "second", "resourceClaimName": "{}-open"},
    )

    def alike(name: str) -> Pod:
        claims = [
            each | {"resourceClaimName": each["resourceClaimName"].format(name)} for each in names
        ]
        return pod(name, "", namespace=name, resourceClaims=claims)

    pods = [alike("mine"), alike("theirs")]
    claims = [
        made
        for name in ("mine", "theirs")
        for made in (
            claim(f"{name}-placed", "gpu-0", on="node-z", namespace=name),
            claim(f"{name}-open", namespace=name),
        )
    ]
    findings = Findings(Clock())

    found = look(snapshot(pods, claims), findings).findings

    assert len(findings.answers) == 1
    assert "theirs" not in str(found["uid-mine-mine"])
    assert "mine" not in found["uid-theirs-theirs"].message


def test_each_namespace_has_its_turn() -> None:
    crowd = [pod(f"train-{n}", f"job-{n}", namespace="crowd") for n in range(9)]
    claims = [claim(f"job-{n}", count=2 + n, namespace="crowd") for n in range(9)]
    given = snapshot([*crowd, pod()], [*claims, claim(count=99)])

    found = look(given, Findings(Clock()), budget=3)

    assert "uid-team-train" in found.findings
    assert found.unexplained > 0


def test_a_namespace_whose_answers_take_long_delays_no_other() -> None:
    """At each look there is time for one."""
    slow = [pod(f"train-{n}", f"job-{n}", namespace="slow") for n in range(20)]
    claims = [claim(f"job-{n}", count=2 + n, namespace="slow") for n in range(20)]
    findings = Findings(Clock())
    given = snapshot([*slow, pod()], [*claims, claim(count=99)])

    looks = [look(given, findings, budget=0).findings for _ in range(2)]

    assert "uid-team-train" in looks[1]


def test_a_demand_that_another_namespace_has_as_well_waits_for_no_turn_of_it() -> None:
    crowd = [pod(f"train-{n}", f"job-{n}", namespace="crowd") for n in range(9)]
    claims = [claim(f"job-{n}", count=2 + n, namespace="crowd") for n in range(9)]
    same = pod("same", "same", namespace="crowd")
    given = snapshot(
        [*crowd, same, pod()],
        [*claims, claim("same", count=99, namespace="crowd"), claim(count=99)],
    )
    findings = Findings(Clock())

    looks = [look(given, findings, budget=0).findings for _ in range(2)]

    assert "uid-team-train" in looks[1]


def test_more_requests_than_can_be_tried_are_not_evaluated_and_cost_nothing() -> None:
    many = [{"name": f"n{n}", "resourceClaimName": "job"} for n in range(MOST_REQUESTS + 1)]
    findings = Findings(Clock())

    found = look(snapshot([pod(claim="", resourceClaims=many)], [claim()]), findings)

    assert reason(found) == "NotEvaluated"
    assert findings.answers == {}


def with_affinity(requirements: int, name: str = "train", claim_name: str = "job") -> Pod:
    zone = {"key": "zone", "operator": "In", "values": ["b"]}
    terms = [{"matchExpressions": [zone] * requirements}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return pod(name, claim_name, affinity={"nodeAffinity": required})


def test_a_very_large_node_affinity_is_not_evaluated_and_costs_nothing() -> None:
    """Each requirement has one value."""
    given = [with_affinity(MOST_COMPARED // 2), with_affinity(MOST_COMPARED // 2 + 1, "large")]
    findings = Findings(Clock())

    found = look(snapshot(given, [claim()]), findings)

    assert reason(found) == "NodeAffinity"
    assert reason(found, "uid-team-large") == "NotEvaluated"
    assert len(findings.answers) == 1


def test_the_comparison_with_nodes_takes_time_as_selectors_do() -> None:
    """No device is published, so no selector is evaluated."""

    def check(_: int) -> None:
        raise OutOfTimeError("too long")

    waits, bound = with_affinity(1), with_affinity(1, "bound", "placed")
    given = snapshot([waits, bound], [claim(), claim("placed", "gpu-0", on="node-a")], slices=())

    found = Findings(Clock()).look(given, Answers(evaluate, check), NoRemarks(), 60)

    assert (reason(found), reason(found, "uid-team-bound")) == ("NotEvaluated", "NotEvaluated")


def test_nodes_are_compared_once_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    findings, compared = Findings(Clock()), list[Node]()
    given = snapshot([with_affinity(1)], [claim(device_name="gpu-0", on="node-a")])
    first = look(given, findings)

    def meets(node: Node, _: NodeSelector) -> bool:
        compared.append(node)
        return False

    monkeypatch.setattr(Node, "meets", meets)

    assert reason(look(given, findings)) == reason(first) == "ClaimElsewhere"
    assert compared == []


def test_what_takes_too_long_is_not_known() -> None:
    def check(_: int) -> None:
        raise OutOfTimeError("too long")

    given = snapshot([pod()], [claim()])

    found = Findings(Clock()).look(given, Answers(evaluate, check), NoRemarks(), 60)

    assert reason(found) == "NotEvaluated"


def test_what_took_too_long_is_tried_again_though_nothing_changes() -> None:
    findings, given = Findings(Clock()), snapshot([pod()], [claim(count=2)])

    def check(_: int) -> None:
        raise OutOfTimeError("too long")

    findings.look(given, Answers(evaluate, check), NoRemarks(), 60)
    later = snapshot([pod()], [claim(count=2)], seconds=100 + EASE + 1)

    assert reason(look(later, findings)) == "TooFew"


def test_a_fault_in_one_pod_hides_no_other() -> None:
    class Broken(NoRemarks):
        def events(self, pod: Pod) -> tuple[Event, ...]:
            if pod.metadata.namespace == "evil":
                raise RecursionError("secret")
            return ()

    pods = [pod("odd", namespace="evil"), pod()]
    found = look(snapshot(pods, [claim(), claim(namespace="evil")]), remarks=Broken())

    assert reason(found) == "Allocatable"
    assert reason(found, "uid-evil-odd") == "NotEvaluated"
    assert "secret" not in str(found.findings)
    assert [type(each) for each in found.errors] == [RecursionError]


def test_a_fault_in_one_computation_hides_no_other() -> None:
    def fails(expression: str, devices: Sequence[SelectedDevice]) -> list[Answer]:
        raise MemoryError(expression, devices)

    selectors = [{"cel": {"expression": "x"}}]
    pods = [pod(), pod("odd", "odd")]
    odd = msgspec.convert(
        {
            "metadata": {"name": "odd", "namespace": "team"},
            "spec": {"devices": {"requests": [request(selectors=selectors)]}},
        },
        Claim,
    )

    found = Findings(Clock()).look(snapshot(pods, [claim(), odd]), Answers(fails), NoRemarks(), 60)

    assert reason(found) == "Allocatable"
    assert reason(found, "uid-team-odd") == "NotEvaluated"
    assert len(found.errors) == 1


def test_absurd_amounts_of_a_resource_are_too_many_and_no_more() -> None:
    many = {"resources": {"requests": {"example.com/x": "9E"}}}
    evil = pod(containers=[{"name": f"c{n}", **many} for n in range(3)])

    found = look(snapshot([evil], [claim(count=2)]))

    assert (reason(found), found.errors) == ("TooFew", ())


def test_a_namespace_with_many_answers_leaves_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each answer has one group of devices, and names the claim that has the only one."""
    monkeypatch.setattr("allocation.explainer.findings.MOST_NAMES", 4 * 35)
    crowd = [pod(f"train-{n}", f"job-{n}", namespace="crowd") for n in range(9)]
    claims = [claim(f"job-{n}", count=2 + n, namespace="crowd") for n in range(9)]
    taken = claim("taken", "gpu-0")
    findings = Findings(Clock())
    look(snapshot(crowd, [*claims, taken]), findings)

    found = look(snapshot([*crowd, pod()], [*claims, taken, claim(count=99)]), findings)

    assert "uid-team-train" in found.findings
    assert found.unexplained == 4


def test_an_object_that_is_readable_again_makes_the_answer_anew() -> None:
    findings = Findings(Clock(0))
    bad = snapshot(
        [pod()], [claim(count=2)], unreadable="this version cannot read 1 resourceslices"
    )

    assert reason(look(bad, findings)) == "NotEvaluated"
    assert reason(look(snapshot([pod()], [claim(count=2)], seconds=101), findings)) == "TooFew"


def test_a_template_that_cannot_be_read_leaves_the_reason_open() -> None:
    class Unknown(NoRemarks):
        def templates(self, pod: Pod, claims: Collection[str]) -> None:  # noqa: ARG002 - of all pods
            return None

    found = look(snapshot([pod()], [claim()]), remarks=Unknown())

    assert (found.findings, found.unexplained) == ({}, 1)


def test_pods_of_device_plugins_alone_are_not_explained() -> None:
    requests = {"requests": {"example.com/fuse": "1"}}
    fuse = pod(claim="", containers=[{"name": "main", "resources": requests}])

    assert look(snapshot([fuse])).findings == {}


def test_between_allocation_and_binding_a_pod_is_about_to_be_bound() -> None:
    """Its condition still has the refusal of before."""
    waits = pod()
    given = snapshot([waits], [claim(device_name="gpu-0", reserved=[waits], allocated=90)])

    found = look(given).findings["uid-team-train"]

    assert (found.reason, found.since) == ("BindingPending", at(90))
