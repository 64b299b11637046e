"""The soak: its parts one after another whatever becomes of each, and what is kept of them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from benchmarks.figures import Figure, Section
from benchmarks.fleet import bench
from benchmarks.replay import drawn
from benchmarks.soak import __main__ as program
from benchmarks.soak import closing, document, running
from benchmarks.soak.document import BEGIN, END, DocumentError, Row, Run, updated
from benchmarks.soak.parts import NAMES, Part, chosen, parts
from benchmarks.soak.running import Outcome, run_all
from benchmarks.table import table
from benchmarks.waiting import await_true
from tests.chain.chaos import closing_line

DOCUMENT = Path(__file__).parents[2] / "docs" / "soak.md"
RUN = Run(
    date="2026-11-22 10:00 UTC", commit="abc1234", seed=5, machine="2 cores, a CPU, 24 GiB", parts=2
)
EMPTY = f"# Soak\n\nBy hand.\n\n{BEGIN}\n\n{END}\n\nAlso by hand.\n"
Capsys = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
GOOD = "print('3 good, 0 bad')"


def part(name: str, script: str, *, limit: float = 60.0, alone: bool = False) -> Part:
    return Part(
        name=name,
        what=f"a try of {name}",
        command=(sys.executable, "-c", script),
        figures=lambda output: output.strip() if "good" in output else "",
        about=1.0,
        limit=limit,
        alone=alone,
    )


def ran(folder: Path, *tried: Part, jobs: int = 1) -> dict[str, Outcome]:
    outcomes = run_all(tried, folder, tell=lambda _: None, say=lambda _: None, jobs=jobs)
    return {outcome.part.name: outcome for outcome in outcomes}


def row(name: str, figures: str = "3 good", *, passed: bool = True) -> Row:
    return Row(part=name, what="a try", passed=passed, figures=figures, seconds=12.4)


def later(number: int) -> Run:
    return msgspec.structs.replace(RUN, date=f"2026-12-{number:02} 10:00 UTC", commit=f"d{number}")


@pytest.mark.verify
class TestParts:
    @pytest.mark.parametrize(
        ("script", "shown"),
        [
            ("print('1 good, 2 bad'); raise SystemExit(3)", "1 good, 2 bad; exit status 3"),
            ("print('nothing was run')", "no closing figures; nothing was run"),
            (
                "import runpy; runpy.run_module('benchmarks.not_there')",
                "exit status 1; ImportError: No module named benchmarks.not_there",
            ),
        ],
        ids=["failed", "without closing figures", "missing"],
    )
    def test_that_fail_do_not_stop_the_next(self, tmp_path: Path, script: str, shown: str) -> None:
        found = ran(tmp_path, part("first", GOOD), part("bad", script), part("last", GOOD))

        assert [outcome.passed for outcome in found.values()] == [True, False, True]
        assert found["bad"].figures == shown
        assert found["last"].figures == "3 good, 0 bad"

    def test_a_part_out_of_time_has_failed_and_is_gone_with_all_that_it_started(
        self, tmp_path: Path, monkeypatch: Patch
    ) -> None:
        pids = tmp_path / "pids"
        late_once(pids, monkeypatch)
        script = (
            "import os, subprocess, sys, time; print('so far', flush=True)\n"
            "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
            f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}} .')\n"
            "time.sleep(600)\n"
        )
        found = ran(tmp_path, part("slow", script), part("last", GOOD))

        assert not found["slow"].passed
        assert found["slow"].figures == "out of time after 60 s; so far"
        assert found["last"].passed
        for pid in pids.read_text(encoding="ascii").split()[:2]:
            await_true(f"{pid} is gone", lambda pid=pid: not lives(int(pid)), 60.0)

    def test_that_ignore_the_polite_end_are_killed(
        self, tmp_path: Path, monkeypatch: Patch
    ) -> None:
        monkeypatch.setattr(running, "GRACE", 0.5)
        deaf = tmp_path / "deaf"
        late_once(deaf, monkeypatch)
        script = (
            "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            f"open({str(deaf)!r}, 'w').write('.'); time.sleep(600)\n"
        )

        assert not ran(tmp_path, part("deaf", script))["deaf"].passed

    def test_run_side_by_side_on_request(self, tmp_path: Path) -> None:
        two = [part(name, meets(tmp_path, name, other)) for name, other in ("ab", "ba")]

        assert [outcome.passed for outcome in ran(tmp_path, *two, jobs=2).values()] == [True, True]

    def test_run_beside_nothing_when_they_need_the_machine(self, tmp_path: Path) -> None:
        script = (
            "import os, sys, time\n"
            f"os.mkdir({str(tmp_path / 'taken')!r})\n"
            f"time.sleep(0.5); os.rmdir({str(tmp_path / 'taken')!r}); print('good')\n"
        )
        shy = [part(name, script, alone=name != "b") for name in "abc"]
        found = ran(tmp_path, *shy, jobs=2)

        assert [outcome.passed for outcome in found.values()] == [True, True, True]

    def test_say_how_far_they_are(self, tmp_path: Path) -> None:
        stated = tmp_path / "said"

        def says(text: str) -> None:
            with stated.open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")

        script = (
            f"import pathlib, time; said = pathlib.Path({str(stated)!r}); print('half way')\n"
            "while '1:00: half way' not in said.read_text(): time.sleep(0.05)\n"
            "print('good')\n"
        )
        both = [part("slow", script), part("next", GOOD)]
        outcomes = run_all(both, tmp_path, tell=lambda _: None, say=says, every=0.1)

        assert [outcome.passed for outcome in outcomes] == [True, True]
        assert "of about 0:01, at most 1:00: half way" in stated.read_text(encoding="utf-8")
        assert "left: next: about 0:01" in stated.read_text(encoding="utf-8")

    def test_are_ended_when_the_soak_is_interrupted(self, tmp_path: Path) -> None:
        pid = tmp_path / "pid"
        script = (
            f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
        )

        def interrupts(_text: str) -> None:
            if pid.exists() and pid.read_text(encoding="ascii"):
                raise KeyboardInterrupt

        long = [part("long", script)]
        with pytest.raises(KeyboardInterrupt):
            run_all(long, tmp_path, tell=lambda _: None, say=interrupts, every=0.2)

        assert not lives(int(pid.read_text(encoding="ascii")))


def late_once(file: Path, monkeypatch: Patch) -> None:
    """Let the time of each part be up as soon as it has written a file, and not before."""

    def seconds(process: running.Running) -> float:
        there = file.exists() and file.read_text(encoding="ascii").endswith(".")
        return 1000.0 if there and process.part.name != "last" else 0.0

    monkeypatch.setattr(running.Running, "seconds", property(seconds))


def lives(pid: int) -> bool:
    """Say whether a process runs; a dead one that nobody has waited for does not."""
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except (ProcessLookupError, FileNotFoundError):
        return False


def meets(folder: Path, name: str, other: str) -> str:
    """Return a script that ends well only while another one runs too."""
    return (
        "import pathlib, time\n"
        f"folder = pathlib.Path({str(folder)!r}); (folder / {name!r}).touch()\n"
        f"while not (folder / {other!r}).exists(): time.sleep(0.05)\n"
        "print('good')\n"
    )


class TestTheWholeSoak:
    def test_ends_with_how_many_have_passed(self, tmp_path: Path, capsys: Capsys) -> None:
        bad = part("bad", "print('what happened'); raise SystemExit(1)")
        assert program.soak([bad, part("good", GOOD)], RUN, tmp_path) == 1
        stated = capsys.readouterr().out
        assert stated.endswith("\n1 passed, 1 failed\n")
        assert "  | what happened\n" in stated
        assert program.soak([part("good", GOOD)], RUN, tmp_path) == 0
        assert capsys.readouterr().out.endswith("\n1 passed, 0 failed\n")

    def test_keeps_each_part_as_soon_as_it_has_ended(self, tmp_path: Path) -> None:
        kept = tmp_path / "soak.md"
        kept.write_text(EMPTY, encoding="utf-8")
        script = f"print('good', '| first |' in open({str(kept)!r}).read())"
        program.soak([part("first", GOOD), part("next", script)], RUN, tmp_path, write=kept)
        text = kept.read_text(encoding="utf-8")

        assert "| next | a try of next | passed | good True |" in text
        assert "2 of 2 parts passed." in text

    def test_says_what_did_not_end_when_it_is_interrupted(
        self, tmp_path: Path, capsys: Capsys, monkeypatch: Patch
    ) -> None:
        def stops(_parts: object, _logs: object, *, tell: Callable[[Outcome], None], **_: object):
            good = part("good", GOOD)
            tell(Outcome(part=good, passed=True, figures="3 good", seconds=1.0))
            raise KeyboardInterrupt

        monkeypatch.setattr(program, "run_all", stops)
        kept = tmp_path / "soak.md"
        kept.write_text(EMPTY, encoding="utf-8")
        assert program.soak([part("good", GOOD)] * 2, RUN, tmp_path, write=kept) == 1
        assert capsys.readouterr().out.endswith("\n1 passed, 1 failed\n")
        assert "1 of 2 parts passed, 1 did not end." in kept.read_text(encoding="utf-8")

    def test_refuses_a_document_without_a_place(self, tmp_path: Path, capsys: Capsys) -> None:
        (tmp_path / "other.md").write_text("# Other\n", encoding="utf-8")
        for name in ("other.md", "missing.md"):
            with pytest.raises(SystemExit):
                program.main(["--write", str(tmp_path / name)])
            assert name in capsys.readouterr().err


class TestTheDocument:
    def test_has_a_row_for_each_part_with_its_own_run(self) -> None:
        text = updated(EMPTY, RUN, [row("fuzz"), row("chaos", "a | b", passed=False)])

        assert (
            "| fuzz | a try | passed | 3 good | 12 | abc1234 | 2026-11-22 10:00 UTC | 5 |" in text
        )
        assert r"| chaos | a try | **failed** | a \| b | 12 |" in text
        assert "abc1234, seed 5: 1 of 2 parts passed, failed: chaos." in text
        assert "Machine: 2 cores, a CPU, 24 GiB." in text
        assert text.startswith("# Soak\n\nBy hand.\n")
        assert text.endswith("\nAlso by hand.\n")

    def test_is_the_same_when_written_again(self) -> None:
        once = updated(EMPTY, RUN, [row("fuzz")])

        assert updated(once, RUN, [row("fuzz")]) == once
        both = updated(once, RUN, [row("fuzz"), row("chaos")])
        assert "Earlier runs" not in both
        assert both == updated(EMPTY, RUN, [row("fuzz"), row("chaos")])

    def test_keeps_the_row_of_a_part_that_was_not_run(self) -> None:
        before = updated(EMPTY, RUN, [row("fuzz", "old"), row("chaos", "old")])
        after = updated(before, later(1), [row("chaos", "new")])

        assert "| fuzz | a try | passed | old | 12 | abc1234 | 2026-11-22 10:00 UTC | 5 |" in after
        assert "| chaos | a try | passed | new | 12 | d1 | 2026-12-01 10:00 UTC | 5 |" in after
        assert after.count("| chaos |") == 1

    def test_keeps_a_line_of_each_earlier_run_the_newest_first(self) -> None:
        text = EMPTY
        for number in (1, 2, 3):
            text = updated(text, later(number), [row("fuzz"), row("chaos", passed=number != 2)])
        lines = text.partition("Earlier runs:\n\n")[2].splitlines()

        assert lines[0] == (
            "- 2026-12-02 10:00 UTC, commit d2, seed 5: 1 of 2 parts passed, failed: chaos"
        )
        assert lines[1] == "- 2026-12-01 10:00 UTC, commit d1, seed 5: 2 of 2 parts passed"
        assert lines[2] == ""

    def test_has_the_parts_in_their_order(self) -> None:
        text = updated(EMPTY, RUN, [row("fleet"), row("fuzz")], NAMES)

        assert text.index("| fuzz |") < text.index("| fleet |")

    def test_without_a_place_is_refused(self) -> None:
        for text in ("# Other\n", BEGIN, f"{END}\n{BEGIN}"):
            with pytest.raises(DocumentError, match="soak: begin"):
                updated(text, RUN, [row("fuzz")])

    def test_of_the_project_has_a_place_and_tells_of_every_part(self) -> None:
        text = DOCUMENT.read_text(encoding="utf-8")

        assert updated(text, RUN, [row("fuzz")])
        by_hand = text.partition(document.BEGIN)[0]
        assert [name for name in NAMES if f"| `{name}` |" not in by_hand] == []


PYTEST = "collected 2 items\n\ntests/a.py ..   [100%]\n{}===== {} in 12.34s (0:00:12) =====\n"


class TestClosingFigures:
    @pytest.mark.parametrize(
        ("ended", "expected"),
        [
            ("2 passed", "30 histories, 0 failed (2 tests passed, 0 failed)"),
            ("2 passed, 3 warnings", "30 histories, 0 failed (2 tests passed, 0 failed)"),
            ("1 failed, 2 errors", "30 histories, 0 failed (0 tests passed, 3 failed)"),
        ],
    )
    def test_of_histories(self, ended: str, expected: str) -> None:
        examples = "    - 20 passing, 0 failing, and 7 invalid test cases\n"
        examples += "    - 10 passing, 0 failing, and 0 invalid test cases\n"

        assert closing.histories(PYTEST.format(examples, ended)) == expected
        assert closing.histories(PYTEST.format("", ended)) == ""

    def test_of_properties_are_what_hypothesis_prints(self, tmp_path: Path) -> None:
        lines = ("from hypothesis import given, settings, strategies", "@settings(max_examples=7)")
        body = "@given(strategies.integers())\ndef test_it(number): pass\n"
        (tmp_path / "test_it.py").write_text("\n".join((*lines, body)), encoding="utf-8")
        (search,) = chosen(parts(seed=1), ["histories"])
        options = search.command[: search.command.index("--timeout")]
        (tmp_path / "conftest.py").write_text(
            "from hypothesis import settings\nsettings.register_profile('search')\n"
        )
        found = subprocess.run(options, cwd=tmp_path, stdout=subprocess.PIPE, check=False)
        stated = "1 tests passed, 0 failed; 7 examples, 0 failed"

        assert closing.properties(found.stdout.decode()) == stated

    def test_of_chaos(self) -> None:
        made = "{'kills': 3}; {'swap': 6}"
        runs = "".join(
            f"{closing_line(7, replicas, made, (40, 100, 12, 3), 2.0)}\n" for replicas in (1, 2)
        )

        assert closing.chaos(PYTEST.format(runs, "17 passed")) == (
            "2 runs, 80 faults, 200 rules, 24 evictions (17 tests passed, 0 failed)"
        )
        assert closing.chaos(PYTEST.format("", "17 passed")) == ""

    def test_of_fuzz(self) -> None:
        output = "page 20 1.0\n1,000,000 inputs in 289 s with seed 1: 0 findings\n"

        assert closing.fuzz(output) == "1,000,000 inputs, 0 findings"

    def test_of_drawn_replays(self) -> None:
        output = f"draw 0: passed\n{drawn.summed_up([])}\n"

        assert closing.drawn(output).startswith("0 passed, 0 failed; 0 fleets: 0 taints right, ")

    def test_of_the_fleet(self) -> None:
        labels = ("cold start to a correct plan", "until the last NoSchedule is stored")
        seconds = [Figure(what=label, unit="s", values=(7.5,), budget="20 s") for label in labels]
        memory = Figure(what="memory (PSS)", unit="MB", values=(494.3,))
        output = table([Section(title="a fleet", figures=(*seconds, memory))])

        assert closing.fleet(output) == "cold start 7.5 s, storm tainted in 7.5 s, memory 494.3 MB"
        assert closing.fleet(output.replace("memory (PSS)", "other")) == ""
        source = Path(bench.__file__).read_text(encoding="utf-8")
        assert [label for label in (*labels, "memory (PSS)") if f'"{label}"' not in source] == []

    @pytest.mark.parametrize("name", NAMES)
    def test_are_none_of_a_part_that_was_cut_off(self, name: str) -> None:
        (only,) = chosen(parts(seed=1), [name])

        assert only.figures("") == ""


class TestTheParts:
    def test_are_those_that_are_named(self) -> None:
        assert tuple(found.name for found in parts(seed=1)) == NAMES
        assert [found.name for found in chosen(parts(seed=1), ["fuzz", "chaos"])] == [
            "chaos",
            "fuzz",
        ]
        assert len(chosen(parts(seed=1), [])) == len(NAMES)

    def test_take_the_seed(self) -> None:
        taken = {
            found.name
            for found in parts(seed=987_654)
            if "987654" in (*found.command, *found.environment.values())
        }

        assert taken == {
            *("histories", "chaos", "fuzz", "drawn", "search", "allocations", "mutants")
        }

    def test_are_as_small_as_requested(self) -> None:
        small = {found.name: found for found in parts(seed=1, scale=0.01)}

        assert small["histories"].environment == {"HISTORIES": "200"}
        assert small["chaos"].environment["CHAOS_SECONDS"] == "6"
        assert "10000" in small["fuzz"].command
        assert small["fuzz"].longest < 1000.0
        assert "100" in small["fleet"].command
        assert all(found.what for found in parts(seed=1, scale=1e-9))

    def test_search_in_every_file_that_has_properties(self) -> None:
        (search,) = chosen(parts(seed=1), ["search"])

        assert "tests/fuzz/test_targets.py" in search.command
        assert "tests/benchmarks/test_soak.py" not in search.command
