"""What is observed of the cluster, found again by node, and which nodes are queued."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from exporter.model.device import Device
from exporter.model.node_health import Inventory, NodeDeviceHealth, NodeHealth
from exporter.model.resource_slices import ResourceSlice
from kubeapi.types import ObjectMeta
from remediator.controller.cache import Cache
from remediator.model import taint_rule
from remediator.model.incident import Incident, IncidentSpec, incident_name
from remediator.model.incident_status import IncidentStatus, ScopeStatus, Target
from remediator.model.taint_rule import RawRule, Rule
from remediator.plan.boards import bind_boards
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.steps import OpenIncident
from tests.chain.scene import resource_slice
from tests.remediator.builders import (
    DRIVER,
    at,
    gpu,
    last_named,
    make_status,
    policy,
    published,
    report,
    uuid,
    with_fields,
)
from tests.remediator.playing import claim


class Marks(list[str]):
    def __call__(self, node: str) -> None:
        self.append(node)

    def taken(self) -> set[str]:
        found = set(self)
        self.clear()
        return found


def believed(_: str) -> str:
    """Every agent is alive."""
    return ""


@pytest.fixture
def marks() -> Marks:
    return Marks()


@pytest.fixture
def cache(marks: Marks) -> Cache:
    return Cache(marks)


def health(name: str, status: NodeHealth) -> NodeDeviceHealth:
    return NodeDeviceHealth(ObjectMeta(name=name), status)


def slice_of(node: str, *indexes: int, generation: int = 1, count: int = 1) -> ResourceSlice:
    devices = [device for index in indexes for device in published(gpu(index, node=node), node)]
    body: dict[str, Any] = resource_slice(node, devices)
    body["spec"]["pool"] |= {"generation": generation, "resourceSliceCount": count}
    return msgspec.convert(body, ResourceSlice)


def raw_rule(
    node: str = "node-a",
    version: str = "5",
    effect: taint_rule.Effect = "NoSchedule",
    device: Device | None = None,
) -> RawRule:
    rule = Rule(
        device=device or published(gpu(0, node=node), node)[0].device,
        effect=effect,
        fault="gpu",
        cause="xid-95",
        incident="gpu-1",
        uuid=uuid(0, node),
        gpu=uuid(0, node),
        node=node,
    )
    raw = msgspec.convert(taint_rule.manifest(rule, "v1"), RawRule)
    meta = msgspec.structs.replace(raw.metadata, uid="u1", resource_version=version)
    return msgspec.structs.replace(raw, metadata=meta)


def incident(node: str = "node-a", version: str = "5") -> Incident:
    target = Target(DRIVER, node, "gpu-0", uuid(0, node))
    spec = IncidentSpec(node, uuid(0, node))
    found = make_status(fault_class="gpu", phase="Suspected", scope=ScopeStatus("", (target,)))
    return Incident(ObjectMeta(name=f"{node}-1", uid="u", resource_version=version), spec, found)


def test_a_report_a_slice_and_a_rule_mark_their_node(cache: Cache, marks: Marks) -> None:
    acts: list[Callable[[], None]] = [
        lambda: cache.put_report("node-a", health("node-a", report(gpu(0)))),
        lambda: cache.put_slice("s1", None, slice_of("node-a", 0)),
        lambda: cache.put_rule(raw_rule().metadata.name, raw_rule()),
        lambda: cache.put_incident("node-a-1", incident()),
    ]
    for act in acts:
        act()
        assert marks.taken() == {"node-a"}


def test_a_claim_marks_the_nodes_whose_rules_or_incidents_it_touches(
    cache: Cache, marks: Marks
) -> None:
    cache.put_incident("node-a-1", incident())
    marks.clear()

    cache.put_claim("team/c", None, claim("gpu-0"))
    assert marks.taken() == {"node-a"}
    cache.put_claim("team/c", claim("gpu-0"), None)
    assert marks.taken() == {"node-a"}
    assert cache.view("node-a", believed).usage.claims == ()


def test_a_view_holds_what_belongs_to_the_node_and_nothing_else(cache: Cache) -> None:
    for node in ("node-a", "node-b"):
        cache.put_report(node, health(node, report(gpu(0, node=node))))
        cache.put_slice(f"s-{node}", None, slice_of(node, 0))
        raw = raw_rule(node)
        cache.put_rule(raw.metadata.name, raw)
        cache.put_incident(f"{node}-1", incident(node))
    cache.put_claim("team/c", None, claim("gpu-0"))

    seen = cache.view("node-a", believed)

    assert {device.device.pool for device in seen.slices.inventory} == {"node-a"}
    assert [rule.node for rule in seen.stored.rules] == ["node-a"]
    assert [entry.node for entry in seen.stored.incidents] == ["node-a"]
    assert len(seen.usage.claims) == 1
    assert cache.view("node-b", believed).usage.claims == ()
    assert seen.slices.elsewhere == {}


@pytest.mark.parametrize("pool", ["node-a", "pool-7"])
def test_a_claim_marks_the_node_of_its_pool_where_the_sick_gpu_is_not_published(
    cache: Cache, marks: Marks, pool: str
) -> None:
    raw = slice_of("node-a", 1)
    spec = msgspec.structs.replace(raw.spec, pool=msgspec.structs.replace(raw.spec.pool, name=pool))
    cache.put_slice("s1", None, msgspec.structs.replace(raw, spec=spec))
    held = claim("gpu-1", pool=pool)
    marks.taken()
    cache.put_claim("team/c", None, held)
    assert marks.taken() == set(), "nothing is wrong there"
    status = make_status(fault_class="lost", phase="Suspected")
    cache.put_incident("node-a-1", msgspec.structs.replace(incident(), status=status))
    marks.taken()
    cache.put_claim("team/c", held, None)
    assert marks.taken() == {"node-a"}
    cache.put_slice("s1", msgspec.structs.replace(raw, spec=spec), None)
    marks.taken()
    cache.put_claim("team/c", None, held)
    assert marks.taken() == ({"node-a"} if pool == "node-a" else set())


def test_claims_on_what_is_published_no_more_are_in_the_view(cache: Cache) -> None:
    published_once = slice_of("node-a", 0)
    cache.put_slice("s", None, published_once)
    cache.put_claim("team/c", None, claim("gpu-0"))
    rack = claim("gpu-9", "other", driver="gpu.example.com", pool="rack-7")
    cache.put_claim("team/d", None, rack)
    scope = ScopeStatus("whole GPU", (Target("gpu.example.com", "rack-7", "gpu-8", uuid(3)),))
    incident = Incident(
        ObjectMeta(name=incident_name(uuid(3), 1), uid="u"),
        IncidentSpec("node-a", uuid(3)),
        make_status(fault_class="lost", scope=scope),
    )
    cache.put_incident(incident.name, incident)

    cache.put_slice("s", published_once, None)

    held = {entry.metadata.name for entry in cache.view("node-a", believed).usage.claims}
    assert held == {"claim-of-train-0", "claim-of-other"}


@pytest.mark.parametrize(("node", "counts"), [("node-a", 0), ("node-b", 1)])
def test_what_was_published_last_counts_until_its_node_publishes_into_that_pool(
    cache: Cache, node: str, counts: int
) -> None:
    """The driver itself, without that GPU. What another node publishes there is a lie."""
    cache.put_report("node-a", health("node-a", report(last_named(gpu(0)))))
    (device,) = published(gpu(0))
    cache.put_claim("team/c", None, claim("gpu-0"))

    seen = cache.view("node-a", believed)
    assert [part.device for part in seen.slices.last_published] == [device.device]
    assert len(seen.usage.claims) == 1

    others = slice_of("node-a", 1)
    others = with_fields(others, spec=with_fields(others.spec, node_name=node))
    cache.put_slice("s1", None, others)
    assert len(cache.view("node-a", believed).slices.last_published) == counts

    cache.put_slice("s1", others, None)
    assert len(cache.view("node-a", believed).slices.last_published) == 1


def test_a_node_that_reports_the_gpu_of_a_node_whose_driver_is_away_takes_nothing_from_it(
    cache: Cache,
) -> None:
    one = slice_of("node-a", 0)
    cache.put_slice("s1", None, one)
    cache.put_slice("s1", one, None)
    for node in ("node-a", "node-b"):
        cache.put_report(node, health(node, report(last_named(gpu(0)))))

    assert cache.view("node-a", believed).slices.elsewhere == {}
    assert cache.view("node-b", believed).slices.elsewhere == {uuid(0): ("node-a",)}


def test_a_gpu_that_two_nodes_name_is_contested_for_both_until_one_stops(
    cache: Cache, marks: Marks
) -> None:
    cache.put_report("node-a", health("node-a", report(gpu(0))))
    marks.clear()

    cache.put_report("node-b", health("node-b", report(gpu(0), gpu(1, node="node-b"))))

    assert marks.taken() == {"node-a", "node-b"}
    assert cache.view("node-a", believed).slices.elsewhere == {uuid(0): ("node-b",)}
    assert cache.view("node-b", believed).slices.elsewhere == {uuid(0): ("node-a",)}
    cache.put_report("node-b", health("node-b", report(gpu(1, node="node-b"))))
    assert marks.taken() == {"node-a", "node-b"}
    assert cache.view("node-a", believed).slices.elsewhere == {}


def test_a_gpu_that_another_node_publishes_is_contested_although_that_node_is_silent(
    cache: Cache,
) -> None:
    cache.put_slice("s1", None, slice_of("node-a", 0))

    cache.put_report("node-b", health("node-b", report(gpu(0))))

    assert cache.view("node-b", believed).slices.elsewhere == {uuid(0): ("node-a",)}


def test_a_node_that_only_reports_the_gpu_of_another_one_takes_nothing_from_it(
    cache: Cache,
) -> None:
    """Else one lying agent could keep any GPU of the cluster from being tainted."""
    cache.put_slice("s1", None, slice_of("node-a", 0))
    cache.put_report("node-a", health("node-a", report(gpu(0))))

    cache.put_report("node-b", health("node-b", report(gpu(0))))

    assert cache.view("node-a", believed).slices.elsewhere == {}
    assert cache.view("node-b", believed).slices.elsewhere == {uuid(0): ("node-a",)}


def test_a_gpu_that_two_nodes_publish_is_contested_for_both(cache: Cache) -> None:
    for node in ("node-a", "node-b"):
        one = slice_of("node-a", 0)
        spec = msgspec.structs.replace(one.spec, node_name=node)
        cache.put_slice(f"of-{node}", None, msgspec.structs.replace(one, spec=spec))
        cache.put_report(node, health(node, report(gpu(0))))

    assert cache.view("node-a", believed).slices.elsewhere == {uuid(0): ("node-b",)}
    assert cache.view("node-b", believed).slices.elsewhere == {uuid(0): ("node-a",)}


def test_an_answer_to_our_own_write_is_not_undone_by_an_older_event(cache: Cache) -> None:
    name = raw_rule().metadata.name
    cache.put_rule(name, raw_rule(version="7", effect="NoExecute"))
    cache.put_incident("node-a-1", incident(version="7"))

    cache.put_rule(name, raw_rule(version="6"))
    cache.put_incident("node-a-1", incident(version="6"))

    assert [rule.effect for rule in cache.rules()] == ["NoExecute"]
    assert [entry.metadata.resource_version for entry in cache.incidents()] == ["7"]


def test_what_a_list_tells_counts_though_its_version_is_older(cache: Cache) -> None:
    """After a restore of etcd versions fall; the answers to our own writes are of the past."""
    name = raw_rule().metadata.name
    cache.put_rule(name, raw_rule(version="7", effect="NoExecute"))
    cache.put_incident("node-a-1", incident(version="7"))

    cache.put_rule(name, raw_rule(version="6"), listed=True)
    cache.put_incident("node-a-1", incident(version="6"), listed=True)

    assert [rule.effect for rule in cache.rules()] == ["NoSchedule"]
    assert [entry.metadata.resource_version for entry in cache.incidents()] == ["6"]


def test_a_late_word_of_a_deletion_takes_no_object_that_was_made_again(cache: Cache) -> None:
    name = raw_rule().metadata.name
    cache.put_rule(name, raw_rule())
    cache.put_incident("node-a-1", incident())

    cache.put_rule(name, None, gone="an-older-one")
    cache.put_incident("node-a-1", None, gone="an-older-one")
    assert len(cache.rules()) == len(cache.incidents()) == 1

    cache.put_rule(name, None, gone="u1")
    cache.put_incident("node-a-1", None, gone="u")
    assert not cache.rules()
    assert not cache.incidents()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("all_nodes", True),
        ("node_selector", {"nodeSelectorTerms": []}),
        ("per_device_node_selection", True),
    ],
)
def test_why_a_gpu_of_a_pool_without_a_node_has_no_device_is_known(
    cache: Cache, field: str, value: object
) -> None:
    one = slice_of("node-a", 0)
    spec = with_fields(one.spec, node_name="", **{field: value})
    floating = msgspec.structs.replace(one, spec=spec)
    cache.put_report("node-a", health("node-a", report(gpu(0), gpu(1))))
    cache.put_slice("s1", None, floating)

    (why,) = cache.view("node-a", believed).slices.unbound.values()
    name = field.split("_", maxsplit=1)[0] + "".join(part.title() for part in field.split("_")[1:])
    assert f"by {name} where it is" in why
    cache.put_slice("s1", floating, None)
    assert cache.view("node-a", believed).slices.unbound == {}


def test_why_a_gpu_of_a_pool_that_spans_nodes_has_no_device_is_known(cache: Cache) -> None:
    cache.put_report("node-a", health("node-a", report(gpu(0))))
    cache.put_slice("s1", None, slice_of("node-a", 0, count=2))
    assert "not published by this node as a whole" in str(
        cache.view("node-a", believed).slices.unbound
    )


def test_a_pool_in_the_middle_of_an_update_keeps_its_devices(cache: Cache) -> None:
    old = slice_of("node-a", 0, 1)
    cache.put_slice("s1", None, old)

    cache.put_slice("s1", old, slice_of("node-a", 0, generation=2, count=2))

    names = [device.device.device for device in cache.view("node-a", believed).slices.inventory]
    assert names == ["gpu-0", "gpu-1"]


def test_everything_forgotten_is_gone(cache: Cache) -> None:
    one = slice_of("node-a", 0)
    cache.put_report("node-a", health("node-a", report(gpu(0))))
    cache.put_slice("s1", None, one)
    cache.put_rule(raw_rule().metadata.name, raw_rule())
    cache.put_incident("node-a-1", incident())
    assert cache.nodes() == {"node-a"}

    cache.put_report("node-a", None)
    cache.put_slice("s1", one, None)
    cache.put_rule(raw_rule().metadata.name, None)
    cache.put_incident("node-a-1", None)

    seen = cache.view("node-a", believed)
    assert (seen.agent.report, seen.slices.inventory, seen.stored.rules, seen.stored.incidents) == (
        None,
        (),
        (),
        (),
    )
    assert cache.nodes() == frozenset()


def silent_a(node: str) -> str:
    return "silent" if node == "node-a" else ""


def decided(cache: Cache) -> NodeDecision:
    return decide_node(cache.view("node-a", silent_a), cache.fleet(), policy(), at(1))


OPEN = make_status(fault_class="gpu", cause="xid-95")


def reported_elsewhere(status: IncidentStatus = OPEN) -> Incident:
    """The incident of a board of node-a that was opened while it was on node-b."""
    name = incident_name(uuid(0), 1)
    meta = ObjectMeta(name=name, uid="i", resource_version="3")
    return Incident(meta, IncidentSpec("node-b", uuid(0)), status)


def test_a_rule_whose_incident_another_node_has_opened_gets_no_second_one(cache: Cache) -> None:
    """The board has moved, the node that it has left is silent, and the other one is gone."""
    raw, incident = raw_rule(), reported_elsewhere()
    cache.put_rule(raw.metadata.name, raw)
    cache.put_incident(incident.name, incident)

    assert cache.view("node-a", silent_a).stored.incidents == (incident,)
    assert decided(cache).steps == [], "one node tells it: two would write over each other"


def test_a_published_gpu_that_nobody_reports_goes_on_with_its_incidents(cache: Cache) -> None:
    """Its last one was opened under another node, where the board was then."""
    past = make_status(
        fault_class="gpu", phase="Recovered", closed_at=at(-9999), handled_through=at(-9999)
    )
    incident = reported_elsewhere(past)
    cache.put_incident(incident.name, incident)
    cache.put_slice("s1", None, slice_of("node-a", 0, 1))
    missing = with_fields(report(gpu(1)), inventory=Inventory(missing=(gpu(0).pci_bus_id,)))
    cache.put_report("node-a", health("node-a", missing))

    decision = decide_node(cache.view("node-a", believed), cache.fleet(), policy(), at(5000))

    opened = [step.incident.name for step in decision.steps if isinstance(step, OpenIncident)]
    assert opened == [incident_name(uuid(0), 2)]


def test_the_incident_of_a_board_is_reported_where_it_is_published_though_nobody_reports_it(
    cache: Cache,
) -> None:
    incident = reported_elsewhere()
    cache.put_incident(incident.name, incident)
    cache.put_slice("s1", None, slice_of("node-a", 0))

    (board,) = bind_boards(cache.view("node-a", silent_a), at(1))

    assert board.incidents == (incident,)
    assert not board.presence.elsewhere
