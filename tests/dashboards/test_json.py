"""The files in dashboards/json: fresh, strict, laid out, and safe to import in Grafana 10 to 13."""

import json
import warnings
from collections.abc import Iterator
from itertools import combinations
from typing import Any, cast

import pytest

from dashboards import catalogue
from dashboards.__main__ import FOLDER, files
from dashboards.boards import rendered
from dashboards.finalize import DATASOURCE

with warnings.catch_warnings():
    # It warns at import that it would rather write the next format, which Grafana 13 does not
    # take from files.
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

Json = dict[str, Any]
BOARDS = rendered()
boards = pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
DEAD = {"graph", "singlestat", "table-old", "grafana-worldmap-panel", "flant-statusmap-panel"}
OLD_KEYS = {"fieldOptions", "nullPointMode", "yaxes", "styles", "sharedCrosshair"}


def panels(board: Json) -> list[Json]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def everything(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    yield path, value
    if isinstance(value, dict):
        for key, member in cast("Json", value).items():
            yield from everything(member, f"{path}.{key}")
    if isinstance(value, list):
        for number, element in enumerate(cast("list[object]", value)):
            yield from everything(element, f"{path}[{number}]")


def test_the_files_are_what_the_declarations_make() -> None:
    """Stale? Run `python -m dashboards`."""
    stored = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}

    assert stored == files()


def test_there_is_a_file_for_each_dashboard_of_the_catalogue() -> None:
    assert list(BOARDS) == [board.file for board in catalogue.BOARDS]
    assert [board["uid"] for board in BOARDS.values()] == [board.uid for board in catalogue.BOARDS]


@boards
def test_grafanas_own_models_read_it_and_lose_nothing(board: Json) -> None:
    register_default_plugins()
    read = Dashboard.from_json(json.loads(json.dumps(board)))
    written = json.loads(json.dumps(read, cls=JSONEncoder))

    assert list(lost(board, written)) == []


def lost(ours: object, theirs: object, path: str = "") -> Iterator[str]:
    """Return what of ours is not in theirs; a null that they leave out is not lost."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        mine, other = cast("Json", ours), cast("Json", theirs)
        for key, value in mine.items():
            where = f"{path}.{key}".lstrip(".")
            if key in other:
                yield from lost(value, other[key], where)
            elif value is not None:
                yield where
    elif isinstance(ours, list) and isinstance(theirs, list):
        pairs = zip(cast("list[object]", ours), cast("list[object]", theirs), strict=True)
        for one, another in pairs:
            yield from lost(one, another, path)
    elif ours != theirs:
        yield f"{path}: {ours!r} became {theirs!r}"


@boards
def test_it_says_what_form_it_is_in_and_has_no_dead_part(board: Json) -> None:
    assert board["schemaVersion"] == 42
    assert {panel["pluginVersion"] for panel in panels(board)} == {"10.4.0"}
    assert DEAD & {panel["type"] for panel in board["panels"]} == set()
    paths = [path for path, _ in everything(board)]
    assert [path for path in paths if path.rpartition(".")[2] in OLD_KEYS] == []
    assert [path for path in paths if path.endswith("custom.displayMode")] == []


@boards
def test_it_cannot_be_edited_into_something_that_an_upgrade_undoes(board: Json) -> None:
    assert board["editable"] is False
    assert "id" not in board


@boards
def test_a_null_is_only_the_beginning_of_the_thresholds(board: Json) -> None:
    nulls = [path for path, value in everything(board) if value is None]

    assert [path for path in nulls if not path.endswith("steps[0].value")] == []


@boards
def test_every_query_goes_to_the_chosen_data_source(board: Json) -> None:
    asking = [*panels(board), *(target for panel in panels(board) for target in panel["targets"])]
    asking += board["annotations"]["list"][1:]
    asking += [variable for variable in board["templating"]["list"] if variable["type"] == "query"]

    assert [asker for asker in asking if asker["datasource"] != DATASOURCE] == []


@boards
def test_ids_are_unique_and_panels_do_not_overlap(board: Json) -> None:
    ids = [panel["id"] for panel in board["panels"]]
    places = [panel["gridPos"] for panel in board["panels"]]

    assert len(ids) == len(set(ids))
    assert [(a, b) for a, b in combinations(places, 2) if overlap(a, b)] == []
    assert all(place["x"] + place["w"] <= 24 for place in places)


def overlap(a: dict[str, int], b: dict[str, int]) -> bool:
    beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
    above = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
    return not beside and not above
