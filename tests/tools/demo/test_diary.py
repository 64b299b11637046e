"""Changes of objects as lines of the diary."""

import pytest

from tests.tools.demo.scenes import BOARDS, claim, gpu, incident, pod, report, rule, xid
from tools.demo import diary
from tools.demo.diary import EVICTION

GPU = BOARDS[1].uuid


def test_what_a_first_report_tells_is_no_news() -> None:
    assert list(diary.of_report(None, report(gpu(1, xid(79), presence="Lost")))) == []


def test_an_xid_a_slice_and_a_loss_are_seen() -> None:
    old, new = report(gpu(1, xid(43))), report(gpu(1, xid(43, 3), xid(94, 1, 5), presence="Lost"))
    found = list(diary.of_report(old, new))
    assert [(changes.kind, changes.subject, changes.value) for changes in found] == [
        ("xid", GPU, "43"),
        ("xid", GPU, "94"),
        ("instance", GPU, "5"),
        ("presence", GPU, "Lost"),
    ]
    assert found[0].text.startswith("node-a GPU 1: XID 43 2 times (")


def test_a_slice_that_is_named_later_is_no_second_error() -> None:
    old, new = report(gpu(1, xid(94))), report(gpu(1, xid(94, 1, 5)))
    assert [changes.kind for changes in diary.of_report(old, new)] == ["instance"]


def test_only_what_is_new_in_a_timeline_is_reported() -> None:
    old, new = incident(1, "Tainted"), incident(1, "Tainted", "Evicting", "Drained")
    found = list(diary.of_incident(old, new, {GPU: "node-a GPU 1"}))
    assert [changes.value for changes in found] == ["Evicting", "Drained"]
    assert found[0].text == "node-a GPU 1 Evicting: because"


def test_a_rule_is_reported_when_it_comes_grows_and_goes() -> None:
    soft, hard = rule("node-a/gpu-1", "NoSchedule"), rule("node-a/gpu-1", "NoExecute")
    steps = ((None, soft), (soft, soft), (soft, hard), (hard, None))
    reported = [[changes.value for changes in diary.of_rule(old, new)] for old, new in steps]
    assert reported == [["NoSchedule"], [], ["NoExecute"], [""]]


@pytest.mark.parametrize(
    ("reason", "by"),
    [(EVICTION, "the eviction controller"), ("EvictionByEvictionAPI", "EvictionByEvictionAPI")],
)
def test_an_eviction_names_who_did_it(reason: str, by: str) -> None:
    found = list(diary.of_pod(pod("p"), pod("p", leaving=reason), "node-a/gpu-1"))
    assert [(changes.kind, changes.value) for changes in found] == [("evicted", reason)]
    assert found[0].text == f"{by} deletes p on node-a/gpu-1"


def test_a_pod_that_is_gone_is_reported_once() -> None:
    leaving = pod("p", leaving=EVICTION)
    assert list(diary.of_pod(leaving, leaving, "node-a/gpu-1")) == []
    assert [changes.kind for changes in diary.of_pod(leaving, None, "node-a/gpu-1")] == ["gone"]


def test_the_device_that_a_pod_is_given_is_reported_once() -> None:
    held = claim("node-a/gpu-1", "p")
    assert [changes.value for changes in diary.of_claim(None, held)] == ["node-a/gpu-1"]
    assert list(diary.of_claim(held, held)) == []
