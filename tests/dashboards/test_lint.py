"""What dashboard-linter asks, for all panel types, and what it does not ask.

Of its 17 rules those on data source, title and description, units, targets, PromQL, rate interval,
counters, variables and editing are here, in test_queries and in test_json. Not taken over: a
variable `job` and `instance` and both in every query (cluster, node and UUID tell things apart, and
a job's name is the user's), and the rules on LogQL, of which there is none.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from dashboards import catalogue, health, variables
from dashboards.boards import DASHBOARDS, panels, rendered
from dashboards.panel import GREEN, BarGauge, Panel, Stat, States, Table, TimeSeries
from tests.dashboards.known import LABELS

Json = dict[str, Any]
BOARDS = rendered()
boards = pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
EVERY = [(dashboard.board.uid, panel) for dashboard in DASHBOARDS for panel in panels(dashboard)]
every_panel = pytest.mark.parametrize(
    "panel", [panel for _, panel in EVERY], ids=[f"{uid}/{panel.title}" for uid, panel in EVERY]
)
UNITS = {
    "none", "short", "s", "bytes", "celsius", "watt", "hertz", "percentunit", "reqps",
    "dateTimeAsIso",
}  # fmt: skip
_GREENS = re.compile(GREEN)
_CHOSEN = re.compile(r"\$\{(\w+):queryparam\}")
_FIELD = re.compile(r"\$\{__(?:data\.fields|field\.labels)\.(\w+):percentencode\}")


def drawn(board: Json) -> list[Json]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


@every_panel
def test_a_panel_has_a_title_a_description_a_unit_and_a_query(panel: Panel) -> None:
    assert panel.title
    assert panel.says.endswith(".")
    assert len(panel.says) > len(panel.title) + 20, "say how to read it, not its title again"
    assert panel.unit in UNITS
    assert panel.queries


@boards
def test_what_is_drawn_has_them_too(board: Json) -> None:
    for panel in drawn(board):
        assert panel["title"]
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert [target["expr"] for target in panel["targets"]]
        assert panel["fieldConfig"]["defaults"]["noValue"]


@every_panel
def test_a_number_has_a_unit_unless_words_stand_for_it(panel: Panel) -> None:
    if not isinstance(panel, Table):
        assert panel.unit != "none" or panel.meanings
        return
    values = {query.value for query in panel.queries}
    for column in panel.columns:
        assert column.unit in UNITS
        if column.source in values:
            assert column.unit != "none" or column.meanings, column.title


@every_panel
def test_a_state_says_in_words_what_each_number_is(panel: Panel) -> None:
    if isinstance(panel, States):
        assert len(panel.meanings) > 1
    if isinstance(panel, Stat) and panel.filled:
        assert panel.meanings or panel.colours


@every_panel
def test_nothing_that_is_not_known_is_green(panel: Panel) -> None:
    """Below the first step, without a value, and in any word for not knowing."""
    for meaning in panel.meanings:
        if meaning.text in {"Unknown", "Stale", "No data", "stale", "no data"}:
            assert not _GREENS.search(meaning.colour), meaning
    assert not re.fullmatch(r"ok|healthy|0|good|fine", panel.none, re.IGNORECASE)


@boards
def test_the_colour_of_no_value_is_never_green(board: Json) -> None:
    for panel in drawn(board):
        for setting in (panel["fieldConfig"]["defaults"], *overridden(panel)):
            if "thresholds" in setting:
                assert not _GREENS.search(setting["thresholds"]["steps"][0]["color"])
            for mapping in setting.get("mappings", []):
                if mapping["type"] == "special":
                    assert mapping["options"]["match"] == "null+nan"
                    assert not _GREENS.search(mapping["options"]["result"]["color"])


@boards
def test_every_value_that_can_be_null_has_a_word_and_a_colour_for_it(board: Json) -> None:
    for panel in drawn(board):
        kinds = [mapping["type"] for mapping in panel["fieldConfig"]["defaults"]["mappings"]]
        assert "special" in kinds, panel["title"]


def overridden(panel: Json) -> Iterator[Json]:
    for override in panel["fieldConfig"]["overrides"]:
        yield {each["id"]: each["value"] for each in override["properties"]}


@boards
def test_a_large_value_is_of_this_moment_and_not_the_last_one_known(board: Json) -> None:
    """A range would show the last value of an exporter that is dead."""
    for panel in drawn(board):
        if panel["type"] in {"stat", "bargauge", "table"}:
            assert all(target["instant"] and not target["range"] for target in panel["targets"])


def test_only_health_that_is_known_and_good_is_green() -> None:
    assert [state.word for state in health.STATES if _GREENS.search(state.colour)] == ["Healthy"]
    assert [state.number for state in health.STATES] == list(range(len(health.STATES)))


@boards
def test_every_link_leads_to_a_dashboard_with_the_variables_that_it_needs(board: Json) -> None:
    by_uid = {entry.uid: entry for entry in catalogue.BOARDS}
    for link in links(board):
        url = urlsplit(_CHOSEN.sub(r"var-\1=chosen", link).replace("${__url_time_range}", "from=1"))
        target = by_uid[url.path.removeprefix("/d/")]
        given = {key.removeprefix("var-") for key, _ in parse_qsl(url.query)}
        assert given <= {*target.variables, "from"}
        assert given >= {"datasource", "cluster", "from", *target.needs}
        assert set(_FIELD.findall(link)) <= LABELS


def links(board: Json) -> Iterator[str]:
    for panel in drawn(board):
        for setting in (panel["fieldConfig"]["defaults"], *overridden(panel)):
            yield from (link["url"] for link in setting.get("links", []))


@every_panel
def test_a_links_labels_are_there_where_it_stands(panel: Panel) -> None:
    """In a row by a column's label, which Grafana drops when no column shows it."""
    if isinstance(panel, Table):
        shown = {column.source for column in panel.columns}
        for column in panel.columns:
            for link in column.links:
                fields = set(_FIELD.findall(link.of_row(shown)))
                assert fields <= shown, column.title


