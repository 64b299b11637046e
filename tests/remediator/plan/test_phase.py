"""Each phase by what is true in it: one test for each row of the table."""

from pathlib import Path

import pytest
import yaml

from remediator.diagnose.fault import Unknown
from remediator.model.incident_status import PHASES, IncidentStatus
from remediator.model.taint_rule import Effect
from remediator.plan.phase import ROWS, Facts, Progress, phase_of, progress
from remediator.plan.stages import Planned
from tests.remediator.builders import at, make_board, make_granted, rule, uuid, with_fields

ROOT = Path(__file__).parents[3]
NOTHING = Progress(tainted=False, evicting=False, empty=False)
TAINTED = Progress(tainted=True, evicting=False, empty=False)
MOVING = Progress(tainted=True, evicting=True, empty=False)
EMPTY = Progress(tainted=True, evicting=True, empty=True)
LEFT_BY_ITSELF = Progress(tainted=True, evicting=False, empty=True)
SICK = Facts(
    ruled=True,
    ended=False,
    verified=False,
    repairing=False,
    unknown=False,
    healthy=False,
    human=False,
    unreported=False,
    settled=False,
    done=NOTHING,
)


@pytest.mark.parametrize(
    ("facts", "phase"),
    [
        ({"ruled": False}, "Suspected"),
        ({"done": TAINTED}, "Tainted"),
        ({"done": MOVING}, "Evicting"),
        ({"done": EMPTY}, "Drained"),
        ({"done": LEFT_BY_ITSELF}, "Drained"),
        ({"done": EMPTY, "repairing": True}, "Repairing"),
        ({"done": EMPTY, "human": True}, "NeedsHuman"),
        ({"done": EMPTY, "human": True, "repairing": True}, "Repairing"),
        ({"done": EMPTY, "unreported": True, "repairing": True}, "NeedsHuman"),
        ({"done": MOVING, "unreported": True}, "NeedsHuman"),
        ({"done": EMPTY, "unreported": True, "healthy": True, "verified": True}, "Verifying"),
        ({"done": EMPTY, "healthy": True, "settled": True}, "Verifying"),
        ({"done": EMPTY, "healthy": True, "settled": True, "human": True}, "NeedsHuman"),
        ({"done": MOVING, "healthy": True}, "Evicting"),
        ({"done": EMPTY, "healthy": True, "verified": True}, "Verifying"),
        ({"ruled": False, "healthy": True, "verified": True}, "Recovered"),
        ({"ruled": False, "ended": True}, "Closed"),
        ({"ruled": False, "ended": True, "verified": True}, "Closed"),
    ],
)
def test_the_phase_is_what_is_true(facts: dict[str, object], phase: str) -> None:
    assert phase_of(with_fields(SICK, **facts)) == phase


@pytest.mark.parametrize(
    ("first", "second", "tainted", "evicting"),
    [
        ("NoExecute", "NoExecute", True, True),
        ("NoExecute", "NoSchedule", True, False),
        ("NoExecute", None, False, False),
        ("NoSchedule", "None", False, False),
    ],
)
def test_a_taint_is_whole_when_each_device_has_it_and_so_is_an_eviction(
    first: Effect, second: Effect | None, tainted: bool, evicting: bool
) -> None:
    desired = rule(0, "NoExecute"), rule(1, "NoExecute")
    stored = [rule(0, first), *([rule(1, second)] if second else [])]
    board = make_board(Unknown("not read"), stored=tuple(stored))
    planned = Planned(granted=make_granted(uuid(0), *desired))

    found = progress(board, planned, IncidentStatus(), at(9))

    assert (found.tainted, found.evicting) == (tainted, evicting)


def test_every_phase_has_one_row_and_is_reported_in_the_same_words_everywhere() -> None:
    meant = {phase: means for phase, means, _ in ROWS}
    page = (ROOT / "docs" / "remediation.md").read_text(encoding="utf-8")
    crd = yaml.safe_load(
        (ROOT / "deploy" / "crds" / "deviceincidents.yaml").read_text(encoding="utf-8")
    )
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    field = schema["properties"]["phase"]

    assert len(ROWS) == len(meant)
    assert set(meant) == set(PHASES) == set(field["enum"])
    for phase, means in meant.items():
        assert f"| `{phase}` | {means} |" in page
        assert f"{phase}: {means}." in field["description"]
