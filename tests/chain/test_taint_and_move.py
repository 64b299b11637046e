"""What the real scheduler and the real eviction controller make of our rules."""

import msgspec

from exporter.model.node_health import GpuHealth, XidRecord
from kubeapi import clock
from simulator.cluster.workloads import gpu_request, mig_request
from tests.chain.scene import ENFORCE, INCIDENT_ONLY, Scene, fresh
from tests.lab.cluster import RULES, await_true
from tests.remediator.builders import gpu, mig_gpu, uuid, with_fields, xid

LASTING = "defaults: {mode: enforce, settle: 1s, soak: 1h}"
"""What was tainted stays so while a test looks at it, also where the fault passes by itself."""


def now(record_code: int, *, reset: bool | None = None, **fields: object) -> XidRecord:
    stamp, record = clock.now(), xid(record_code, reset=reset)
    return with_fields(record, first_seen=stamp, last_seen=stamp, **fields)


def with_xids(health: GpuHealth, *records: XidRecord, **fields: object) -> GpuHealth:
    return with_fields(health, xids=tuple(records), **fields)


def off_the_bus(health: GpuHealth) -> GpuHealth:
    return with_xids(health, now(79), presence="Lost", presence_since=clock.now())


def eight(node: str) -> list[GpuHealth]:
    return [gpu(index, node=node) for index in range(8)]


def test_one_dead_gpu_of_eight_costs_one_gpu_and_moves_one_pod(scene: Scene) -> None:
    first, second = eight("node-a"), eight("node-b")
    scene.node("node-a", *first)
    scene.train("train", 8, gpu_request())
    scene.node("node-b", *second)
    before = dict(scene.holders())
    scene.remediator()

    first[3] = off_the_bus(first[3])
    scene.report("node-a", *first)

    scene.await_rules({"node-a/gpu-3": "NoExecute"})
    incident = scene.await_phase("Drained")
    await_true("the replacement runs elsewhere", lambda: len(scene.holders()) == 8)
    moved = scene.holders()
    assert {device for uid, device in before.items() if uid not in moved} == {"node-a/gpu-3"}
    assert len(set(before) & set(moved)) == 7
    assert {device[:6] for uid, device in moved.items() if uid not in before} == {"node-b"}
    (rule,) = scene.cluster.items(RULES)
    assert "ownerReferences" not in rule["metadata"]
    assert rule["metadata"]["labels"]["draguard.dev/uuid"] == uuid(3)
    assert [entry["uid"] for entry in incident["status"]["scope"]["rules"]] == [
        rule["metadata"]["uid"]
    ]
    assert len(incident["status"]["eviction"]["evictedPods"]) == 1


def test_a_contained_error_costs_one_slice_and_six_keep_running(scene: Scene) -> None:
    scene.policy(LASTING)
    parts = mig_gpu(0)
    scene.node("node-a", parts)
    scene.train("infer", 7, mig_request("1g.10gb"))
    before = dict(scene.holders())
    scene.remediator()

    sick = with_xids(parts, now(94, gi=5, reset=False), recovery_action=fresh())
    scene.report("node-a", sick)

    scene.await_rules({"node-a/gpu-0-mig-1g10gb-19-4": "NoExecute"})
    await_true("the pod of the slice is gone", lambda: len(scene.holders()) == 6)
    after = scene.holders()
    assert set(before.items()) - set(after.items()) == {
        (uid, device) for uid, device in before.items() if device.endswith("-19-4")
    }


def test_the_instance_that_arrives_later_still_means_that_slice_only(scene: Scene) -> None:
    scene.policy(LASTING)
    parts = mig_gpu(0)
    scene.node("node-a", parts)
    scene.remediator()
    record = now(94, reset=False)

    scene.report("node-a", with_xids(parts, record, recovery_action=fresh()))
    await_true("an incident is open", scene.incidents)
    named = msgspec.structs.replace(record, gi=5)
    scene.report("node-a", with_xids(parts, named, recovery_action=fresh()))

    scene.await_rules({"node-a/gpu-0-mig-1g10gb-19-4": "NoExecute"})


def test_a_contained_error_that_nobody_places_never_goes_beyond_no_schedule(scene: Scene) -> None:
    parts = mig_gpu(0)
    scene.node("node-a", parts)
    scene.train("infer", 7, mig_request("1g.10gb"))
    scene.policy(LASTING)
    scene.remediator()

    scene.report("node-a", with_xids(parts, now(94), recovery_action=fresh()))

    scene.await_rules({f"node-a/gpu-0-mig-1g10gb-19-{n}": "NoSchedule" for n in range(7)})
    scene.holds_for(4, "NoSchedule at most", lambda: set(scene.rules().values()) == {"NoSchedule"})
    assert len(scene.holders()) == 7


def test_an_uncontained_error_taints_all_slices_first_and_no_sibling_gets_the_pod(
    scene: Scene,
) -> None:
    parts = mig_gpu(0)
    scene.node("node-a", parts)
    scene.train("infer", 5, mig_request("1g.10gb"))
    scene.remediator()
    seen: list[dict[str, str]] = []

    scene.report("node-a", with_xids(parts, now(95, reset=True), recovery_action=fresh(1)))

    everything = {f"node-a/gpu-0-mig-1g10gb-19-{n}": "NoExecute" for n in range(7)}

    def emptied() -> bool:
        seen.append(scene.rules())
        return seen[-1] == everything

    await_true("all slices are emptied", emptied)
    first_eviction = next(rules for rules in seen if "NoExecute" in rules.values())
    assert len(first_eviction) == 7
    await_true("all pods are gone", lambda: not scene.holders())
    scene.holds_for(2, "no replacement runs on a sibling", lambda: not scene.holders())


