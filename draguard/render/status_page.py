"""`Status` as a page: the few lines that say whether an administrator must act. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime

from draguard.cluster.fleet_status import Gpus, Nodes, Rules, Status, modes_in_words
from draguard.cluster.leader import leader_problem
from draguard.phrases import age, count, gpu_name, some
from draguard.render.blocks import Block, Cell, Facts, Lines, Table, Text
from draguard.render.incident_table import ALL_ROWS, grouped_lines, incident_table
from remediator.metrics.devices import State, TaintedBy

MOST = 10
"""Rows of a table; `--all-rows`, `-o wide` and `-o json` have all."""
_STATES: Mapping[State, str] = {
    "allocated": "allocated",
    "free": "free",
    "unknown": "of unknown state",
}
_TAINTS: Mapping[TaintedBy, str] = {
    "draguard": "tainted by Draguard",
    "driver": "tainted by the driver",
    "other": "tainted by others",
    "unknown": "of unknown taint",
}
UNREADABLE = Cell("unknown: you may not read it, see below", "warn")


def status_page(
    found: Status, now: datetime, *, wide: bool = False, all_rows: bool = False
) -> Iterator[Block]:
    where = f"{found.cluster} ({found.server})" if found.cluster else found.server
    yield Facts(tuple(_facts(found, now)), title=f"Draguard in {where}")
    incidents, unknown = found.incidents or (), found.unknown or ()
    whole = wide or all_rows
    most = None if whole else MOST
    yield incident_table(
        incidents, now, wide=wide, grouped=not whole, most=most, title="Open incidents"
    )
    yield Table(
        ("GPU", "UUID", "WHY"),
        tuple((gpu_name(gpu.node, gpu.index), gpu.uuid, gpu.why) for gpu in unknown[:most]),
        title="Unknown GPUs",
    )
    yield Lines(tuple(_notes(found, whole=whole)))


def _facts(found: Status, now: datetime) -> Iterator[tuple[str, Text]]:
    yield "nodes", _nodes(found.nodes) if found.nodes else UNREADABLE
    yield "GPUs", _gpus(found.gpus) if found.gpus else UNREADABLE
    yield "devices", _devices(found)
    yield "claims", _claims(found, now) if found.dra else ""
    yield "sources", _sources(found)
    yield "rules", _rules(found.rules) if found.rules else UNREADABLE
    yield "incidents", _incidents(found)
    if found.modes is None:
        yield "mode", Cell("unknown: the policy in force cannot be read", "warn")
    else:
        yield "mode", modes_in_words(found.modes)
    problem = some(found.policy_problems, 1)
    policy = Cell(f"{found.policy}: not readable: {problem}", "bad") if problem else found.policy
    yield "policy", policy
    yield "", Cell(found.policy_doubt, "warn")
    if found.leader is None:
        yield "leader", UNREADABLE
    elif problem := leader_problem(found.leader, found.leader_renewed, now):
        yield "leader", Cell(problem, "bad")
    else:
        yield "leader", f"{found.leader}, renewed {age(found.leader_renewed, now)} ago"
    if found.stopped:
        stop = f"all new restrictions and disruptions are stopped: {found.stopped}"
        yield "stop", Cell(stop, "bad")


def _nodes(nodes: Nodes) -> Text:
    parts = [f"{nodes.reporting} reporting"]
    if nodes.stale:
        parts.append(f"{len(nodes.stale)} stale ({some(nodes.stale)})")
    if nodes.unwatched:
        parts.append(f"{len(nodes.unwatched)} without an agent ({some(nodes.unwatched)})")
    if nodes.gone:
        parts.append(f"{len(nodes.gone)} deleted, with a report left ({some(nodes.gone)})")
    return Cell(", ".join(parts), "warn" if nodes.stale or nodes.unwatched else "")


def _gpus(gpus: Gpus) -> Text:
    tone = "bad" if gpus.sick else "warn" if gpus.unknown else "good" if gpus.healthy else "warn"
    incident = f" ({gpus.with_incident} with an open incident)" if gpus.with_incident else ""
    counts = f"{gpus.healthy} healthy{incident}, {gpus.sick} sick, {gpus.unknown} unknown"
    return Cell(counts, tone)


def _devices(found: Status) -> Text:
    devices = found.devices
    if devices is None:
        return UNREADABLE
    if not found.dra:
        return Cell(
            "this cluster serves no ResourceSlices: Dynamic Resource Allocation is off, or older "
            "than Kubernetes 1.32; see `draguard doctor`",
            "warn",
        )
    counts: defaultdict[State, Counter[TaintedBy]] = defaultdict(Counter)
    for group in devices.counts:
        counts[group.state][group.taint] += group.number
    # Where some are unknown, a 0 of the others would be a guess.
    shown: set[State] = {*counts} if "unknown" in counts else {"allocated", "free"}
    parts: list[str] = []
    for state, words in _STATES.items():
        taints = counts[state]
        tainted = ", ".join(f"{taints[by]} {who}" for by, who in _TAINTS.items() if taints[by])
        if state in shown:
            parts.append(f"{taints.total()} {words}" + (f" ({tainted})" if tainted else ""))
    least = "" if devices.published is not None else "at least "
    number = sum(group.number for group in devices.counts)
    return f"{least}{number} published: {', '.join(parts)}"


def _claims(found: Status, now: datetime) -> Text:
    """Say how many claims are pending, of those that can be read."""
    claims = found.claims
    if claims is None:
        return UNREADABLE
    partly = any("resourceclaims" in name for name in found.unreadable)
    among = " among those that can be read" if partly else ""
    since = f", the oldest for {age(claims.oldest, now)}" if claims.oldest else ""
    return f"{claims.pending} pending{among}{since}"


def _sources(found: Status) -> Text:
    if found.nodes is None or found.sources_down is None:
        return UNREADABLE
    if not found.sources_down:
        return "all up on reporting nodes" if found.nodes.reporting else ""
    nodes: defaultdict[str, list[str]] = defaultdict(list)
    for down in found.sources_down:
        nodes[f"{down.source} down ({down.reason})"].append(down.node)
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


def _incidents(found: Status) -> Text:
    if found.incidents is None:
        return UNREADABLE
    if not found.incidents and any("deviceincidents" in name for name in found.unreadable):
        return Cell("none open among those that can be read", "warn")
    if not found.incidents:
        return Cell("none open", "good")
    human = sum(incident.phase == "NeedsHuman" for incident in found.incidents)
    held = sum(bool(incident.deferred) for incident in found.incidents)
    parts = [f"{len(found.incidents)} open"]
    parts += [f"{human} in NeedsHuman"] if human else []
    parts += [f"{held} deferred or on hold"] if held else []
    return Cell(", ".join(parts), "bad")


def _notes(found: Status, *, whole: bool) -> Iterator[Text]:
    """Say what the page leaves out, and what could not be read."""
    groups = () if whole else grouped_lines(found.incidents or ())
    incidents, unknown = sum(map(len, groups[MOST:])), len(found.unknown or ()) - MOST
    if any(len(group) > 1 for group in groups[:MOST]):
        yield Cell(ALL_ROWS, "dim")
    if incidents > 0:
        yield f"{count(incidents, 'more incident', 'more incidents')}: draguard incidents"
    if unknown > 0 and not whole:
        more = count(unknown, "more unknown GPU", "more unknown GPUs")
        yield f"{more}: draguard status --all-rows"
    yield from (Cell(f"not read: {right}", "warn") for right in found.unseen)
    if found.unreadable:
        yield Cell(
            f"skipped because this version cannot read them: {', '.join(found.unreadable)}", "warn"
        )