def test_one_comes_from_the_fleet_to_the_claim_and_to_the_remediation_by_links() -> None:
    leads = {
        uid: {urlsplit(link).path.removeprefix("/d/") for link in links(board)}
        for uid, board in zip(
            (board.uid for board in catalogue.BOARDS), BOARDS.values(), strict=True
        )
    }
    assert catalogue.NODE.uid in leads[catalogue.FLEET.uid]
    assert catalogue.DEVICE.uid in leads[catalogue.NODE.uid]
    assert catalogue.CLAIM.uid in leads[catalogue.DEVICE.uid]
    assert catalogue.REMEDIATION.uid in leads[catalogue.FLEET.uid]
    assert catalogue.DEVICE.uid in leads[catalogue.REMEDIATION.uid]


@boards
def test_the_header_leads_to_the_others_with_variables_and_time(board: Json) -> None:
    (link,) = board["links"]

    assert (link["type"], link["tags"], link["includeVars"], link["keepTime"]) == (
        "dashboards", ["draguard"], True, True,
    )  # fmt: skip
    assert "draguard" in board["tags"]


@boards
def test_variables_begin_with_the_data_source_and_follow_the_time(board: Json) -> None:
    first, *others = board["templating"]["list"]

    assert (first["type"], first["query"], first["name"]) == (
        "datasource", "prometheus", "datasource",
    )  # fmt: skip
    assert all(variable["label"] and variable["description"] for variable in (first, *others))
    assert [variable["name"] for variable in others if variable["refresh"] != 2] == []


@boards
def test_what_is_found_and_not_chosen_is_unseen_always_all_and_handed_to_no_one(
    board: Json,
) -> None:
    found = [variable for variable in board["templating"]["list"] if variable["hide"]]

    assert len(found) == (board["uid"] == catalogue.CLAIM.uid)
    for variable in found:
        assert (variable["hide"], variable["skipUrlSync"]) == (2, True)
        assert (variable["includeAll"], variable["multi"], variable["current"]["value"]) == (
            True, True, ["$__all"],
        )  # fmt: skip
        assert "allValue" not in variable, "a pattern would ask about every GPU"


@pytest.mark.parametrize("board", catalogue.BOARDS, ids=lambda board: board.uid)
def test_each_variable_narrows_those_after_it(board: catalogue.Board) -> None:
    chosen = variables.of(board)
    for number, variable in enumerate(chosen):
        requested = set(re.findall(r"\$(\w+)", variable.query))
        before = {each.name for each in chosen[:number]}
        assert requested <= before
        if number > 1:
            assert "cluster" in requested


@boards
def test_xids_taints_and_untaints_are_marked(board: Json) -> None:
    names = [annotation["name"] for annotation in board["annotations"]["list"][1:]]

    assert names == ["XIDs", "Taints", "Untaints"]


@every_panel
def test_a_colour_by_legend_is_of_a_legend_that_can_be(panel: Panel) -> None:
    if isinstance(panel, TimeSeries | BarGauge | Stat) and panel.colours:
        fixed = {query.legend for query in panel.queries if "{{" not in query.legend}
        reported = [query for query in panel.queries if query.legend.startswith("{{")]
        assert fixed <= set(panel.colours)
        assert reported or set(panel.colours) <= fixed


@every_panel
def test_a_column_is_a_label_or_a_querys_value(panel: Panel) -> None:
    if isinstance(panel, Table):
        values = {query.value for query in panel.queries}
        assert {column.source for column in panel.columns} <= LABELS | values
        assert len(values) == len(panel.queries)
        titles = [column.title for column in panel.columns]
        assert len(titles) == len(set(titles))
        assert panel.sort in {"", *titles}
