"""What the hex words of XIDs 144 to 150 say."""

import csv
import itertools
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model import nvlink5

OLD, NEW = "570.133.20", "595.45.04"
ROWS = list(
    csv.DictReader(
        resources.files("exporter").joinpath("data", "nvlink5_decode.csv").read_text().splitlines()
    )
)


def line(unit: str, intrinfo: int, status: int, link: str = "10") -> str:
    words = " ".join(["0x00000000"] * 4)
    return f"{unit} Nonfatal XC1 i0 Link {link} (0x{intrinfo:08x} 0x{status:08x} {words})"


def word(pattern: str, free: str = "0") -> int:
    return int(pattern.replace("-", free), 2)


def status_of(row: dict[str, str]) -> int:
    return int((row["error_status"] or "0xdead").split("/")[0], 16)


@pytest.mark.parametrize("layout", ["v1", "v2"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['unit']} {row['error_status']}")
def test_every_row_is_found_by_its_words(row: dict[str, str], layout: str) -> None:
    names = row["unit"].split("/")
    unit = names[0] if layout == "v1" else names[-1]
    driver = OLD if layout == "v1" else NEW
    for free, logged_text in itertools.product("01", (driver, "", "unknown")):
        intrinfo = word(row[f"intrinfo_pattern_{layout}"], free)
        meant = nvlink5.decode(int(row["xid"]), line(unit, intrinfo, status_of(row)), logged_text)
        assert meant is not None
        assert (meant.unit, meant.severity, meant.origin) == (unit, row["severity"], row["hw_sw"])
        assert meant.action == row["immediate_action"]
        assert meant.investigate == row["investigatory_action"]
        assert meant.peer_caused == (row["investigatory_action"] == "INVESTIGATE_PEER_DEVICE")
        assert (meant.effect, meant.link) == (row["local_remote"], 10)


def test_the_table_is_whole() -> None:
    actions = [sort.action for sort in nvlink5.sorts()]
    counts = {action: actions.count(action) for action in set(actions)}
    assert counts == {"IGNORE": 45, "RESET_GPU": 42, "XID_154_EVAL": 8}


@pytest.mark.parametrize("layout", ["v1", "v2"])
def test_a_second_pattern_makes_the_action_stronger(layout: str) -> None:
    row = next(candidate for candidate in ROWS if candidate["action2"])
    message = line(row["unit"], word(row[f"action2_pattern_{layout}"]), status_of(row))
    meant = nvlink5.decode(145, message, OLD if layout == "v1" else NEW)
    assert meant is not None
    assert meant.action == "RESET_GPU"


LINES: list[tuple[int, str, str, dict[str, Any]]] = [
    (
        145,
        "RLW_SRC_TRACK Nonfatal XC1 i0 Link 10 (0x04082907 0x00000008 0x00000000)",
        NEW,
        {"unit": "RLW_SRC_TRACK", "action": "XID_154_EVAL", "link": 10},
    ),
    (
        149,
        "NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000 0x00000000)",
        OLD,
        {"unit": "NETIR", "action": "RESET_GPU", "link": None, "peer_caused": False},
    ),
    (
        149,
        "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x00000000)",
        OLD,
        {"unit": "NETIR_LINK_EVT", "reason": 4, "investigate": "INVESTIGATE_LINK_SI", "link": 8},
    ),
    (
        149,
        "NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x025001c6 0x00000000 0x00000000)",
        "",
        {"reason": 0x25, "peer_caused": True, "action": "RESET_GPU"},
    ),
    (150, "MSE_WATCHDOG Fatal (0x00000000 0x00000000)", NEW, {"unit": "MSE_WATCHDOG"}),
    (150, "MSE Degraded Fatal (0x00000000 0xffffffff)", NEW, {"unit": "MSE Degraded"}),
    (149, "NETIR_LINK_EVT Fatal Link 01 [0x004505c6]", OLD, {"reason": 4}),
]


@pytest.mark.parametrize(("code", "message", "driver", "expected"), LINES)
def test_lines_of_real_machines_are_decoded(
    code: int, message: str, driver: str, expected: dict[str, Any]
) -> None:
    meant = nvlink5.decode(code, message, driver)
    assert meant is not None
    assert {name: getattr(meant, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("code", "message", "driver"),
    [
        (145, "RLW_SRC_TRACK Nonfatal", NEW),
        (145, "RLW_SRC_TRACK (0x04082907", NEW),
        (145, "RLW_SRC_TRACK (0x04082907 0x00000300)", NEW),
        (31, "RLW_SRC_TRACK (0x04082907 0x00000008)", NEW),
        (149, "NETIR_LINK_EVT Fatal (0x004505c6 0x00000000)", NEW),
    ],
    ids=["no words", "one word", "status unknown", "another code", "layout of older drivers"],
)
def test_what_the_table_has_not_is_not_guessed(code: int, message: str, driver: str) -> None:
    assert nvlink5.decode(code, message, driver) is None


@pytest.mark.parametrize("driver", [OLD, NEW, ""])
def test_a_message_that_was_cut_has_the_same_meaning_or_none(driver: str) -> None:
    """A report that is too large cuts its messages."""
    layout = "v1" if driver == OLD else "v2"
    for row, free in itertools.product(ROWS, "01"):
        code, unit = int(row["xid"]), row["unit"].split("/")[0]
        whole = line(unit, word(row[f"intrinfo_pattern_{layout}"], free), status_of(row))
        meanings = {nvlink5.decode(code, whole[:end], driver) for end in range(len(whole))}
        assert meanings <= {None, nvlink5.decode(code, whole, driver)}, whole


@given(st.integers(140, 155), st.text(max_size=160), st.text(max_size=12))
def test_no_text_raises(code: int, message: str, driver: str) -> None:
    nvlink5.decode(code, message, driver)
    nvlink5.decode(code, f"x (0x{len(message):08x} 0x1 {message}", driver)
