"""Where pods stand: once for all that are alike, the oldest answers first."""

import msgspec

from allocation.explainer.findings import EASE, Findings, Look
from allocation.model.events import Event
from exporter.model.device import Device
from tests.allocation.builders import DRIVER
from tests.allocation.explainer.snapshots import NoRemarks, claim, look, pod, snapshot


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
    assert found.oldest == given.at


def test_no_claim_of_another_namespace_is_named() -> None:
    taken = claim("secret", "gpu-0", namespace="others")
    given = snapshot([pod(), pod(namespace="others")], [claim(), claim(namespace="others"), taken])

    found = look(given).findings

    mine, theirs = found["uid-team-train"], found["uid-others-train"]
    assert "secret" not in str(mine)
    assert "1 claim of another namespace" in mine.message
    assert "others/secret" in theirs.message


def test_pods_that_are_alike_are_computed_once() -> None:
    clock = Clock(0)
    pods = [pod(f"train-{n}", f"job-{n}") for n in range(5)]
    claims = [claim(f"job-{n}", count=2) for n in range(5)]
    findings = Findings(clock)

    found = look(snapshot(pods, claims), findings)

    assert {each.reason for each in found.findings.values()} == {"TooFew"}
    assert len(findings.answers) == 1


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

    assert third.oldest is not None
    assert (snapshot(seconds=1000).at - third.oldest).total_seconds() == 800


def test_an_answer_stays_while_nothing_changes() -> None:
    findings, given = Findings(Clock()), snapshot([pod()], [claim(count=2)])
    look(given, findings)

    again = look(snapshot([pod()], [claim(count=2)], seconds=1000), findings)

    assert again.oldest == given.at


def test_an_answer_that_was_costly_is_kept_for_longer() -> None:
    findings, first = Findings(Clock()), snapshot([pod()], [claim(count=2)])
    look(first, findings)
    soon = snapshot([pod()], [claim(count=2)], version=2, seconds=100 + EASE - 1)
    later = snapshot([pod()], [claim(count=2)], version=3, seconds=100 + EASE + 1)

    assert look(soon, findings).oldest == first.at
    assert look(later, findings).oldest == later.at


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