def test_application_xids_in_bursts_make_no_rule_and_no_incident(scene: Scene) -> None:
    all_eight = eight("node-a")
    scene.node("node-a", *all_eight)
    remediator = scene.remediator()

    burst = [now(code, count=500) for code in (13, 31, 43, 45)]
    all_eight[2] = with_xids(all_eight[2], *burst, recovery_action=fresh())
    scene.report("node-a", *all_eight)
    remediator.await_saying("node-a: 8 healthy, 0 sick, 0 unknown")

    all_eight[5] = off_the_bus(all_eight[5])
    scene.report("node-a", *all_eight)
    scene.await_rules({"node-a/gpu-5": "NoExecute"})
    assert len(scene.incidents()) == 1


def test_recovery_held_for_the_soak_time_gives_the_device_back(scene: Scene) -> None:
    scene.policy(LASTING)
    one = gpu(0)
    scene.node("node-a", one)
    scene.train("train", 1, gpu_request())
    scene.remediator()
    record = now(95)
    scene.report("node-a", with_xids(one, record, recovery_action=fresh(1)))
    scene.await_phase("Drained")

    scene.report("node-a", with_xids(one, record, recovery_action=fresh(0)))

    scene.await_phase("Verifying")
    scene.holds_for(2, "it is tainted", lambda: scene.rules() == {"node-a/gpu-0": "NoExecute"})
    scene.policy(ENFORCE)
    scene.await_rules({})
    incident = scene.await_phase("Recovered")
    phases = [entry["phase"] for entry in incident["status"]["timeline"]]
    assert phases[0] == "Tainted"
    assert phases[-2:] == ["Verifying", "Recovered"]
    await_true("the device is used again", lambda: len(scene.holders()) == 1)


def test_a_silent_agent_changes_nothing_in_either_direction(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    scene.agents_live = False
    scene.remediator("--stale-after", "2", "--resync", "0.5")
    record = now(95)

    def rules() -> dict[str, str]:
        scene.alive("node-a")
        return scene.rules()

    scene.report("node-a", with_xids(one, record, recovery_action=fresh(1)))
    await_true("it is tainted", lambda: rules() == {"node-a/gpu-0": "NoExecute"})
    scene.report("node-a", with_xids(one, record, recovery_action=fresh(0)))

    scene.holds_for(7, "the rule stays", lambda: bool(scene.rules()))

    await_true("it is released", lambda: not rules())


def test_a_node_deleted_and_registered_again_does_not_set_a_sick_gpu_free(scene: Scene) -> None:
    one, other = gpu(0), gpu(1)
    scene.node("node-a", one, other)
    scene.remediator()
    scene.report("node-a", off_the_bus(one), other)
    scene.await_rules({"node-a/gpu-0": "NoExecute"})
    uids = scene.rule_uids()

    scene.cluster.player.remove_node("node-a")
    scene.report("node-a", off_the_bus(one), off_the_bus(other))
    await_true("it decides without the node", lambda: len(scene.incidents()) == 2)
    scene.cluster.player.add_node("node-a")
    scene.publish("node-a", one, other)

    scene.await_rules({"node-a/gpu-0": "NoExecute", "node-a/gpu-1": "NoExecute"})
    assert uids < scene.rule_uids()


def test_incident_only_says_what_would_go_and_a_lowered_mode_takes_rules_down(
    scene: Scene,
) -> None:
    one = gpu(0)
    scene.policy(INCIDENT_ONLY)
    scene.node("node-a", one)
    scene.train("train", 1, gpu_request())
    scene.remediator()
    scene.report("node-a", off_the_bus(one))

    await_true("an incident is reported", scene.phase)
    status = scene.incident()["status"]
    assert [(would["device"], would["effect"]) for would in status["scope"]["plannedTaints"]] == [
        ("gpu.nvidia.com/node-a/gpu-0", "NoExecute")
    ]
    assert len(status["scope"]["affectedPods"]) == 1
    assert scene.rules() == {}

    scene.policy(
        "defaults: {mode: enforce, settle: 1s, soak: 60s}\n"
        "budget: {correlation: {after_change: 0s}}"
    )
    scene.await_rules({"node-a/gpu-0": "NoExecute"})
    scene.policy(INCIDENT_ONLY)
    scene.await_rules({})


def test_a_node_that_names_another_nodes_gpu_is_bound_to_nothing_and_reported(
    scene: Scene,
) -> None:
    mine, theirs = gpu(0, node="node-a"), gpu(0, node="node-b")
    scene.node("node-a", mine)
    scene.node("node-b", theirs)
    scene.remediator()
    stolen = off_the_bus(mine)

    scene.report("node-b", theirs, stolen)

    await_true("an event says so", lambda: scene.events("ForeignDevice"))
    assert {event["involvedObject"]["name"] for event in scene.events("ForeignDevice")} == {
        "node-b"
    }
    scene.report("node-b", off_the_bus(theirs), stolen)
    scene.await_rules({"node-b/gpu-0": "NoExecute"})

    scene.report("node-a", off_the_bus(mine))
    scene.await_rules({"node-a/gpu-0": "NoExecute", "node-b/gpu-0": "NoExecute"})
