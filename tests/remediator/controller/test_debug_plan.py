"""The page that says what would be done now, for people and for programs."""

from collections.abc import Mapping

import msgspec

from remediator.controller.debug_plan import MOST, DebugPlan, node_plan
from remediator.plan.view import Fleet, NodeView
from serving.message import Request, Response
from tests.remediator.builders import Stored, at, dead, gpu, policy, until, uuid, view
from tests.remediator.playing import settle


class Eyes:
    def __init__(self, views: Mapping[str, NodeView]) -> None:
        self.views = views

    def peek(self, node: str) -> NodeView:
        return self.views[node]

    def fleet(self) -> Fleet:
        return Fleet()

    def known_nodes(self) -> set[str]:
        return set(self.views)

    def affected_nodes(self) -> set[str]:
        return {name for name in self.views if name != "node-quiet"}


def page(eyes: Eyes, accept: str = "", **query: str) -> Response:
    ask = DebugPlan(eyes, lambda: policy(mode="enforce"), lambda: "leader (one)", lambda: at(60))
    return ask(Request("/debug/plan", accept=accept, query=query))


SICK = Eyes({"node-a": view(dead(0), gpu(1)), "node-quiet": view(gpu(0), node="node-quiet")})


def test_people_read_which_rule_is_desired_and_why() -> None:
    stated = page(SICK).body.decode()

    assert "leader (one)" in stated
    assert uuid(0) in stated
    assert "desired: gpu.nvidia.com/node-a/gpu-0 NoSchedule" in stated
    assert "step: CreateRule gpu.nvidia.com/node-a/gpu-0 NoSchedule" in stated
    assert uuid(1) not in stated
    assert "node-quiet" not in stated


def test_the_sick_gpus_of_a_node_come_first_and_its_counts_are_apart() -> None:
    eyes = Eyes({"node-a": view(gpu(0), gpu(1), dead(2), gpu(3))})

    (node,) = msgspec.json.decode(page(eyes, node="node-a", format="json").body)["nodes"]

    assert [gpu["index"] for gpu in node["gpus"]] == [2, 0, 1, 3]
    assert node["counts"] == "3 healthy, 1 sick, 0 unknown"


def test_the_page_names_the_cluster_that_has_a_name() -> None:
    ask = DebugPlan(SICK, lambda: policy(mode="enforce"), lambda: "alone", lambda: at(60), "east-1")
    assert ask(Request("/debug/plan")).body.decode().startswith("cluster east-1, ")
    programs = ask(Request("/debug/plan", query={"format": "json"}))
    assert msgspec.json.decode(programs.body)["cluster"] == "east-1"


def test_programs_read_the_same_as_json_by_header_or_by_query() -> None:
    for answer in (page(SICK, accept="application/json"), page(SICK, format="json")):
        reported = msgspec.json.decode(answer.body)
        (node,) = reported["nodes"]
        assert answer.content_type == "application/json"
        assert node["node"] == "node-a"
        assert [gpu["uuid"] for gpu in node["gpus"]] == [uuid(0)]
        assert node["gpus"][0]["verdict"].startswith("sick: ")
        assert "CreateRule gpu.nvidia.com/node-a/gpu-0 NoSchedule" in node["steps"]


def test_a_requested_node_shows_all_its_gpus() -> None:
    quiet = page(SICK, node="node-quiet").body.decode()

    assert "verdict: healthy" in quiet


def test_an_unknown_node_is_reported_as_unknown() -> None:
    assert page(SICK, node="node-z").status == 404


def test_the_page_is_bounded_and_says_what_it_leaves_out() -> None:
    many = {f"node-{number}": view(gpu(0)) for number in range(MOST + 5)}

    stated = page(Eyes(many)).body.decode()

    assert "5 more nodes are left out" in stated


def test_where_nothing_is_wrong_it_says_so() -> None:
    assert "no node has an open incident" in page(Eyes({})).body.decode()


def test_a_deferral_leaves_what_is_true_beside_the_step_that_it_defers() -> None:
    stored, sticky = Stored(), policy(sticky=True)
    settle(stored, view(dead()), 1, sticky)
    stored.intend("Hold", until(100))

    (planned,) = node_plan(settle(stored, view(dead()), 50, sticky), everything=True).gpus

    assert planned.deferred.startswith("Human: new actions deferred")
    assert planned.why.endswith("; ".join(planned.remarks))
    assert "a user must confirm the repair" in planned.remarks[0]
