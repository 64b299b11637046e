"""The page of each product and MIG layout, as a running exporter serves it on a simulated node.

UPDATE_GOLDEN=1 rewrites tests/golden/exporter/live/. Moments and figures of the exporter's own
process are masked; every other byte is compared. OpenMetrics has the same samples.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.exporter.live.stage import (
    OPENMETRICS,
    TEXT,
    exporter_of,
    fetch,
    read_strictly,
    simulated,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "exporter" / "live"
_MASKED = re.compile(
    r"^((?:process_\w+|draguard_\w+_timestamp_seconds|draguard_\w+_duration_seconds)"
    r"(?:{[^}]*})?) \S+$",
    re.MULTILINE,
)
_VERSION = re.compile(r'^(draguard_exporter_build_info{version=")[^"]*', re.MULTILINE)
_SOURCES = ("nvml", "kmsg", "podresources")
_SECOND_SAMPLE = ("DCGM_FI_PROF_GR_ENGINE_ACTIVE{",)
"""Ratios and rates are between two samples."""
_SECOND_OF_AMPERE = ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{",)
"""Boards before Hopper tell no ratios by NVML."""


class Board(NamedTuple):
    gpus: str
    mig: Mapping[int, Sequence[str]] = {}
    slices: int = 0
    late: tuple[str, ...] = _SECOND_SAMPLE


BOARDS: Mapping[str, Board] = {
    "a100-40": Board("2xA100", {1: ["1g.5gb"] * 7}, 7, late=_SECOND_OF_AMPERE),
    "a100-80": Board("2xA100-80GB", {1: ["4g.40gb", "3g.40gb"]}, 2, late=_SECOND_OF_AMPERE),
    "h100": Board("3xH100", {1: ["1g.10gb"] * 7, 2: []}, 7),
    "h100-mixed": Board("1xH100", {0: ["1g.10gb+me", "1g.20gb", "2g.20gb"]}, 3),
    "h200": Board("2xH200", {1: ["7g.141gb"]}, 1),
    "b200": Board("2xB200", {1: ["3g.90gb", "2g.45gb"]}, 2),
    "gb200": Board("2xGB200", {1: ["1g.23gb"] * 7}, 7),
}


def masked(page: str) -> str:
    return _VERSION.sub(r"\1-", _MASKED.sub(r"\1 -", page))


def samples(page: str) -> list[str]:
    return [line for line in masked(page).splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_is_shown_as_it_was_agreed(name: str) -> None:
    board = BOARDS[name]
    with simulated(board.gpus, board.mig) as node, exporter_of(node) as exporter:
        exporter.wait_shows(*(f'draguard_source_up{{source="{source}"}} 1' for source in _SOURCES))
        exporter.wait_shows("\ndraguard_render_duration_seconds ", *board.late)
        text, strict = (fetch(exporter, form)[1] for form in (TEXT, OPENMETRICS))
    found = read_strictly(text, TEXT)
    assert len(found.get("draguard_mig_slice_info", ())) == board.slices
    assert read_strictly(strict, OPENMETRICS).keys() == found.keys()
    assert samples(strict) == samples(text)
    golden = GOLDEN / f"{name}.text"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(masked(text), encoding="utf-8")
    assert masked(text) == golden.read_text(encoding="utf-8")
