"""Objects of the API server as one picture."""

from kubeapi.types import ObjectMeta
from remediator.model.taint_rule import RawRule, RawRuleSpec, RawTaint, Selector
from tests.tools.demo.scenes import BOARDS, SLICE, gpu, incident, pod, report, rule, seen, xid
from tools.demo.picture import rule_target


def test_every_published_device_is_a_seat_with_its_holder_in_the_order_of_the_gpus() -> None:
    found = seen()
    assert [(seat.name, seat.number, seat.holder and seat.holder.pod) for seat in found.seats] == [
        (SLICE, 0, "infer-x-aaaaa"),
        ("node-a/gpu-0-mig-1g10gb-19-1", 0, None),
        ("node-a/gpu-1", 1, "train-x-bbbbb"),
        ("node-a/gpu-2", 2, "train-x-ccccc"),
    ]
    assert {seat.gpu for seat in found.seats if seat.is_slice} == {BOARDS[0].uuid}


def test_a_claim_whose_pod_does_not_run_is_no_holder() -> None:
    found = seen(pods=(pod("train-x-bbbbb", phase="Pending"),))
    assert found.held() == {}
    assert found.waiting == ("train-x-bbbbb",)


def test_the_strongest_rule_of_a_device_counts() -> None:
    rules = (rule("node-a/gpu-1", "NoExecute"), rule("node-a/gpu-1", "NoSchedule"))
    found = seen(rules=rules)
    assert found.rules == {"node-a/gpu-1": "NoExecute"}
    assert [seat.name for seat in found.seats if seat.effect] == ["node-a/gpu-1"]


def test_a_rule_that_selects_more_than_a_device_is_reported_as_such() -> None:
    taint = RawTaint("other.example/x", "NoSchedule")
    wide = RawRule(ObjectMeta(name="wide"), RawRuleSpec(taint, Selector("gpu.nvidia.com")))
    assert rule_target(wide) == "every device that wide selects"


def test_a_lost_gpu_and_its_xids_come_from_the_report() -> None:
    found = seen(reports=(report(gpu(0), gpu(1, xid(79), xid(43, 3), presence="Lost"), gpu(2)),))
    lost = found.seat("node-a/gpu-1")
    assert lost is not None
    assert lost.presence == "Lost"
    assert found.xids == {(BOARDS[1].uuid, 79): 1, (BOARDS[1].uuid, 43): 3}


def test_before_the_first_report_presence_and_number_are_not_known() -> None:
    found = seen(reports=())
    assert {(seat.presence, seat.number) for seat in found.seats} == {("", None)}


def test_the_newest_incident_comes_first() -> None:
    for first, second in ((1, 2), (2, 1)):
        older, newer = incident(first, "Recovered"), incident(second, "Tainted", opened=5)
        assert seen(incidents=(older, newer)).incidents == (newer, older)
