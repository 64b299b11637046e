"""Every dashboard in a real browser, by Grafana's own components, over what real programs said.

A cluster of 24 GPUs is healthy, then one GPU is lost, then one node falls silent. Each dashboard is
opened in each of the three states.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import pytest

from dashboards.catalogue import BOARDS, CLAIM, DEVICE, FLEET, NODE
from dashboards.health import HEALTHY, STATES
from tests.lab.browser.install import Installed
from tests.lab.browser.page import Panel, Word
from tests.lab.pictures_gallery import Gallery, dashboards, gallery
from tests.lab.pictures_story import ONE_HOUR, Story

pytestmark = [
    pytest.mark.timeout(900),  # a loaded machine plays the hour in minutes
    pytest.mark.verify,
]
STATES_OF_THE_STORY = {
    "healthy": ONE_HOUR.lost - 1,
    "xid-79": ONE_HOUR.silent - 1,
    "silent": ONE_HOUR.steps - 1,
}
HIDDEN = 2
UIDS = [board.uid for board in BOARDS]
NOT_WELL = {state.word for state in STATES if state is not HEALTHY}
Json = dict[str, Any]
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Seen(NamedTuple):
    """What a dashboard showed."""

    panels: Mapping[str, Panel]
    links: tuple[str, ...]
    words: tuple[Word, ...]
    complaints: tuple[str, ...]


@pytest.fixture(scope="module")
def shown(
    story: Story,
    installed: Installed,
    prometheus_built: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gallery]:
    folder = tmp_path_factory.mktemp("gallery")
    with gallery(story, installed, prometheus_built, folder) as one:
        yield one


class Visits:
    """Opens each dashboard once for each state, for the GPU that the story is about."""

    def __init__(self, shown: Gallery) -> None:
        self._shown = shown
        self.see = cache(self._see)

    def _see(self, uid: str, state: str) -> Seen:
        moment = self._shown.at(STATES_OF_THE_STORY[state])
        variables = {NODE.uid: {"node": self._node(state)}, DEVICE.uid: {"uuid": self._uuid()}}
        with self._shown.browser.dashboard(uid, moment, **variables.get(uid, {})) as drawn:
            return Seen(
                drawn.panels(), tuple(drawn.links()), tuple(drawn.words()), tuple(drawn.complaints)
            )

    def _node(self, state: str) -> str:
        return "node-c" if state == "silent" else self._shown.story.victim.partition("/")[0]

    def _uuid(self) -> str:
        node, _, number = self._shown.story.victim.partition("/")
        return uuids(self._shown, f'Hostname="{node}", minor="{number}"', "healthy")[0]


def uuids(shown: Gallery, matchers: str, state: str) -> list[str]:
    """Return the UUIDs of the GPUs whose exporters reported them in a state of the story."""
    moment = shown.at(STATES_OF_THE_STORY[state])
    found = shown.prometheus.query(f"draguard_gpu_info{{{matchers}}} @ {moment}")
    return sorted({series["metric"]["UUID"] for series in found})


@pytest.fixture(scope="module")
def visits(shown: Gallery) -> Visits:
    return Visits(shown)


def panels_of(board: Json) -> dict[str, Json]:
    """Return a dashboard's panels by title, those in closed rows too."""
    nested = (inside for panel in board["panels"] for inside in (panel, *panel.get("panels", ())))
    return {panel["title"]: panel for panel in nested if panel["type"] != "row"}


def variables_of(board: Json) -> set[str]:
    """Return what can be chosen on a dashboard; what merely follows from it is hidden."""
    return {
        variable["name"] for variable in board["templating"]["list"] if variable["hide"] != HIDDEN
    }


@pytest.mark.parametrize("state", STATES_OF_THE_STORY)
@pytest.mark.parametrize("uid", UIDS)
def test_a_dashboard_is_drawn_without_an_error(visits: Visits, uid: str, state: str) -> None:
    seen = visits.see(uid, state)
    assert seen.complaints == ()
    assert {title: panel.errors for title, panel in seen.panels.items() if panel.errors} == {}
    assert set(seen.panels) == set(panels_of(dashboards()[uid]))


