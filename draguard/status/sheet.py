"""`Status` for a person: the few lines that say whether somebody has to look. Pure."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from draguard.incidents.finding import short
from draguard.output.amounts import age, count, some
from draguard.output.sheet import Block, Cell, Facts, Lines, Table, Text
from draguard.status.fleet import modes_in_words
from draguard.status.words import Status

MOST = 10
"""Rows of a table; the whole of it is in `-o json`."""
LEADERLESS = timedelta(seconds=30)
"""After so long without a renewal somebody else should lead; fail-over takes 12 s."""


def sheet(found: Status, now: datetime) -> Iterator[Block]:
    yield Facts(tuple(_facts(found, now)), title=f"Draguard in {found.server}")
    yield _incidents(found, now)
    yield Table(
        ("NODE", "GPU", "WHY"),
        tuple((one.node, one.uuid, one.why) for one in found.unknown[:MOST]),
        title="Unknown GPUs",
    )
    yield Lines(tuple(_left_out(found)))


def _facts(found: Status, now: datetime) -> Iterator[tuple[str, Text]]:
    yield "nodes", _nodes(found)
    yield "GPUs", _gpus(found)
    yield "devices", _devices(found)
    yield "sources", _sources(found)
    yield "rules", _rules(found)
    yield "incidents", _counted(found)
    yield "mode", modes_in_words(found.modes)
    yield "policy", _policy(found)
    yield "leader", _leader(found, now)
    yield "stop", Cell(f"all new harm held: {found.stopped}", "bad") if found.stopped else ""


def _nodes(found: Status) -> Text:
    nodes = found.nodes
    parts = [f"{nodes.reporting} reporting"]
    parts += [f"{len(nodes.stale)} stale ({some(nodes.stale)})"] if nodes.stale else []
    if nodes.unwatched:
        parts.append(f"{len(nodes.unwatched)} without an agent ({some(nodes.unwatched)})")
    return Cell(", ".join(parts), "warn" if nodes.stale or nodes.unwatched else "")


def _gpus(found: Status) -> Text:
    gpus = found.gpus
    tone = "bad" if gpus.sick else "warn" if gpus.unknown else "good" if gpus.healthy else "warn"
    storied = f" ({gpus.storied} with an open incident)" if gpus.storied else ""
    counts = f"{gpus.healthy} healthy{storied}, {gpus.sick} sick, {gpus.unknown} unknown"
    return Cell(counts, tone)


def _devices(found: Status) -> Text:
    if not found.dra:
        return Cell(
            "this cluster serves no ResourceSlices: Dynamic Resource Allocation is off, or older "
            "than Kubernetes 1.32; see `draguard doctor`",
            "warn",
        )
    devices = found.devices
    return f"{devices.published} published, {devices.held} held, {devices.fenced} fenced"


def _sources(found: Status) -> Text:
    if not found.sources_down:
        return "all up where an agent reports" if found.nodes.reporting else ""
    nodes: defaultdict[str, list[str]] = defaultdict(list)
    for one in found.sources_down:
        nodes[f"{one.source} down ({one.reason})"].append(one.node)
    parts = [f"{what} on {some(where)}" for what, where in sorted(nodes.items())]
    return Cell("; ".join(parts), "warn")


def _rules(found: Status) -> Text:
    rules = found.rules
    if not rules.served:
        return Cell(
            "not served in this cluster, so nothing is fenced whatever the policy says; "
            "see `draguard doctor`",
            "warn",
        )
    ours = ", ".join(f"{number} {effect}" for effect, number in rules.ours.items() if number)
    more = [f"{rules.maintenance} for maintenance"] if rules.maintenance else []
    more += [f"{rules.others} of others"] if rules.others else []
    return "; ".join([ours or "none of ours", *more])


def _counted(found: Status) -> Text:
    if not found.incidents:
        return Cell("none open", "good")
    human = sum(one.phase == "NeedsHuman" for one in found.incidents)
    held = sum(bool(one.held) for one in found.incidents)
    parts = [f"{len(found.incidents)} open"]
    parts += [count(human, "needs a person", "need a person")] if human else []
    parts += [f"{held} held back"] if held else []
    return Cell(", ".join(parts), "bad")


def _policy(found: Status) -> Text:
    if not found.policy_problems:
        return found.policy
    return Cell(f"{found.policy}: not readable: {some(found.policy_problems, 1)}", "bad")


def _leader(found: Status, now: datetime) -> Text:
    if not found.leader or found.leader_renewed is None:
        return Cell("nobody leads: nothing is fenced and nothing is released", "bad")
    text = f"{found.leader}, renewed {age(found.leader_renewed, now)} ago"
    if now - found.leader_renewed > LEADERLESS:
        return Cell(f"{text}: it is silent, and nobody has taken over", "bad")
    return text


def _incidents(found: Status, now: datetime) -> Table:
    rows = tuple(
        (
            Cell(one.name, short=short(one.name)),
            one.node,
            one.fault,
            one.cause,
            Cell(one.phase, "bad" if one.phase == "NeedsHuman" else ""),
            age(one.opened, now),
            str(one.hit),
            one.message,
        )
        for one in found.incidents[:MOST]
    )
    columns = ("INCIDENT", "NODE", "CLASS", "CAUSE", "PHASE", "AGE", "PODS", "SAYS")
    return Table(columns, rows, title="Open incidents")


def _left_out(found: Status) -> Iterator[Text]:
    incidents, unknown = len(found.incidents) - MOST, len(found.unknown) - MOST
    if incidents > 0:
        yield f"{count(incidents, 'more incident', 'more incidents')}: draguard incidents"
    if unknown > 0:
        yield f"{count(unknown, 'more unknown GPU', 'more unknown GPUs')}: draguard status -o json"
    yield from (Cell(f"not seen: {one}", "warn") for one in found.unseen)
    if found.unreadable:
        yield Cell(
            f"left out because this version cannot read them: {', '.join(found.unreadable)}", "warn"
        )
