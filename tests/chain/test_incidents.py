"""What users write into incidents, on a real control plane, with the real kubectl."""

from datetime import timedelta

import msgspec
import pytest

from kubeapi import clock
from simulator.cluster.controlplane import ControlPlaneError
from tests.chain.scene import INCIDENTS, Scene, fresh
from tests.chain.test_taint_and_move import now, off_the_bus, with_xids
from tests.lab.cluster import RULES, Json, await_true
from tests.remediator.builders import gpu

EVICTING = """
defaults: {mode: enforce, settle: 1s, soak: 10s}
budget: {correlation: {after_change: 0s}}
"""
"""From the moment on that it is in force."""
TAINTING = f"{EVICTING}classes: {{lost: {{ceiling: NoSchedule}}}}"
TAINTED = {"node-a/gpu-0": "NoSchedule"}
EMPTIED = {"node-a/gpu-0": "NoExecute"}


def intend(scene: Scene, field: str, intent: Json | None) -> None:
    """Write into the spec of the last incident, as a user would; None removes it."""
    name = scene.incidents()[-1]["metadata"]["name"]
    body = msgspec.json.encode({"spec": {field: intent}}).decode()
    scene.cluster.plane.kubectl("patch", "di", name, "--type=merge", f"--patch={body}")


def for_seconds(seconds: float) -> Json:
    end = clock.now() + timedelta(seconds=seconds)
    return {"until": f"{end:%Y-%m-%dT%H:%M:%SZ}", "by": "ana", "reason": "a run must end first"}


def timeline(incident: Json) -> list[str]:
    return [entry["text"] for entry in incident["status"]["timeline"]]


def test_a_hold_stops_the_eviction_until_it_expires(scene: Scene) -> None:
    one = gpu(0)
    scene.policy(TAINTING)
    scene.node("node-a", one)
    scene.remediator()
    scene.report("node-a", off_the_bus(one))
    scene.await_rules(TAINTED)
    await_true("the incident is reported", scene.phase)
    counts = "in force: hold until"
    intend(scene, "hold", for_seconds(600))
    await_true("it counts", lambda: any(counts in text for text in timeline(scene.incident())))

    scene.policy(EVICTING)

    await_true("it says what it holds", lambda: held(scene) == ("True", "Human"))
    assert scene.rules() == TAINTED
    intend(scene, "hold", for_seconds(15))  # less could be over before kubectl has written it
    scene.await_rules(EMPTIED)
    over = "expired: hold until"  # the status follows the rules
    await_true("its end is in it", lambda: any(over in text for text in timeline(scene.incident())))
    texts = timeline(scene.incident())
    assert sum(counts in text for text in texts) == 2
    assert sum(over in text for text in texts) == 1
    await_true("an event says so", lambda: scene.events("IntentInForce"))


def held(scene: Scene) -> tuple[str, str]:
    conditions = {
        condition["type"]: condition
        for condition in scene.incident()["status"].get("conditions", [])
    }
    one = conditions.get("Deferred", {})
    return one.get("status", ""), one.get("reason", "")


def test_an_ignored_fault_is_let_go_and_counts_again_at_the_end(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    scene.remediator()
    scene.report("node-a", off_the_bus(one))
    scene.await_rules(EMPTIED)

    for refused in ({"by": "ana"}, {**for_seconds(60), "until": "4h"}, {"by": "", "reason": "x"}):
        with pytest.raises(ControlPlaneError, match="is invalid"):
            intend(scene, "ignore", refused)
    assert scene.rules() == EMPTIED
    intend(scene, "ignore", for_seconds(600))

    scene.await_rules({})
    assert "closedTime" not in scene.incident()["status"]["history"]
    intend(scene, "ignore", for_seconds(6))
    scene.await_rules(EMPTIED)


def test_a_rule_that_a_person_deletes_is_made_again(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    scene.remediator()
    scene.report("node-a", off_the_bus(one))
    scene.await_rules(EMPTIED)

    (rule,) = scene.cluster.items(RULES)
    scene.cluster.plane.kubectl("delete", "devicetaintrule", rule["metadata"]["name"])

    scene.await_rules(EMPTIED)
    (again,) = scene.cluster.items(RULES)
    assert again["metadata"]["uid"] != rule["metadata"]["uid"]


def test_the_third_incident_waits_for_a_person_who_confirms_the_repair(scene: Scene) -> None:
    one = gpu(0)
    scene.policy("defaults: {mode: enforce, settle: 200ms, soak: 1s}")
    scene.node("node-a", one)
    scene.remediator()
    for number in (1, 2, 3):
        record = now(95)
        scene.report("node-a", with_xids(one, record, recovery_action=fresh(1)))
        await_true("it is tainted", scene.rules)
        scene.report("node-a", with_xids(one, record, recovery_action=fresh(0)))
        await_phase_of(scene, number, "NeedsHuman" if number == 3 else "Recovered")

    third = scene.incidents()[-1]
    assert third["status"]["history"]["recurrence"] == 3
    assert third["status"]["message"].startswith("3rd incident in 30 days")
    assert scene.rules() != {}

    intend(scene, "repairConfirmed", {"by": "ana", "reason": "a new board is in"})

    scene.await_rules({})
    await_phase_of(scene, 3, "Recovered")
    assert len(scene.cluster.items(INCIDENTS)) == 3


def test_the_next_incident_of_a_gpu_is_created_with_what_a_user_wants_for_it(scene: Scene) -> None:
    one = gpu(0)
    scene.policy("defaults: {mode: enforce, settle: 200ms, soak: 1s}")
    scene.node("node-a", one)
    scene.remediator()
    first = now(95)
    scene.report("node-a", with_xids(one, first, recovery_action=fresh(1)))
    await_true("it is tainted", scene.rules)
    await_true("it is reported", lambda: phase_of(scene, 1))
    intend(scene, "ignore", {"by": "ana", "reason": "a test board"})
    scene.await_rules({})
    scene.report("node-a", with_xids(one, first, recovery_action=fresh(0)))
    await_phase_of(scene, 1, "Recovered")

    scene.report("node-a", with_xids(one, now(95), recovery_action=fresh(1)))

    await_true("it is reported again", lambda: len(scene.incidents()) == 2)
    again = scene.incidents()[-1]["spec"]
    assert again["ignore"] == {"by": "ana", "reason": "a test board"}
    assert again["inheritedFrom"] == scene.incidents()[0]["metadata"]["name"]
    await_true(
        "it is read",
        lambda: scene.incidents()[-1].get("status", {}).get("policy", {}).get("intents"),
    )
    scene.holds_for(2, "nothing is tainted", lambda: scene.rules() == {})


def await_phase_of(scene: Scene, number: int, phase: str) -> None:
    await_true(f"incident {number} is {phase}", lambda: phase_of(scene, number) == phase)


def phase_of(scene: Scene, number: int) -> str:
    """Return the phase of the n-th incident, "" before there is one."""
    found = [
        incident
        for incident in scene.incidents()
        if incident["metadata"]["name"].endswith(f"-{number}")
    ]
    return found[0].get("status", {}).get("phase", "") if found else ""
