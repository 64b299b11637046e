"""What people say and do to incidents, on a real control plane, with the real kubectl."""

from datetime import timedelta

import msgspec

from kubeapi import clock
from tests.chain.scene import INCIDENTS, Scene, fresh
from tests.chain.test_fence_and_move import now, off_the_bus, with_xids
from tests.lab.cluster import RULES, Json, await_true
from tests.remediator.builders import gpu

EVICTING = """
defaults: {mode: enforce, settle: 1s, soak: 10s}
budget: {correlation: {after_change: 0s}}
"""
"""From the moment on that it is in force."""
FENCING = f"{EVICTING}classes: {{lost: {{ceiling: NoSchedule}}}}"
FENCED = {"node-a/gpu-0": "NoSchedule"}
EMPTIED = {"node-a/gpu-0": "NoExecute"}


def annotate(scene: Scene, answer: str, value: str) -> None:
    """Answer the only incident, as a person would."""
    name = scene.incident()["metadata"]["name"]
    scene.cluster.plane.kubectl(
        "annotate", "--overwrite", "deviceincident", name, f"draguard.dev/{answer}={value}"
    )


def for_seconds(seconds: float) -> str:
    end = clock.now() + timedelta(seconds=seconds)
    return f"{end:%Y-%m-%dT%H:%M:%SZ}; by=ana; why=a run must end first"


def told(incident: Json) -> list[str]:
    return [entry["text"] for entry in incident["status"]["timeline"]]


def test_a_hold_stops_the_eviction_until_it_expires(scene: Scene) -> None:
    one = gpu(0)
    scene.policy(FENCING)
    scene.node("node-a", one)
    scene.remediator()
    scene.report("node-a", off_the_bus(one))
    scene.await_rules(FENCED)
    await_true("the incident is told", scene.phase)
    counts = "a person's answer counts: hold until"
    annotate(scene, "hold", for_seconds(600))
    await_true("it counts", lambda: any(counts in one for one in told(scene.incident())))

    scene.policy(EVICTING)

    await_true("it says what it holds", lambda: held(scene) == ("True", "Human"))
    scene.holds_for(4, "nobody is moved", lambda: scene.rules() == FENCED)
    annotate(scene, "hold", for_seconds(15))  # less could be over before kubectl has written it
    scene.await_rules(EMPTIED)
    over = "a person's answer has run out"  # the status follows the rules
    await_true("its end is told", lambda: any(over in one for one in told(scene.incident())))
    texts = told(scene.incident())
    assert sum(counts in text for text in texts) == 2
    assert sum(over in text for text in texts) == 1
    await_true("an event says so", lambda: scene.events("AnswerTaken"))


def held(scene: Scene) -> tuple[str, str]:
    conditions = {one["type"]: one for one in scene.incident()["status"].get("conditions", [])}
    one = conditions.get("Held", {})
    return one.get("status", ""), one.get("reason", "")


def test_an_ignored_fault_is_let_go_and_counts_again_at_the_end(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    scene.remediator()
    scene.report("node-a", off_the_bus(one))
    scene.await_rules(EMPTIED)

    annotate(scene, "ignore", "as you like")
    await_true(
        "what cannot be read is said",
        lambda: any("changes nothing" in text for text in told(scene.incident())),
    )
    assert scene.rules() == EMPTIED
    annotate(scene, "ignore", for_seconds(600))

    scene.await_rules({})
    assert "closedAt" not in scene.incident()["status"]
    annotate(scene, "ignore", for_seconds(6))
    scene.await_rules(EMPTIED)


def test_a_rule_that_a_person_deletes_stays_away(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    remediator = scene.remediator()
    sick = off_the_bus(one)
    scene.report("node-a", sick)
    scene.await_rules(EMPTIED)
    await_true("the rule is recorded", lambda: scene.incident()["status"].get("rules"))

    (rule,) = scene.cluster.items(RULES)
    scene.cluster.plane.kubectl("delete", "devicetaintrule", rule["metadata"]["name"])

    await_true("it is noticed", lambda: scene.incident()["status"].get("deletedRules"))
    # Before the end of who posts it: nobody else would.
    await_true("an event says so", lambda: scene.events("RuleDeletedByPerson"))
    scene.holds_for(2, "it is not made again", lambda: scene.rules() == {})
    remediator.kill()
    scene.remediator()
    scene.holds_for(2, "not by the next one either", lambda: scene.rules() == {})

    again = msgspec.structs.replace(sick.xids[0], last_seen=clock.now(), count=2)
    scene.report("node-a", msgspec.structs.replace(sick, xids=(again,)))
    scene.await_rules(EMPTIED)


def test_the_third_episode_waits_for_a_person_who_confirms_the_repair(scene: Scene) -> None:
    one = gpu(0)
    scene.policy("defaults: {mode: enforce, settle: 200ms, soak: 1s}")
    scene.node("node-a", one)
    scene.remediator()
    for number in (1, 2, 3):
        record = now(95)
        scene.report("node-a", with_xids(one, record, recovery_action=fresh(1)))
        await_true("it is fenced", scene.rules)
        scene.report("node-a", with_xids(one, record, recovery_action=fresh(0)))
        await_phase_of(scene, number, "NeedsHuman" if number == 3 else "Recovered")

    third = scene.incidents()[-1]
    assert third["status"]["recurrence"] == 3
    assert third["status"]["message"].startswith("3rd episode in 30 days")
    assert scene.rules() != {}

    name = third["metadata"]["name"]
    word = "draguard.dev/confirmed-repaired=forever; by=ana; why=a new board is in"
    scene.cluster.plane.kubectl("annotate", "deviceincident", name, word)

    scene.await_rules({})
    await_phase_of(scene, 3, "Recovered")
    assert len(scene.cluster.items(INCIDENTS)) == 3


def await_phase_of(scene: Scene, number: int, phase: str) -> None:
    await_true(f"episode {number} is {phase}", lambda: phase_of(scene, number) == phase)


def phase_of(scene: Scene, number: int) -> str:
    """Return the phase of the n-th episode, "" before there is one."""
    found = [one for one in scene.incidents() if one["metadata"]["name"].endswith(f"-{number}")]
    return found[0].get("status", {}).get("phase", "") if found else ""
