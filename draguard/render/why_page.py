"""Why a pod or a claim waits, as one screen: the layers, the reason, what would be enough. Pure."""

from collections.abc import Iterator
from datetime import datetime
from typing import Self, get_args

import msgspec

from allocation.layers.explanation import Explanation, Known
from allocation.layers.finding import Finding, Layer
from allocation.plugin import Supply
from allocation.remedies import Change
from allocation.summary import Summary
from draguard.phrases import moment
from draguard.render.blocks import Block, Cell, Facts, Lines, Table, Tone, leaf

LAYERS: tuple[Layer, ...] = get_args(Layer)
_WELL = frozenset({"Running", "Finished", "Unused", "Reserved"})
_WITHOUT_LAYERS = frozenset({"Finished", "Deleting"})
"""How far it had come is not known any more."""


class ClaimLine(msgspec.Struct, frozen=True):
    name: str
    state: str
    """`allocated` or `waiting`."""
    devices: tuple[str, ...]
    requests: tuple[str, ...]


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `draguard why`."""

    kind: str
    """`pod` or `claim`."""
    namespace: str
    name: str
    at: datetime | None
    pod: str
    """Of which the layers are; "": no pod uses the claim."""
    node: str
    phase: str
    """Of the pod."""
    finding: Finding
    claims: tuple[ClaimLine, ...]
    summary: Summary | None
    changes: tuple[Change, ...]
    supplies: tuple[Supply, ...]
    unread: tuple[str, ...]

    @classmethod
    def of(
        cls, kind: str, namespace: str, name: str, known: Known, explanation: Explanation
    ) -> Self:
        return cls(
            kind=kind,
            namespace=namespace,
            name=name,
            at=known.at,
            pod=known.pod.metadata.name if known.pod else "",
            node=known.pod.spec.node_name if known.pod else "",
            phase=known.pod.status.phase if known.pod else "",
            finding=explanation.finding,
            claims=tuple(
                ClaimLine(
                    claim.metadata.name,
                    "allocated" if claim.status.allocation else "waiting",
                    tuple(str(result.name) for result in claim.results),
                    tuple(each.name for each in claim.spec.devices.requests),
                )
                for claim in known.claims
            ),
            summary=explanation.summary,
            changes=explanation.changes,
            supplies=explanation.supplies,
            unread=(*known.unread.values(), *([known.unreadable] if known.unreadable else [])),
        )


def why_page(found: Why) -> Iterator[Block]:
    finding, now = found.finding, found.at
    well = finding.reason in _WELL and found.phase != "Failed"
    tone: Tone = "good" if well else "bad"
    since = moment(finding.since, now) if now else ""
    passed = [f"{layer.lower()} ok" for layer in LAYERS[: LAYERS.index(finding.layer)]]
    here = "running" if finding.layer == "Running" else f"waits at {finding.layer.lower()}"
    if finding.layer == "Device" and found.phase == "Running":
        here = "running, on a device that is not well"
    layers = "" if finding.reason in _WITHOUT_LAYERS else ", ".join((*passed, here))
    pod = f"{found.namespace}/{found.pod}" if found.pod else "none uses it"
    yield Facts(
        (
            ("claim", f"{found.namespace}/{found.name}" if found.kind == "claim" else ""),
            ("pod", pod + (f", on {found.node}" if found.node else "")),
            ("layers", layers),
            ("reason", Cell(finding.reason, tone)),
            ("why", Cell(finding.message, "strong")),
            ("since", since),
        )
    )
    yield Lines(finding.evidence, title="Evidence")
    yield Lines(finding.todo, title="What to do")
    yield Table(
        ("CLAIM", "STATE", "DEVICES"),
        tuple((each.name, each.state, leaf(*each.devices)) for each in found.claims),
        title="Claims",
    )
    yield Lines(tuple(Cell(each, "warn") for each in found.unread), title="Not read")
