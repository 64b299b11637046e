"""Words of a report from another release are Unknown, and never stop who reads it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.node_health import NodeDeviceHealth, NodeHealth
from exporter.model.node_health_words import (
    RECOVERY_ACTIONS,
    ResetRequest,
    known,
    name_of,
    reset_request,
    worst_request,
)

RECORD = {"code": 94, "count": 1, "firstSeenTime": "2026-01-05T08:00:00Z"}
RECORD["lastSeenTime"] = RECORD["firstSeenTime"]


def stored(word: str) -> NodeHealth:
    """Return a report that says this word wherever a word stands."""
    gpu = {
        "uuid": "GPU-1",
        "presence": word,
        "presenceTransitionTime": RECORD["firstSeenTime"],
        "migMode": word,
        "recoveryAction": {"support": word, "action": word, "code": 1},
        "memory": {
            "rowRemapPending": word,
            "rowRemapFailed": word,
            "sramThresholdExceeded": word,
            "pageRetirementPending": word,
        },
        "xids": [{**RECORD, "migMode": word, "resetRequest": word}],
    }
    source = {"name": "nvml", "state": word, "via": word}
    switch = {"pciBusID": "0000:c2:00.0", "sxids": [{**RECORD, "severity": word}]}
    status = {"gpus": [gpu], "sources": [source], "switches": [switch]}
    body = msgspec.json.encode({"metadata": {"name": "node-a"}, "status": status})
    return msgspec.json.decode(body, type=NodeDeviceHealth).status


@given(st.text().filter(lambda word: word not in {"Present", "Lost", "True", "False", "Up"}))
def test_a_word_of_another_release_is_unknown(word: str) -> None:
    report = stored(word if word[:1].islower() else f"x{word}")
    (gpu,), (source,), (switch,) = report.gpus, report.sources, report.switches
    memory = gpu.memory

    assert (gpu.presence, gpu.xids[0].mig_mode, source.via) == ("Unknown",) * 3
    assert [gpu.mig, gpu.recovery_action.supported, memory.remap_pending] == [None] * 3
    assert [memory.remap_failure, memory.sram_threshold, memory.retired_pending] == [None] * 3
    assert (source.up, gpu.xids[0].reset_request, switch.sxids[0].fatal) == (
        False,
        "Unknown",
        None,
    )


def test_a_number_in_the_place_of_a_word_is_no_report() -> None:
    body = b'{"metadata": {}, "status": {"sources": [{"name": "nvml", "state": 7}]}}'
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=NodeDeviceHealth)


def test_what_is_known_is_neither_true_nor_false_without_its_word() -> None:
    assert [known(word, "True", "False") for word in ("True", "False", "Unknown", "")] == [
        True,
        False,
        None,
        None,
    ]


def test_a_code_without_a_name_is_other_and_no_code_has_no_name() -> None:
    named = [name_of(code, RECOVERY_ACTIONS) for code in (None, 0, 7, 8, -1)]
    assert named == ["", "None", "SystemReboot", "Other", "Other"]


def test_the_worst_request_of_several_lines_stands() -> None:
    lines: list[ResetRequest] = [
        reset_request(at_once=False, after_drain=True),
        reset_request(at_once=None, after_drain=None),
        reset_request(at_once=False, after_drain=False),
    ]
    assert lines == ["AfterDrain", "Unknown", "NotRequested"]
    assert worst_request(lines) == "AfterDrain"
    assert worst_request([*lines, "Immediate"]) == "Immediate"
