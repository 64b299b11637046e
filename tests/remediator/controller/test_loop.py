"""The queue and the loop: nothing is lost, nothing runs twice at once, one failure stops nobody."""

import threading
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kubeapi import clock
from kubeapi.client import ApiError
from remediator.controller.loop import LONGEST_RETRY, LONGEST_SENTENCE, Loop, Queue, retry_after
from remediator.controller.metrics import Metrics
from remediator.plan.events import Event
from remediator.plan.steps import Step, gpu_of
from remediator.plan.view import Fleet, NodeView
from remediator.policy.table import Policy
from remediator.reconcile import Reconciler
from tests.lab.cluster import await_true
from tests.remediator.builders import NODE, Stored, dead, gpu, policy, uuid, view, xid


def test_a_node_waits_once_however_often_it_is_added() -> None:
    queue = Queue()
    for _ in range(5):
        queue.add("node-a")

    assert queue.take(0.1) == "node-a"
    assert queue.take(0.01) is None


def test_the_sooner_of_two_dates_counts() -> None:
    queue = Queue()
    queue.add("node-a", delay=60)
    queue.add("node-a")

    assert queue.take(0.1) == "node-a"


def test_a_node_that_waits_does_not_hold_up_the_others() -> None:
    queue = Queue()
    queue.add("later", delay=0.2)
    queue.add("now")

    assert queue.take(0.1) == "now"
    assert queue.take(60) == "later"


class Controller:
    """Shows healthy nodes; some nodes make trouble."""

    def __init__(self, trouble: dict[str, list[Exception]]) -> None:
        self.trouble = trouble
        self.seen: list[str] = []
        self.shown: NodeView | None = None

    def observe(self, node: str) -> NodeView:
        self.seen.append(node)
        if self.trouble.get(node):
            raise self.trouble[node].pop()
        return self.shown or view(gpu(0, node=node), node=node)

    def confirm(self, *_: object) -> str:
        return ""

    def fleet(self) -> Fleet:
        return Fleet()

    def apply(self, step: Step) -> None:
        """Healthy nodes have no steps."""

    def post(self, event: Event, now: datetime) -> None:
        """Nor events."""


def test_a_failing_node_is_tried_again_and_the_others_go_on() -> None:
    trouble: list[Exception] = [ApiError("no answer"), ValueError("a bug")]
    controller = Controller({"bad": trouble})
    queue, metrics = Queue(), Metrics()
    loop = Loop(Reconciler(controller, Policy), queue, metrics, now=clock.now)
    ticks: list[float] = []
    loop.schedule(0.05, lambda: ticks.append(1.0), "tick")
    loop.schedule(0.05, lambda: 1 / 0, "broken timer")
    worker = threading.Thread(target=loop.run)
    worker.start()
    try:
        queue.add("bad")
        queue.add("good")
        await_true("one was, again and again", lambda: controller.seen.count("bad") == 3)
        await_true("the other was too", lambda: "good" in controller.seen)
        await_true("timers run", lambda: len(ticks) > 2)
        failed = "draguard_remediator_timer_failures_total"
        await_true(
            "one fails", lambda: f"{failed} 0.0" not in metrics.page(openmetrics=False).decode()
        )
    finally:
        loop.stop()
        worker.join(60)

    page = metrics.page(openmetrics=False).decode()
    assert 'draguard_remediator_reconciles_total{result="failed"} 1.0' in page
    assert 'draguard_remediator_reconciles_total{result="bug"} 1.0' in page
    assert 'draguard_remediator_reconciles_total{result="done"} 2.0' in page


def test_a_bug_about_one_gpu_is_logged_once_and_counted_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    last = datetime.max.replace(tzinfo=UTC)  # beyond it no date can be reckoned
    never = [msgspec.structs.replace(xid(code), last_seen=last) for code in (48, 63)]
    controller, queue, metrics = Controller({}), Queue(), Metrics()
    controller.shown = view(gpu(0), gpu(1, *never))
    loop = Loop(Reconciler(controller, Policy), queue, metrics, now=clock.now)
    worker = threading.Thread(target=loop.run)
    worker.start()

    def again(times: int) -> None:
        queue.add(NODE)
        await_true("it was decided about", lambda: len(controller.seen) == times)

    try:
        for times in (1, 2, 3):
            again(times)
    finally:
        loop.stop()
        worker.join(60)

    traces = [
        message for message in caplog.messages if "this is a bug, please report it" in message
    ]
    assert len(traces) == 1
    assert "OverflowError" in traces[0]
    assert "Traceback" in traces[0]
    assert traces[0].startswith(f"{NODE} {uuid(1)}: ")
    page = metrics.page(openmetrics=False).decode()
    assert 'draguard_remediator_reconciles_total{result="bug"} 3.0' in page


