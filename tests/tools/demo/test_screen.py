"""What people see, as text."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.tools.demo.scenes import SLICE, acted, gpu, incident, report, rule, seen
from tools.demo.diary import Entry, News
from tools.demo.expectations import Check, Outcome
from tools.demo.screen import Screen, view
from tools.demo.story import Scene

PICTURE = seen(
    rules=(rule("node-a/gpu-1", "NoExecute"), rule(SLICE, "NoSchedule")),
    reports=(report(gpu(0), gpu(1, presence="Lost"), gpu(2)),),
    incidents=(incident(1, "Evicting"),),
)
ENTRIES = tuple(
    Entry(float(at), News(column="done", kind="gone", text=f"line {at}")) for at in range(50)
)
SCENE = Scene(65.0, PICTURE, ENTRIES, "Act 3 of 5", "what happens", (Check("all is well"),))


def text_of(scene: Scene, width: int = 100, height: int = 40) -> list[str]:
    out = Console(width=width, height=height, file=io.StringIO(), highlight=False)
    with out.capture() as captured:
        out.print(view(scene, width, height))
    return captured.get().splitlines()


def test_the_grid_says_who_holds_what_and_what_is_tainted() -> None:
    lines = text_of(SCENE)
    row = next(number for number, line in enumerate(lines) if line.startswith("node-a"))
    assert lines[row].split() == ["node-a", "▲○", "✖", "bbbbb", "●", "ccccc"]
    assert lines[row + 1].split() == ["NoSchedule", "NoExecute"]


def test_the_view_has_the_act_its_expectations_the_incident_and_the_diary() -> None:
    lines = "\n".join(text_of(SCENE))
    assert "01:05  Act 3 of 5" in lines
    assert "✔ all is well" in lines
    assert "incident node-a GPU 1 xid-79, : Evicting  because" in lines
    assert "line 49" in lines


@pytest.mark.parametrize(("width", "height"), [(80, 23), (120, 40), (200, 60)])
def test_the_view_fits_the_terminal(width: int, height: int) -> None:
    lines = text_of(SCENE, width, height)
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width


@pytest.mark.parametrize(("device", "drawn"), [("node-a/gpu-1", True), ("node-a/gpu-2", False)])
def test_a_picture_is_drawn_of_the_act_that_loses_its_gpu(
    tmp_path: Path, device: str, *, drawn: bool
) -> None:
    file = tmp_path / "demo.svg"
    screen = Screen(Console(file=io.StringIO()), drawn=file)
    screen.show(SCENE)
    screen.end_act(Outcome("one", acted(device, PICTURE)))
    assert file.exists() == drawn
    if drawn:
        text = file.read_text(encoding="utf-8")
        assert all(word in text for word in ("Act&#160;3&#160;of&#160;5", "NoExecute", "bbbbb"))
        assert "font-face" not in text


def test_without_a_terminal_each_entry_is_one_line_and_reported_once() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out))
    screen.show(Scene(1.0, PICTURE, ENTRIES[:2]))
    screen.show(Scene(2.0, PICTURE, ENTRIES[:3]))
    screen.end_act(Outcome("one", None, (Check("good"), Check("better", "bad"))))
    assert out.getvalue().splitlines() == [
        "   0.0 s  done     line 0",
        "   1.0 s  done     line 1",
        "   2.0 s  done     line 2",
        "  ✔ good",
        "  … better  (bad)",
    ]


def test_the_summary_names_what_failed() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out))
    incident = acted("node-a/gpu-1", seen())
    screen.summary([Outcome("one", incident), Outcome("two", incident, (Check("x", "y"),))], 12.0)
    stated = out.getvalue()
    assert "FAILED: act 2 (two): expected: x; seen: y" in stated
    assert "The story came out WRONG, 12 s after the demo began." in stated
