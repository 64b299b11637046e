"""`Status` for a person: the few lines that say whether somebody has to look. Pure."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

from draguard.cluster.find_incident import short_name
from draguard.cluster.fleet_status import Gpus, Nodes, Rules, Status, modes_in_words
from draguard.cluster.leader import leader_problem
from draguard.phrases import age, count, some
from draguard.render.blocks import Block, Cell, Facts, Lines, Table, Text

MOST = 10
"""Rows of a table; the whole of it is in `-o json`."""
MODELESS = "unknown: the policy in force cannot be read"


UNSEEN = Cell("unknown: you may not read it, see below", "warn")


def status_page(found: Status, now: datetime) -> Iterator[Block]:
    yield Facts(tuple(_facts(found, now)), title=f"Draguard in {found.server}")
    yield _incidents(found, now)
    yield Table(
        ("NODE", "GPU", "WHY"),
        tuple((one.node, one.uuid, one.why) for one in (found.unknown or ())[:MOST]),
        title="Unknown GPUs",
    )
    yield Lines(tuple(_left_out(found)))


def _facts(found: Status, now: datetime) -> Iterator[tuple[str, Text]]:
    yield "nodes", _nodes(found.nodes) if found.nodes else UNSEEN
    yield "GPUs", _gpus(found.gpus) if found.gpus else UNSEEN
    yield "devices", _devices(found)
    yield "sources", _sources(found)
    yield "rules", _rules(found.rules) if found.rules else UNSEEN
    yield "incidents", _counted(found)
    yield "mode", modes_in_words(found.modes) if found.modes is not None else Cell(MODELESS, "warn")
    yield "policy", _policy(found)
    yield "leader", _leader(found, now)
    yield (
        "stop",
        Cell(f"all new restrictions and disruptions are stopped: {found.stopped}", "bad")
        if found.stopped
        else "",
    )


def _nodes(nodes: Nodes) -> Text:
    parts = [f"{nodes.reporting} reporting"]
    parts += [f"{len(nodes.stale)} stale ({some(nodes.stale)})"] if nodes.stale else []
    if nodes.unwatched:
        parts.append(f"{len(nodes.unwatched)} without an agent ({some(nodes.unwatched)})")
    if nodes.gone:
        parts.append(f"{len(nodes.gone)} deleted, with a report left ({some(nodes.gone)})")
    return Cell(", ".join(parts), "warn" if nodes.stale or nodes.unwatched else "")


def _gpus(gpus: Gpus) -> Text:
    tone = "bad" if gpus.sick else "warn" if gpus.unknown else "good" if gpus.healthy else "warn"
    storied = f" ({gpus.storied} with an open incident)" if gpus.storied else ""
    counts = f"{gpus.healthy} healthy{storied}, {gpus.sick} sick, {gpus.unknown} unknown"
    return Cell(counts, tone)


def _devices(found: Status) -> Text:
    if not found.dra and found.devices is not None:
        return Cell(
            "this cluster serves no ResourceSlices: Dynamic Resource Allocation is off, or older "
            "than Kubernetes 1.32; see `draguard doctor`",
            "warn",
        )
    devices = found.devices
    if devices is None:
        return UNSEEN
    held, tainted = (_number(one) for one in (devices.held, devices.tainted))
    return f"{devices.published} published, {held} allocated, {tainted} tainted"


def _number(one: int | None) -> str:
    return "an unknown number" if one is None else str(one)


def _sources(found: Status) -> Text:
    if found.nodes is None or found.sources_down is None:
        return UNSEEN
    if not found.sources_down:
        return "all up on reporting nodes" if found.nodes.reporting else ""
    nodes: defaultdict[str, list[str]] = defaultdict(list)
    for one in found.sources_down:
        nodes[f"{one.source} down ({one.reason})"].append(one.node)
    parts = [f"{what} on {some(where)}" for what, where in sorted(nodes.items())]
    return Cell("; ".join(parts), "warn")


def _rules(rules: Rules) -> Text:
    if not rules.served:
        return Cell(
            "not served by this cluster: nothing is tainted, whatever the policy says; "
            "see `draguard doctor`",
            "warn",
        )
    ours = ", ".join(f"{number} {effect}" for effect, number in rules.ours.items() if number)
    more = [f"{rules.maintenance} for maintenance"] if rules.maintenance else []
    more += [f"{rules.others} from others"] if rules.others else []
    return "; ".join([ours or "0 from Draguard", *more])


def _counted(found: Status) -> Text:
    if found.incidents is None:
        return UNSEEN
    if not found.incidents and any("deviceincidents" in one for one in found.unreadable):
        return Cell("none open among those that can be read", "warn")
    if not found.incidents:
        return Cell("none open", "good")
    human = sum(one.phase == "NeedsHuman" for one in found.incidents)
    held = sum(bool(one.held) for one in found.incidents)
    parts = [f"{len(found.incidents)} open"]
    parts += [f"{human} in NeedsHuman"] if human else []
    parts += [f"{held} deferred or on hold"] if held else []
    return Cell(", ".join(parts), "bad")


def _policy(found: Status) -> Text:
    if not found.policy_problems:
        return found.policy
    return Cell(f"{found.policy}: not readable: {some(found.policy_problems, 1)}", "bad")


def _leader(found: Status, now: datetime) -> Text:
    if found.leader is None:
        return UNSEEN
    why = leader_problem(found.leader, found.leader_renewed, now)
    if why:
        return Cell(why, "bad")
    return f"{found.leader}, renewed {age(found.leader_renewed, now)} ago"


def _incidents(found: Status, now: datetime) -> Table:
    rows = tuple(
        (
            Cell(one.name, short=short_name(one.name)),
            one.node,
            one.fault,
            one.cause,
            Cell(one.phase, "bad" if one.phase == "NeedsHuman" else ""),
            age(one.opened, now),
            str(one.affected),
            one.message,
        )
        for one in (found.incidents or ())[:MOST]
    )
    columns = ("INCIDENT", "NODE", "CLASS", "CAUSE", "PHASE", "AGE", "PODS", "MESSAGE")
    return Table(columns, rows, title="Open incidents")


def _left_out(found: Status) -> Iterator[Text]:
    incidents, unknown = (len(one or ()) - MOST for one in (found.incidents, found.unknown))
    if incidents > 0:
        yield f"{count(incidents, 'more incident', 'more incidents')}: draguard incidents"
    if unknown > 0:
        yield f"{count(unknown, 'more unknown GPU', 'more unknown GPUs')}: draguard status -o json"
    yield from (Cell(f"not read: {one}", "warn") for one in found.unseen)
    if found.unreadable:
        yield Cell(
            f"skipped because this version cannot read them: {', '.join(found.unreadable)}", "warn"
        )