def test_each_fault_of_ours_is_logged_once_whatever_its_words_and_however_often_it_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def one() -> Exception:
        return ValueError(f"at {len(controller.seen)}")

    class Changing(Controller):
        def observe(self, node: str) -> NodeView:
            self.seen.append(node)
            if len(self.seen) in (4, 8):
                raise KeyError(node)
            raise one()

    controller, queue, metrics = Changing({}), Queue(), Metrics()
    loop = Loop(Reconciler(controller, Policy), queue, metrics, now=clock.now)
    worker = threading.Thread(target=loop.run)
    worker.start()
    try:
        for times in range(1, 10):
            queue.add(NODE)
            await_true("it was tried", lambda times=times: len(controller.seen) >= times)
    finally:
        loop.stop()
        worker.join(60)

    traces = [text for text in caplog.messages if "this is a bug, please report it" in text]
    assert [text.splitlines()[-1].partition(":")[0] for text in traces] == [
        "ValueError",
        "KeyError",
    ]
    assert all(text.startswith(f"{NODE}: ") and "Traceback" in text for text in traces)


class Refusing(Controller):
    """Stores what is done about the GPUs of a node, but refuses all that is about the first."""

    def __init__(self, now: datetime) -> None:
        super().__init__({})
        self.stored, self.now = Stored(), now

    def observe(self, node: str) -> NodeView:
        super().observe(node)
        return self.stored.over(view(dead(0), dead(1)))

    def fleet(self) -> Fleet:
        return self.stored.fleet()

    def apply(self, step: Step) -> None:
        if gpu_of(step) == uuid(0):
            raise ApiError("422 Unprocessable", status=422)
        self.stored.take(step, self.now)


class Dates(Queue):
    """Notes for how long nodes are put off, and gives each at once all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: list[float] = []

    def add(self, node: str, delay: float = 0.0, *, urgent: bool = False) -> None:
        self.delays.append(delay)
        if len(self.delays) < 100:
            super().add(node, urgent=urgent)


def test_a_step_that_always_fails_leaves_the_other_gpus_of_its_node_their_dates() -> None:
    """The back-off of the one grows beyond the time at which the other is to be looked at."""
    now = clock.now()
    controller, queue = Refusing(now), Dates()
    rows = policy(settle=timedelta(seconds=7))
    loop = Loop(Reconciler(controller, lambda: rows), queue, Metrics(), now=lambda: now)
    worker = threading.Thread(target=loop.run)
    worker.start()
    try:
        queue.add(NODE)
        await_true("it was tried again and again", lambda: len(queue.delays) >= 40)
    finally:
        loop.stop()
        worker.join(60)

    assert controller.stored.effects() == {"gpu-1": "NoSchedule"}
    assert {0.25, 0.5, LONGEST_RETRY} < {*queue.delays}, "the one that fails waits ever longer"
    assert queue.delays[20:40].count(7.0) == 10, "the other's settle time ends in 7 s"


def test_the_wait_doubles_and_stays_bounded_however_long_it_lasts() -> None:
    assert [retry_after(failures) for failures in (0, 1, 2)] == [0.25, 0.5, 1.0]
    assert retry_after(5000) == LONGEST_RETRY


def test_what_others_wrote_makes_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    controller, queue = Controller({}), Queue()
    loop = Loop(Reconciler(controller, Policy), queue, Metrics(), now=clock.now)
    worker = threading.Thread(target=loop.run)
    with caplog.at_level("INFO"):
        worker.start()
        try:
            queue.add("a\nFORGED all is well\x1b[2J" + "x " * 5000)
            await_true(
                "it was reconciled", lambda: any("FORGED" in message for message in caplog.messages)
            )
        finally:
            loop.stop()
            worker.join(60)
    (stated,) = [message for message in caplog.messages if "FORGED" in message]
    assert stated.isprintable()
    assert len(stated) <= LONGEST_SENTENCE
