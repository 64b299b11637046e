"""From declarations to JSON: places, columns, words, and the pass that puts grafanalib right."""

from typing import Any

import pytest
from msgspec import structs

from dashboards import columns, fleet, grafana, layout, links
from dashboards.finalize import finalized
from dashboards.happenings import QUIET, happenings
from dashboards.panel import UNKNOWN, Column, Meaning, Panel, Query, Row, Stat, Step, Table


def stat(title: str, width: int = 12, height: int = 4) -> Stat:
    return Stat(title=title, says="", queries=(), width=width, height=height)


def places(*panels: Panel) -> list[tuple[int, int]]:
    found = list(layout.placed([Row(title="row", panels=panels)]))
    return [(place.x, place.y) for _, place in found[1:]]


def test_panels_stand_side_by_side_as_long_as_they_fit() -> None:
    assert places(stat("a", 8), stat("b", 8), stat("c", 8), stat("d", 8)) == [
        (0, 1), (8, 1), (16, 1), (0, 5),
    ]  # fmt: skip


def test_a_line_is_as_high_as_its_highest_panel() -> None:
    assert places(stat("a", 12, 4), stat("b", 12, 9), stat("c", 24)) == [(0, 1), (12, 1), (0, 10)]


def test_a_panel_wider_than_a_dashboard_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'too wide' is 25 wide; a dashboard has 24"):
        places(stat("too wide", 25))


def table(*values: str) -> Table:
    queries = tuple(Query(expr="up", value=value) for value in values)
    listed = (Column(source="node", title="Node"), Column(source="age", title="Age"))
    return Table(title="t", says="", queries=queries, columns=listed)


def test_a_table_of_one_query_keeps_its_columns_in_their_order() -> None:
    keep, order = columns.transformations(table("age"))

    assert keep["options"]["include"]["names"] == ["node", "Value"]
    assert order["options"]["indexByName"] == {"node": 0, "Value": 1}
    assert order["options"]["renameByName"] == {"node": "Node", "Value": "Age"}


def test_a_table_of_several_queries_joins_them_and_knows_each_by_its_letter() -> None:
    join, keep, _ = columns.transformations(table("count", "age"))

    assert join["id"] == "merge"
    assert keep["options"]["include"]["names"] == ["node", "Value #B"]


def test_a_column_that_is_there_for_links_alone_is_hidden_in_old_and_new_tables() -> None:
    uuid = Column(source="UUID", title="UUID", hidden=True)
    number = Column(source="GPU", title="GPU", links=(links.TO_DEVICE,))
    board = drawn(structs.replace(table("one"), columns=(number, uuid)))
    settings = {
        override["matcher"]["options"]: override for override in board["fieldConfig"]["overrides"]
    }
    of_uuid = {entry["id"]: entry["value"] for entry in settings["UUID"]["properties"]}
    of_number = {entry["id"]: entry["value"] for entry in settings["GPU"]["properties"]}

    assert of_uuid["custom.hidden"] is True
    assert of_uuid["custom.hideFrom"]["viz"] is True
    assert "custom.hidden" not in of_number
    assert "var-uuid=${__data.fields.UUID:percentencode}" in of_number["links"][0]["url"]


def drawn(panel: Panel) -> dict[str, Any]:
    """Return a panel as it is stored."""
    made = grafana.to_json(
        structs.replace(fleet.DASHBOARD, rows=(Row(title="r", panels=(panel,)),))
    )
    return finalized(made)["panels"][1]


def test_values_that_are_sorted_by_a_label_are_named_after_it() -> None:
    """Prometheus sorts an instant answer by nothing, and a number in a name is no value."""
    well = Meaning(0, "Healthy", "green")
    made = drawn(
        Stat(
            title="t", says="", queries=(Query(expr="up", legend="GPU {{GPU}}"),), by="GPU",
            meanings=(well,), links=(links.TO_DEVICE,),
        )
    )  # fmt: skip
    defaults = made["fieldConfig"]["defaults"]
    (of_values,) = made["fieldConfig"]["overrides"]

    assert made["transformations"][0]["options"]["sort"] == [{"desc": False, "field": "GPU"}]
    assert (made["targets"][0]["format"], made["options"]["reduceOptions"]["values"]) == (
        "table",
        True,
    )
    assert defaults["displayName"] == "GPU ${__data.fields.GPU}"
    assert "var-uuid=${__data.fields.UUID:percentencode}" in defaults["links"][0]["url"]
    assert [mapping["type"] for mapping in defaults["mappings"]] == ["special"]
    assert of_values["matcher"]["options"] == "Value"
    assert [mapping["type"] for mapping in of_values["properties"][0]["value"]] == [
        "value",
        "special",
    ]


def test_of_what_seldom_happens_only_what_did_is_shown_and_that_somebody_would_tell() -> None:
    made = drawn(happenings("t", "", Query(expr="errors"), Query(expr="up")))
    zeros, kept = made["fieldConfig"]["overrides"][:2]

    assert zeros["matcher"]["options"]["reducer"] == "allIsZero"
    assert zeros["properties"][0]["value"]["viz"] is True
    assert kept["matcher"] == {"id": "byName", "options": QUIET}
    assert kept["properties"][0]["value"]["viz"] is False
    assert [target["expr"] for target in made["targets"]] == ["errors", "0 * count(up)"]


def test_below_the_first_step_nothing_is_known() -> None:
    made = grafana.steps((Step(0, "green"), Step(1, "red")))["steps"]

    assert made[0] == {"color": UNKNOWN, "value": None}
    assert made[1:] == [{"color": "green", "value": 0}, {"color": "red", "value": 1}]


def test_no_value_has_a_word_and_the_colour_of_not_knowing() -> None:
    *words, none = grafana.meanings((Meaning(0, "well", "green"),), "who knows")

    assert words[0]["options"] == {"0": {"text": "well", "color": "green", "index": 0}}
    assert none["options"]["match"] == "null+nan"
    assert (none["options"]["result"]["text"], none["options"]["result"]["color"]) == (
        "who knows",
        UNKNOWN,
    )


def test_a_range_of_values_can_have_one_word() -> None:
    first, _ = grafana.meanings((Meaning(2, "some", "red", upto=4),), "none")

    assert first["type"] == "range"
    assert (first["options"]["from"], first["options"]["to"]) == (2, 4)


def test_the_pass_drops_nulls_old_keys_and_bare_data_sources() -> None:
    panel = {
        "type": "stat", "span": 6, "title": "t", "links": None, "datasource": "$datasource",
        "targets": [{"expr": "up", "metric": "", "step": 10, "datasource": None}],
        "fieldConfig": {"defaults": {"thresholds": {"steps": [{"color": "red", "value": None}]}}},
    }  # fmt: skip
    made = finalized(
        {
            "title": "t", "rows": [], "style": "dark", "schemaVersion": 12, "panels": [panel],
            "timepicker": {"nowDelay": None}, "templating": {"list": []},
            "annotations": {"list": []},
        }
    )  # fmt: skip

    (one,) = made["panels"]
    assert not {"rows", "style"} & set(made)
    assert not {"span", "links"} & set(one)
    assert one["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert set(one["targets"][0]) == {"expr", "datasource"}
    assert one["fieldConfig"]["defaults"]["thresholds"]["steps"] == [
        {"color": "red", "value": None}
    ]
