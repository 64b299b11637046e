"""Where the time went, from an audit log."""

import json
from datetime import UTC, datetime

import pytest

from benchmarks.audit import LEGS, eviction, legs, requests


def line(resource: str, arrived: float, answered: float, verb: str = "create") -> str:
    def stamp(moment: float) -> str:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    event = {
        "verb": verb,
        "objectRef": {"resource": resource, "name": "x"},
        "requestReceivedTimestamp": stamp(arrived),
        "stageTimestamp": stamp(answered),
        "auditID": "an-id",
    }
    return json.dumps(event) + "\n"


INCIDENT = [
    line("devicetaintrules", 99.0, 99.1),  # the yardstick, before the fault
    line("nodedevicehealths", 100.010, 100.015, "patch"),
    line("nodedevicehealths", 100.020, 100.025, "patch"),
    line("deviceincidents", 100.022, 100.027),
    line("devicetaintrules", 100.030, 100.036),
]


def test_each_leg_runs_from_the_end_of_the_one_before() -> None:
    log = requests("".join(reversed(INCIDENT)).encode())

    found = legs(log, written=100.0, read=100.004, seen=100.037)

    assert found is not None
    assert len(found) == len(LEGS)
    expected = (0.004, 0.006, 0.005, 0.015, 0.006, 0.001)
    assert found == pytest.approx(expected, abs=1e-6)


def test_an_incident_that_is_not_whole_has_no_legs() -> None:
    log = requests("".join(INCIDENT[:-1]).encode())

    assert legs(log, written=100.0, read=100.004, seen=100.037) is None


def test_a_last_line_that_is_still_being_written_is_left_out() -> None:
    text = "".join(INCIDENT).encode()

    assert len(requests(text)) == 5
    assert len(requests(text[:-1])) == 4


def test_an_eviction_runs_from_the_raised_rule_to_the_pod_that_is_deleted_after_it() -> None:
    incident = [
        line("devicetaintrules", 99.0, 99.1, "patch"),
        line("pods", 100.1, 100.2, "delete"),
        line("devicetaintrules", 100.3, 100.4, "create"),
        line("devicetaintrules", 100.6, 100.7, "patch"),
        line("pods", 100.65, 100.75, "delete"),
        line("pods", 100.8, 100.9, "delete"),
    ]

    assert eviction(requests("".join(incident).encode()), written=100.0) == pytest.approx(0.15)
    assert eviction(requests("".join(incident[:4]).encode()), written=100.0) is None
    assert eviction(requests("".join(incident[:3]).encode()), written=100.0) is None
