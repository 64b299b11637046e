"""What a Node's metadata tell: our own mark, and what others did to it."""

import msgspec
import pytest

from remediator.model.node import (
    HARDWARE_READY,
    MARK,
    REPAIR_NEEDED,
    SIGNATURE,
    NodeCondition,
    RawNode,
    facts,
    is_ours,
)


def read(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> str:
    body = {"name": "node-a", "uid": "u", "labels": labels or {}, "annotations": annotations or {}}
    raw = msgspec.json.decode(msgspec.json.encode({"metadata": body}), type=RawNode)
    return "; ".join(facts(raw).cordons)


def test_a_plain_node_has_a_name_and_nothing_else_to_say() -> None:
    raw = msgspec.json.decode(
        b'{"kind":"PartialObjectMetadata","metadata":{"name":"node-a","uid":"u-1"}}', type=RawNode
    )

    found = facts(raw)

    assert (found.name, found.uid, found.cordons, found.marked) == (
        "node-a",
        "u-1",
        (),
        frozenset(),
    )
    assert found.conditions is None, "metadata cannot tell them"


@pytest.mark.parametrize(
    ("labels", "annotations", "words"),
    [
        ({"k8saas.nvidia.com/cordon-by": "NVSentinel"}, {}, "NVSentinel: cordoned by NVSentinel"),
        (
            {"k8saas.nvidia.com/cordon-reason": "XID-79"},
            {},
            "NVSentinel: cordoned because of XID-79",
        ),
        (
            {"dgxc.nvidia.com/nvsentinel-state": "draining"},
            {},
            "NVSentinel: state draining",
        ),
        ({}, {"quarantineHealthEvent": '{"a":1}'}, "NVSentinel: a quarantine is recorded"),
        (
            {},
            {"quarantineHealthEventIsCordoned": "True"},
            "NVSentinel: its quarantine cordoned the node",
        ),
        (
            {"remediation.medik8s.io/exclude-from-remediation": "true"},
            {},
            "medik8s: excluded from remediation (true)",
        ),
        ({}, {"remediation.medik8s.io/of-tomorrow": "x"}, "medik8s: of-tomorrow=x"),
    ],
)
def test_what_others_left_on_a_node_is_reported_in_words(
    labels: dict[str, str], annotations: dict[str, str], words: str
) -> None:
    assert read(labels, annotations) == words


@pytest.mark.parametrize("rest", ["", "[]", "{}", " [] "])
def test_the_rest_of_a_quarantine_that_ended_is_not_one(rest: str) -> None:
    left = {"quarantineHealthEvent": rest, "quarantineHealthEventIsCordoned": "False"}

    assert read(annotations=left) == ""


def test_what_others_wrote_is_cut_short_and_made_printable() -> None:
    text = read(annotations={"remediation.medik8s.io/nhc-timed-out": "\x1b[31m" + "x" * 9000})

    assert text.isprintable()
    assert len(text) < 150


def test_the_mark_names_only_conditions_of_ours() -> None:
    raw = msgspec.json.encode(
        {
            "metadata": {
                "name": "node-a",
                "annotations": {MARK: f"{REPAIR_NEEDED}, Ready,,{HARDWARE_READY}"},
            }
        }
    )

    found = facts(msgspec.json.decode(raw, type=RawNode))

    assert found.marked == {REPAIR_NEEDED, HARDWARE_READY}


def test_the_mig_geometry_that_a_label_asks_for_is_read() -> None:
    labels = {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": "pending"}
    body = {"name": "node-a", "labels": labels}
    found = facts(msgspec.json.decode(msgspec.json.encode({"metadata": body}), type=RawNode))

    assert (found.mig_config, found.mig_state) == ("all-1g.10gb", "pending")


OURS = f"{SIGNATURE}no GPU needs a node-level repair"


@pytest.mark.parametrize(
    ("kind", "message", "marked", "ours"),
    [
        (REPAIR_NEEDED, "whatever it says", False, True),
        (HARDWARE_READY, OURS, True, True),
        (HARDWARE_READY, OURS, False, False),
        (HARDWARE_READY, "written by another agent", True, False),
        ("DiskPressure", OURS, True, False),
    ],
)
def test_a_shared_condition_is_ours_by_the_annotation_and_by_its_message(
    kind: str, message: str, *, marked: bool, ours: bool
) -> None:
    condition = NodeCondition(type=kind, status="True", reason="Any", message=message)

    assert is_ours(condition, frozenset({kind} if marked else ())) == ours
