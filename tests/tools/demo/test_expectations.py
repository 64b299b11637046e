"""The questions that are asked about an act: "" when all is well, else what is seen."""

import msgspec
import pytest

from tests.tools.demo.scenes import (
    BOARDS,
    HOLDERS,
    SLICE,
    acted,
    entry,
    eviction,
    gpu,
    incident,
    report,
    rule,
    seen,
    xid,
)
from tools.demo import expectations as must
from tools.demo import summary
from tools.demo.diary import Entry
from tools.demo.expectations import Check, Expectation, Outcome

GPU = "node-a/gpu-1"
POD = HOLDERS[GPU]
TAINTED = (entry(11, "rule", GPU, "NoSchedule"), entry(13, "rule", GPU, "NoExecute"))
MOVED = seen({SLICE: HOLDERS[SLICE], "node-a/gpu-2": HOLDERS["node-a/gpu-2"]})


def test_tainting_the_target_alone_and_in_order_is_right() -> None:
    assert must.tainted_in_order(acted(GPU, seen(), *TAINTED)) == ""


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ((), "no rule was made"),
        (TAINTED[:1], f"NoSchedule on {GPU}"),
        (TAINTED[::-1], f"NoExecute, then NoSchedule on {GPU}"),
        (
            (*TAINTED, entry(14, "rule", "node-a/gpu-2", "NoSchedule")),
            f"NoSchedule, then NoExecute on {GPU}; NoSchedule on node-a/gpu-2",
        ),
    ],
)
def test_tainting_too_little_too_much_or_in_another_order_is_reported(
    entries: tuple[Entry, ...], problem: str
) -> None:
    assert must.tainted_in_order(acted(GPU, seen(), *entries)) == problem


def test_exactly_the_pod_of_the_target_moves() -> None:
    assert must.only_target_moved(acted(GPU, MOVED, eviction(POD))) == ""


def test_a_neighbour_that_moves_is_named() -> None:
    empty = seen({SLICE: HOLDERS[SLICE]})
    stated = must.only_target_moved(acted(GPU, empty, eviction(POD)))
    assert stated == "train-x-ccccc on node-a/gpu-2 evicted, too"


def test_a_pod_that_was_not_evicted_or_by_somebody_else_is_reported() -> None:
    assert must.only_target_moved(acted(GPU, MOVED)) == f"{POD} was not deleted"
    other = acted(GPU, MOVED, eviction(POD, reason=""))
    assert "for another reason" in must.only_target_moved(other)


def test_a_replacement_must_run_and_elsewhere() -> None:
    replaced = seen({**HOLDERS, GPU: "train-x-ddddd"})
    assert must.replaced(acted(GPU, MOVED)) == "no new pod runs"
    again = acted(GPU, replaced, entry(14, "given", "uid-train-x-ddddd", GPU))
    assert must.replaced(again) == f"{GPU} was given away again"
    elsewhere = {**HOLDERS, "node-a/gpu-0-mig-1g10gb-19-1": "train-x-ddddd"}
    del elsewhere[GPU]
    assert must.replaced(acted(GPU, seen(elsewhere))) == ""


def test_where_nothing_may_happen_every_rule_incident_and_move_is_reported() -> None:
    assert must.untouched(acted(GPU, seen())) == ""
    assert must.untouched(acted(GPU, seen(), TAINTED[0])) == f"NoSchedule on {GPU}"
    assert "an incident" in must.untouched(acted(GPU, seen(incidents=(incident(1, "Suspected"),))))
    assert must.untouched(acted(GPU, MOVED)) == f"{POD} on {GPU} evicted, too"


def test_phases_come_in_order_and_others_may_lie_between() -> None:
    uuid = BOARDS[1].uuid
    returned = [
        entry(at, "phase", uuid, name) for at, name in enumerate(("Tainted", "Evicting", "Drained"))
    ]
    now = acted(GPU, seen(), *returned)
    assert must.phases("Tainted", "Drained")(now) == ""
    assert must.phases("Drained", "Tainted")(now) == "its phases are Tainted, Evicting, Drained"


def test_the_taint_must_last_for_the_soak_time_and_then_be_gone() -> None:
    early, late = entry(17.5, "rule", GPU, ""), entry(18.5, "rule", GPU, "")
    tainted = seen(rules=(rule(GPU, "NoExecute"),))
    assert must.soaked(acted(GPU, seen(), early)) == "it went after 7.5 s"
    assert must.soaked(acted(GPU, seen(), late)) == ""
    assert must.untainted(acted(GPU, seen(), late)) == ""
    assert must.untainted(acted(GPU, tainted)) == f"NoExecute on {GPU}"
    assert must.still_tainted(acted(GPU, tainted)) == ""
    assert must.still_tainted(acted(GPU, seen())) == "no rule is there"


def test_counts_must_agree_on_the_page_and_in_the_report_and_on_no_other_gpu() -> None:
    uuid, other = BOARDS[1].uuid, BOARDS[2].uuid
    reported = seen(reports=(report(gpu(0), gpu(1, xid(13, 5)), gpu(2)),))
    question = must.counted({13: 5})

    def problem(counted: dict[tuple[str, int], int]) -> str:
        return question(msgspec.structs.replace(acted(GPU, reported), counted=counted))

    assert problem({(uuid, 13): 5}) == ""
    assert problem({(uuid, 13): 5, (other, 94): 2}) == ""
    assert problem({}) == "/metrics counts none"
    assert problem({(uuid, 13): 6}) == f"/metrics counts 6 of XID 13 on {uuid}"
    assert "of XID 13 on " + other in problem({(uuid, 13): 5, (other, 13): 1})


def test_the_repaired_device_must_get_the_new_pod_and_nobody_else_may_move() -> None:
    before = MOVED
    assert must.used_again(acted(GPU, seen(), before=before)) == ""
    assert "held by nobody" in must.used_again(acted(GPU, MOVED, before=before))


def test_expectations_are_reported_in_the_words_of_the_target() -> None:
    target = acted(GPU, seen()).target
    words = Expectation("{pod} leaves {device} of {node}", must.stayed).words(target)
    assert words == f"{POD} leaves {GPU} of node-a"


def test_the_summary_says_what_was_seen_decided_and_done_and_how_long_it_took() -> None:
    uuid = BOARDS[1].uuid
    incident = acted(
        GPU,
        MOVED,
        entry(10.1, "xid", uuid, "79"),
        entry(10.1, "presence", uuid, "Lost"),
        *(entry(11, "phase", uuid, name) for name in ("Tainted", "Evicting", "Evicting")),
        *TAINTED,
        eviction(POD),
        entry(13.25, "gone", f"uid-{POD}", GPU),
    )
    bad = Check("it is good", "it is not")
    row, failed, missing = summary.rows(
        [
            Outcome("one", incident),
            Outcome("two", incident, (bad,)),
            Outcome("three", problem="why"),
        ]
    )
    assert row[1:] == (
        "XID 79, GPU lost",
        "Tainted > Evicting",
        f"{GPU} tainted; 1 pod evicted; 2 stayed",
        "1.00 s",
        "0.25 s",
        "ok",
    )
    assert failed[-1] == "FAILED"
    assert missing[-1] == "not played"
    outcomes = [Outcome("two", incident, (bad,)), Outcome("three", problem="why")]
    assert summary.complaints(outcomes) == [
        "act 1 (two): expected: it is good; seen: it is not",
        "act 2 (three): why",
    ]
