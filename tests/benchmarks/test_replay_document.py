"""docs/replay.md and README's table: what rows are, where Draguard is not the best, and why."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.replay import document, run, sources
from benchmarks.replay.columns import COLUMNS, losses
from benchmarks.replay.peers import PEERS
from benchmarks.replay.scoring import Score
from benchmarks.replay.summary import summary

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "replay.md"

WORSE: list[Callable[[Score], None]] = [
    lambda score: setattr(score, "lost_hours", 9.0),
    lambda score: setattr(score, "to_free", [600.0]),
    lambda score: setattr(score, "rebooted", 7),
]


@pytest.mark.parametrize("worsen", WORSE)
def test_a_column_that_draguard_loses_is_named_with_the_best_and_a_reason(
    worsen: Callable[[Score], None],
) -> None:
    ours, theirs = (Score(policy=name, to_free=[0.0], to_taint=[0.0]) for name in ("we", "they"))
    assert losses(ours, [theirs]) == []
    worsen(ours)

    for column, best in losses(ours, [theirs]):
        assert best is theirs
        assert column.why


def sections() -> dict[str, str]:
    """Return the tables of scores in the document, by fleet and delay."""
    text = DOCUMENT.read_text(encoding="utf-8").partition(document.BEGIN)[2]
    found: dict[str, str] = {}
    for fleet in text.split("\n### ")[1:]:
        title = fleet.splitlines()[0]
        for part in fleet.split("\nAdministrators act after ")[1:]:
            found[f"{title}, {part.split('.')[0]}"] = part
    return found


class TestDocument:
    def test_says_for_which_logs_and_drivers_it_holds(self) -> None:
        for page in (DOCUMENT, ROOT / "README.md"):
            hand_written = page.read_text(encoding="utf-8").partition("\n## ")[0]
            for words in ("`/dev/kmsg`", "journal", "before R565"):
                assert words in hand_written, page.name

    def test_names_version_settings_and_default_of_every_row(self) -> None:
        assert document.rows() in DOCUMENT.read_text(encoding="utf-8")
        for peer in PEERS:
            assert all(peer.about), peer.name

    def test_shows_the_first_fleet_of_each_profile_after_1_h_and_after_24_h(self) -> None:
        full = [title for title in sections() if " 1,024 GPUs" in title]

        assert [title.rpartition(", ")[2] for title in full] == ["1 h", "24 h"] * 2

    @pytest.mark.parametrize("title", sections())
    def test_says_where_draguard_is_not_the_best_and_why(self, title: str) -> None:
        lost = re.findall(r"^- (.*?): .*$", sections()[title], re.MULTILINE)
        why = {column.title: column.why for column in COLUMNS}

        assert lost
        assert [name for name in lost if not why[name]] == []

    def test_has_a_row_for_each_driver_and_policy(self) -> None:
        begin, end = document.LOGS
        text = DOCUMENT.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
        names = [*(f"{run.OURS}, {log}" for log in sources.LOGS), *(peer.name for peer in PEERS)]

        for driver in sources.DRIVERS:
            assert [f"\n| {driver} | {name} | " in text for name in names] == [True] * len(names)

    def test_shows_what_a_share_of_old_drivers_changes(self) -> None:
        begin, end = document.LOGS
        text = DOCUMENT.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
        new, tenth, third = (
            re.findall(rf"^\| {driver}( \| .*)$", text, re.MULTILINE)
            for driver in ("R565 or newer", "10 % before R565", "30 % before R565")
        )

        assert len(new) == len(tenth) == len(third) > 0
        assert new != tenth != third

    def test_gives_readme_the_recall_by_syslog(self) -> None:
        cells = r"Draguard, syslog[^|]*\| [\d,]+ \| \S+ \| (\S+) \|"
        text = DOCUMENT.read_text(encoding="utf-8")
        row = re.search(rf"\| no such event, 30 % before R565 \| {cells}", text)

        assert row is not None
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        assert f"Draguard taints {float(row[1]):.1%} in time" in readme

    def test_gives_readme_its_table(self) -> None:
        begin, end = document.SUMMARY
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        expected = summary(DOCUMENT.read_text(encoding="utf-8"))

        assert readme.partition(begin)[2].partition(end)[0].strip() == expected, (
            "run `python -m benchmarks.replay --summary README.md`"
        )