@pytest.mark.parametrize("state", STATES_OF_THE_STORY)
@pytest.mark.parametrize("uid", UIDS)
def test_every_panel_shows_data_or_says_in_words_that_there_is_none(
    visits: Visits, uid: str, state: str
) -> None:
    written = panels_of(dashboards()[uid])
    for title, panel in visits.see(uid, state).panels.items():
        if panel.drawn == 0:
            words = written[title]["fieldConfig"]["defaults"]["noValue"]
            assert words in panel.text, f"{title} is empty"
        else:
            assert panel.drawn > 0, f"{title} was not drawn"


def test_the_fleet_tells_the_story(visits: Visits) -> None:
    well, lost, unanswered = (visits.see(FLEET.uid, state) for state in STATES_OF_THE_STORY)
    reported = "GPUs that are not healthy"
    assert well.panels[reported].drawn == 0
    assert lost.panels[reported].drawn == 1
    assert unanswered.panels[reported].drawn == 1 + 8


@pytest.mark.parametrize("state", STATES_OF_THE_STORY)
def test_the_gpus_of_a_node_stand_in_the_order_of_their_numbers(visits: Visits, state: str) -> None:
    """A lost GPU keeps the number that it had, and silent ones theirs."""
    panels = visits.see(NODE.uid, state).panels
    for title in ("GPUs", "State of GPUs over time"):
        numbers = re.findall(r"GPU (\S+)", panels[title].text)
        assert numbers == [str(number) for number in range(8)], title


@pytest.mark.parametrize("state", STATES_OF_THE_STORY)
@pytest.mark.parametrize("uid", UIDS)
def test_no_chart_names_a_gpu_by_its_uuid(visits: Visits, uid: str, state: str) -> None:
    charts = [panel for panel in visits.see(uid, state).panels.values() if panel.type != "table"]
    assert [panel.title for panel in charts if _UUID.search(panel.text)] == []


def test_a_table_names_a_gpu_by_its_number_and_its_link_by_its_uuid(visits: Visits) -> None:
    """The column that the link takes the UUID from is there and not seen."""
    seen = visits.see(FLEET.uid, "xid-79")
    hit = seen.panels["Affected pods"].text.splitlines()
    leads = [given.get("uuid", "") for to, given, _ in map(read, seen.links) if to == DEVICE.uid]

    assert "GPU" in hit
    assert "UUID" not in hit
    assert [line for line in hit if line.isdigit()], "the number"
    assert [link for link in leads if _UUID.fullmatch(link)], "no link names a GPU"


def test_a_question_about_a_claim_names_its_own_gpus_alone(shown: Gallery) -> None:
    moment = shown.at(STATES_OF_THE_STORY["healthy"])
    with shown.browser.dashboard(CLAIM.uid, moment, namespace="serving") as drawn:
        requested = {uuid for query in drawn.queries for uuid in _UUID.findall(unquote_plus(query))}
        held = drawn.variables()["held"]
    of_node_c = uuids(shown, 'Hostname="node-c", mig="true"', "healthy")
    assert requested == set(of_node_c) == set(held["options"])


@pytest.mark.parametrize("state", STATES_OF_THE_STORY)
@pytest.mark.parametrize("uid", UIDS)
def test_what_is_unknown_or_worse_is_never_green(visits: Visits, uid: str, state: str) -> None:
    seen = visits.see(uid, state)
    empty = {title for title, panel in seen.panels.items() if panel.drawn == 0}
    bad = [
        word
        for word in seen.words
        if (word.text in NOT_WELL or word.panel in empty) and word.is_green
    ]
    assert bad == []


