"""Writes side by side: each node's in order, budgets count them, an error reaches who decides."""

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.model.node_health import GpuHealth
from kubeapi.client import ApiError, Client
from kubeapi.versions import Versioned
from remediator.controller.apply import NotLeadingError, Writer
from remediator.controller.cache import Cache
from remediator.controller.rate_limit import Pace
from remediator.controller.rejected_fields import Unstored
from remediator.controller.write_pool import Senders
from remediator.plan.events import Event
from remediator.plan.steps import CreateRule, Step
from remediator.plan.view import Fleet, NodeView
from remediator.policy.limits import LIFTED, Cap, Caps
from remediator.reconcile import Reconciler, StepsFailedError
from tests.lab.cluster import await_true
from tests.remediator.builders import at, dead, policy, report, rule, uuid
from tests.remediator.controller.test_cache import Marks, believed, health, slice_of

CAP = 2


class Server:
    """Stores rules, each when it may; those of some nodes it refuses."""

    def __init__(self, refused: frozenset[str] = frozenset()) -> None:
        self.open = threading.Event()
        self.refused = refused
        self.stored: list[str] = []

    def create(self, _path: str, body: Mapping[str, Any]) -> bytes:
        assert self.open.wait(60)
        pool = body["spec"]["deviceSelector"]["pool"]
        if pool in self.refused:
            raise ApiError("no", status=500)
        self.stored.append(pool)
        meta = {**body["metadata"], "uid": f"u-{pool}", "resourceVersion": "7"}
        return msgspec.json.encode({**body, "metadata": meta})


class Served:
    """A collection of rules whose version is known."""

    version = "v1"
    switches = 1
    path = "/rules"


class Controller:
    """World and writer as the cluster joins them, in a hurry; nothing else is queried."""

    def __init__(self, server: Server) -> None:
        self.marks, self.leading = Marks(), True
        self.cache = Cache(self.marks)
        # By a clock that stands: a long hurry lets an incident pass, and none is stored.
        pace = Pace(1e3, 1e3, clock=lambda: 0.0, has_urgent=lambda: True)
        client, rules = cast("Client", server), cast("Versioned[Any]", Served())
        self.writer = Writer(
            client, self.cache, rules, pace, lambda: self.leading, unstored=Unstored()
        )

    def observe(self, node: str) -> NodeView:
        self.writer.turn_to(node)
        return self.cache.view(node, believed)

    def confirm(self, *_: object) -> str:
        return ""

    def fleet(self) -> Fleet:
        return self.cache.fleet()

    def apply(self, step: Step) -> None:
        self.writer.apply(step)

    def post(self, event: Event, now: datetime) -> None:
        """Events are not what is looked at."""


@contextmanager
def at_work(server: Server) -> Generator[Controller]:
    """Controller whose senders end with the test."""
    controller = Controller(server)
    try:
        yield controller
    finally:
        server.open.set()
        controller.writer.stop()


def dead_on(node: str) -> GpuHealth:
    return dead(uuid=uuid(0, node))


def test_a_rule_under_way_is_counted_by_budgets_and_seen_by_no_decision() -> None:
    with at_work(server := Server()) as controller:
        controller.writer.turn_to("node-a")
        controller.writer.apply(CreateRule(rule()))

        assert [taint_rule.gpu for taint_rule in controller.cache.fleet().rules] == [rule().gpu]
        assert controller.cache.view("node-a", believed).stored.rules == ()
        server.open.set()
        controller.writer.turn_to("node-a")
        assert [taint_rule.uid for taint_rule in controller.cache.fleet().rules] == ["u-node-a"]


def test_a_rule_that_was_refused_counts_no_more_and_its_node_is_queued_once() -> None:
    with at_work(server := Server(frozenset({"node-a"}))) as controller:
        controller.writer.turn_to("node-a")
        controller.writer.apply(CreateRule(rule()))
        server.open.set()

        await_true("its node is marked", lambda: "node-a" in controller.marks)
        assert controller.cache.fleet().rules == ()
        controller.writer.turn_to("node-b")
        with pytest.raises(ApiError, match="no"):
            controller.writer.turn_to("node-a")
        controller.writer.turn_to("node-a")


def test_a_replica_that_lost_the_lead_sends_nothing_more() -> None:
    with at_work(server := Server()) as controller:
        server.open.set()
        answers = iter((True, False))
        controller.writer = Writer(
            cast("Client", server),
            controller.cache,
            cast("Versioned[Any]", Served()),
            Pace(1, 5, has_urgent=lambda: True),
            lambda: next(answers),
            unstored=Unstored(),
        )
        controller.writer.turn_to("node-a")
        controller.writer.apply(CreateRule(rule()))

        with pytest.raises(NotLeadingError):
            controller.writer.turn_to("node-a")
        assert server.stored == []


def test_when_all_senders_are_busy_the_worker_writes_itself() -> None:
    senders, gate = Senders(most=2), threading.Event()
    try:
        taken = [senders.send(f"node-{number}", gate.wait) for number in range(3)]
        assert taken == [True, True, False]
        gate.set()
        senders.join("node-0")
        assert senders.send("node-3", gate.wait)
    finally:
        gate.set()
        senders.stop()


def test_what_was_handed_back_to_the_worker_is_not_written_a_second_time() -> None:
    """As when there is no room for a thread more: the pool has queued it, and raises."""
    senders, gate, written = Senders(most=2), threading.Event(), list[str]()
    try:
        assert senders.send("node-0", gate.wait)
        with no_more_threads():
            assert not senders.send("node-1", lambda: written.append("by a sender"))
        gate.set()
        senders.join("node-0")
        assert senders.send("node-2", lambda: written.append("node-2"))
        senders.join("node-2")
        senders.join("node-1")
        assert written == ["node-2"]
    finally:
        gate.set()
        senders.stop()


@contextmanager
def no_more_threads() -> Generator[None]:
    """Have the kernel refuse new threads for the size of their stacks."""
    before = threading.stack_size(1 << 60)  # beyond every address space, however memory is lent
    try:
        yield
    finally:
        threading.stack_size(before)


@settings(deadline=None, max_examples=30)
@given(
    order=st.permutations(range(6)),
    refused=st.sets(st.integers(0, 5)),
    opens_after=st.integers(0, 6),
)
def test_no_budget_is_exceeded_however_late_the_answers_come(
    order: list[int], refused: set[int], opens_after: int
) -> None:
    server = Server(frozenset(f"node-{number}" for number in refused))
    with at_work(server) as controller:
        for number in order:
            node = f"node-{number}"
            controller.cache.put_report(node, health(node, report(dead_on(node))))
            controller.cache.put_slice(node, None, slice_of(node, 0))
        limits = msgspec.structs.replace(LIFTED, taint=Caps(cluster=Cap(CAP)))
        reconciler = Reconciler(controller, lambda: policy(limits))
        nodes = [f"node-{number}" for number in order]
        for number, node in enumerate(nodes):
            if number == opens_after:
                server.open.set()
            with suppress(StepsFailedError, ApiError):
                reconciler.reconcile(node, at(0))
        server.open.set()
        for node in nodes:
            with suppress(ApiError):
                controller.writer.turn_to(node)
        assert len(server.stored) <= CAP
        for node in nodes:
            if node not in server.refused:
                with suppress(StepsFailedError):
                    reconciler.reconcile(node, at(1))
                controller.writer.turn_to(node)

    assert len(server.stored) == min(CAP, 6 - len(refused))
