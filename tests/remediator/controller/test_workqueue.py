"""The queue: newest first where harm may be due, and nobody waits for ever."""

from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.controller.workqueue import EVERY, Queue
from tests.remediator.clock import Clock


def everything(queue: Queue) -> list[str]:
    taken: list[str] = []
    while (node := queue.take(0)) is not None:
        taken.append(node)
    return taken


def test_a_node_waits_once_however_often_it_is_added() -> None:
    queue = Queue()
    for urgent in (False, True, False, True):
        queue.add("node-a", urgent=urgent)

    assert everything(queue) == ["node-a"]


def test_nodes_without_hurry_go_in_the_order_of_coming() -> None:
    queue = Queue()
    for node in "abcde":
        queue.add(node)

    assert everything(queue) == list("abcde")


def test_of_those_in_a_hurry_the_newest_goes_first_and_each_fourth_time_the_oldest() -> None:
    queue = Queue(clock := Clock())
    for node in "abcdefgh":
        queue.add(node, urgent=True)
        clock.seconds += 1

    assert everything(queue) == list("hgfaedcb")


def test_each_fourth_time_one_without_hurry_goes_when_it_waits_longest() -> None:
    queue = Queue(clock := Clock())
    for node in ("old-1", "old-2"):
        queue.add(node)
        clock.seconds += 1
    for number in range(8):
        queue.add(f"new-{number}", urgent=True)
        clock.seconds += 1

    taken = everything(queue)

    assert taken[3] == "old-1"
    assert taken[7] == "old-2"


def test_a_node_that_becomes_urgent_overtakes_and_keeps_its_age() -> None:
    queue = Queue(clock := Clock())
    for node in "abc":
        queue.add(node)
    clock.seconds = 7
    queue.add("b", urgent=True)

    assert queue.age() == 7
    assert everything(queue) == ["b", "a", "c"]


def test_the_sooner_of_two_dates_counts_and_the_greater_hurry() -> None:
    queue = Queue(clock := Clock())
    queue.add("slow", delay=60, urgent=True)
    queue.add("slow", delay=5)
    queue.add("other", delay=4)

    assert queue.take(0) is None
    clock.seconds = 5
    assert everything(queue) == ["slow", "other"]


def test_what_is_added_at_once_does_not_come_back_at_its_old_date() -> None:
    queue = Queue(clock := Clock())
    queue.add("a", delay=5)
    queue.add("a")

    assert everything(queue) == ["a"]
    clock.seconds = 6
    assert everything(queue) == []


def test_age_and_length_speak_of_what_is_due() -> None:
    queue = Queue(clock := Clock())
    queue.add("a", delay=5)

    assert (len(queue), queue.age()) == (0, 0.0)
    clock.seconds = 8
    assert (len(queue), queue.age()) == (1, 3.0)


@settings(deadline=None)  # a busy machine is no defect
@given(
    st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=60),
    st.integers(0, 30),
)
def test_nobody_is_lost_and_nobody_starves_under_a_stream_of_news(
    adds: list[tuple[int, bool]], patient: int
) -> None:
    queue = Queue(clock := Clock())
    queue.add(f"n{patient}")
    for node, urgent in adds:
        clock.seconds += 1
        queue.add(f"n{node}", urgent=urgent)
    waiting = {f"n{patient}"} | {f"n{node}" for node, _ in adds}

    taken: list[str] = []
    for number in range(EVERY * len(waiting)):
        queue.add(f"news-{number}", urgent=True)
        clock.seconds += 1
        taken.append(queue.take(0) or "")

    assert waiting <= set(taken)


def test_there_is_a_hurry_while_a_node_waits_where_harm_may_be_due() -> None:
    queue = Queue(clock := Clock())
    queue.add("calm")
    queue.add("soon", delay=5, urgent=True)
    assert not queue.has_urgent()

    queue.add("failed", urgent=True)
    assert queue.has_urgent()

    clock.seconds = 5
    everything(queue)
    assert not queue.has_urgent()