def test_what_is_healthy_is_green(visits: Visits) -> None:
    """Without it the test before would pass on a page that it cannot read."""
    words = visits.see(NODE.uid, "healthy").words
    assert [word.is_green for word in words if word.text == HEALTHY.word].count(True) >= 8


def test_the_words_of_a_silent_node_are_those_of_not_knowing(visits: Visits) -> None:
    words = {word.text for word in visits.see(NODE.uid, "silent").words}
    assert "No data" in words


@pytest.mark.parametrize("state", STATES_OF_THE_STORY)
@pytest.mark.parametrize("uid", UIDS)
def test_every_link_leads_to_a_dashboard_with_those_variables(
    visits: Visits, uid: str, state: str
) -> None:
    boards = dashboards()
    links = visits.see(uid, state).links
    assert links
    for link in links:
        target, given, others = read(link)
        assert target in boards, f"{link} leads nowhere"
        assert {"from", "to"} <= set(others), f"{link} forgets the time"
        if not is_of_the_head(link, boards[uid]):
            assert set(given) <= variables_of(boards[target]), f"{link} chooses what is not there"
            assert all(given.values()), f"{link} chooses nothing for a variable"


def read(link: str) -> tuple[str, dict[str, str], dict[str, str]]:
    """Return the uid, the variables and the other parameters of a link."""
    place = urlsplit(link)
    query = dict(parse_qsl(place.query, keep_blank_values=True))
    given = {name: query.pop(name) for name in list(query) if name.startswith("var-")}
    named = {name.removeprefix("var-"): value for name, value in given.items()}
    return place.path.removeprefix("/d/"), named, query


def is_of_the_head(link: str, board: Json) -> bool:
    """Whether it hands on all variables as they are, whatever dashboard it leads to."""
    return set(read(link)[1]) == variables_of(board)


def test_following_links_arrives_at_what_they_name(visits: Visits, shown: Gallery) -> None:
    """One link of each kind: to the same dashboard, with the same variables."""
    boards = dashboards()
    kinds = {
        (target, tuple(given)): link
        for uid in UIDS
        for link in visits.see(uid, "xid-79").links
        for target, given, _ in [read(link)]
        if not is_of_the_head(link, boards[uid])
    }
    assert {target for target, _ in kinds} >= {NODE.uid, DEVICE.uid, CLAIM.uid}
    for link in kinds.values():
        with shown.browser.at(link, shown.at(STATES_OF_THE_STORY["xid-79"])) as arrived:
            assert arrived.complaints == []
            chosen = arrived.variables()
            for name, value in read(link)[1].items():
                assert value in chosen[name]["value"], f"{link}: {name} is {chosen[name]['value']}"
            panels = arrived.panels().values()
            assert any(panel.drawn > 0 for panel in panels), f"nothing is there after {link}"


def test_a_node_narrows_the_gpus_to_choose_from(shown: Gallery) -> None:
    moment = shown.at(STATES_OF_THE_STORY["healthy"])
    with shown.browser.dashboard(DEVICE.uid, moment, node="node-a") as drawn:
        options = drawn.variables()["uuid"]["options"]
    assert sorted(options) == uuids(shown, 'Hostname="node-a"', "healthy")


def test_a_namespace_narrows_the_claims_to_choose_from(shown: Gallery) -> None:
    moment = shown.at(STATES_OF_THE_STORY["healthy"])
    with shown.browser.dashboard(CLAIM.uid, moment, namespace="serving") as drawn:
        options = drawn.variables()["claim"]["options"]
    assert len(options) == 5
    assert all(option.startswith("chat-serving") for option in options)


def test_a_fault_is_marked_on_the_charts_of_its_gpu(visits: Visits) -> None:
    before, after = (visits.see(DEVICE.uid, state) for state in ("healthy", "xid-79"))
    charts = [panel.title for panel in before.panels.values() if panel.type == "timeseries"]
    assert {before.panels[title].events for title in charts} == {0}
    assert all(after.panels[title].events >= 2 for title in charts), "the XID and the taint"
