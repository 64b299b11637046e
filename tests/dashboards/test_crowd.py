"""Every question of every dashboard, where pages overlap: no error, and nothing counted twice.

A pod that is replaced, a second Prometheus and a second scrape job tell the same things again; a
replica that is late, a new driver and a board that moves contradict what was reported before.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from dashboards.boards import BoardQuery, annotation_queries, queries
from tests.dashboards import crowd
from tests.dashboards.observatory import VARIABLES
from tests.exporter.running import free_port
from tests.lab.prometheus import Prometheus

pytestmark = pytest.mark.verify

QUERIES = [*queries(), *annotation_queries()]
END = 1_795_000_000
OF_SCRAPE = {"cluster", "instance", "job", "pod", "prometheus_replica"}
OF_EACH_PAGE = {("two pods of one node", "Sources down and reasons")}
"""Where each page has a line by its address, so that two of them have two."""
NOTHING_ENDED = "annotation Untaints"
Rows = Counter[tuple[frozenset[tuple[str, str]], float]]


class Crowd(NamedTuple):
    prometheus: Prometheus

    def rows(self, question: BoardQuery, cluster: str, uuid: str = crowd.SICK) -> Rows:
        """Return how often each row comes, by its labels but those of the scrape, and its value."""
        expression = question.expr
        variables = {**VARIABLES, "cluster": cluster, "uuid": uuid, "__rate_interval": "2m"}
        for name in sorted(variables, key=len, reverse=True):
            for written in (f"${{{name}}}", f"${name}"):
                expression = expression.replace(written, variables[name])
        reported = crowd.queried(self.prometheus, expression, END)
        return Counter(
            (
                frozenset(item for item in row["metric"].items() if item[0] not in OF_SCRAPE),
                round(float(row["value"][1]), 6),
            )
            for row in reported
        )


@pytest.fixture(scope="module")
def shown(prometheus_built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    folder = tmp_path_factory.mktemp("crowd")
    crowd.write(END, prometheus_built, folder / "data")
    with Prometheus(prometheus_built, folder, {}, port=free_port()) as prometheus:
        yield Crowd(prometheus)


def test_the_story_has_an_answer_to_every_question(shown: Crowd) -> None:
    """Two empty answers would be alike, too."""
    devices = (crowd.WHOLE, crowd.SLICED, crowd.SICK)
    empty = [
        f"{question.dashboard} / {question.panel}: {question.expr}"
        for question in QUERIES
        if question.panel != NOTHING_ENDED
        and not any(shown.rows(question, crowd.ONCE, uuid) for uuid in devices)
    ]

    assert not empty, "\n".join(empty)


@pytest.mark.parametrize("shape", [name for name in crowd.SAME if name != crowd.ONCE])
def test_what_is_reported_twice_is_shown_once(shape: str, shown: Crowd) -> None:
    wrong = [
        f"{question.dashboard} / {question.panel}: {once} became {twice}"
        for question in QUERIES
        for uuid in (crowd.SICK, crowd.SLICED)
        if (shape, question.panel) not in OF_EACH_PAGE
        and (once := shown.rows(question, crowd.ONCE, uuid))
        != (twice := shown.rows(question, shape, uuid))
    ]

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("shape", crowd.DIFFERENT)
def test_pages_that_contradict_each_other_are_no_error(shape: str, shown: Crowd) -> None:
    for question in QUERIES:
        for uuid in (crowd.SICK, crowd.SLICED):
            shown.rows(question, shape, uuid)


def found(dashboard: str, panel: str) -> BoardQuery:
    return next(
        question
        for question in QUERIES
        if (question.dashboard, question.panel) == (dashboard, panel)
    )


def test_a_replica_that_is_late_makes_no_second_line_of_an_incident(shown: Crowd) -> None:
    (story,) = shown.rows(found("draguard-fleet", "Open incidents"), "replicas that differ").items()

    assert story[1] == 1


def test_two_that_lead_for_a_moment_believe_in_no_more_gpus(shown: Crowd) -> None:
    verdicts = found("draguard-fleet", "GPUs by remediator verdict")

    assert shown.rows(verdicts, "two leaders") == shown.rows(verdicts, crowd.ONCE)


def test_a_claim_on_a_board_that_moved_has_the_health_of_its_own_node(shown: Crowd) -> None:
    rows = shown.rows(found("draguard-claim", "Devices by claim"), "a board that moved")
    nodes = Counter(
        (labels["dra_claim_name"], labels["Hostname"])
        for labels in map(dict, (row[0] for row in rows))
    )

    assert nodes["train", "node-a"] == nodes["train", "node-b"] == 1
