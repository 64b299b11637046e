"""One incident as a user reads it: what is so, what to do, affected pods. Pure."""

from collections.abc import Iterator
from datetime import datetime

from draguard.phrases import age, moment, stamp
from draguard.render.blocks import Block, Cell, Facts, Lines, Table, Text, Tone, leaf
from draguard.render.repair_steps import pause, repair
from remediator.model.claim import ADMIN, EXTENDED_RESOURCE, GANG
from remediator.model.incident import Incident, PodHold
from remediator.model.intent import IntentRecord
from remediator.plan import overrides
from remediator.plan.api_words import need_of, ours

_VIA = {
    "": "a claim",
    ADMIN: "admin access",
    EXTENDED_RESOURCE: "an extended resource",
    GANG: "its gang (not evicted)",
}


def case_file(one: Incident, now: datetime) -> Iterator[Block]:
    """Give the whole incident, in the order in which a user who is paged needs it."""
    yield Facts(tuple(_facts(one, now)), title=one.name)
    yield Lines(tuple(repair(one)), title="What to do")
    yield from _standing(one)
    yield from _who(one)
    yield from _said(one, now)
    yield Lines(one.status.evidence, title="Evidence")
    yield _timeline(one, now)
    yield Lines(tuple(pause(one)), title="To pause Draguard on this GPU")


def _facts(one: Incident, now: datetime) -> Iterator[tuple[str, Text]]:
    status = one.status
    since = age(status.phase_since, now)
    stands = status.phase or "not decided yet"
    yield "phase", Cell(f"{stands}{f', for {since}' if since else ''}", _tone(one))
    yield "message", status.message
    yield "GPU", f"{one.spec.uuid} on {one.node}"
    yield "fault", f"class {status.fault}, cause {status.cause}" if status.fault else ""
    yield "scope", status.scope.summary
    yield "mode", ours(status.mode)
    yield "needs", "" if need_of(status.needs) == "nothing" else ours(status.needs)
    yield "opened", moment(one.metadata.creation_timestamp, now)
    yield "closed", moment(status.closed_at, now)
    yield "healthy", moment(status.healthy_since, now)
    yield "recurrence", f"incident {status.recurrence} of this GPU" if status.recurrence > 1 else ""
    sticky = "you must confirm its repair" if status.untaint == "OnConfirmation" else ""
    yield "sticky", sticky if one.open else ""
    yield "duplicate", f"of {status.duplicate_of}" if status.duplicate_of else ""


def _tone(one: Incident) -> Tone:
    tones: dict[str, Tone] = {"NeedsHuman": "bad", "Recovered": "good"}
    return tones.get(one.status.phase, "strong")


def _standing(one: Incident) -> Iterator[Block]:
    status = one.status
    rules = {rule.device: rule for rule in status.rules}
    would = {plan.device: plan.effect for plan in status.would_taint}
    devices = [*(str(target.name) for target in one.status.scope.devices), *rules, *would]
    rows = tuple(
        (
            device,
            rules[device].effect if device in rules else "no rule",
            would.get(device, ""),
            rules[device].name if device in rules else "",
        )
        for device in dict.fromkeys(devices)
    )
    yield Table(("DEVICE", "RULE", "PLANNED", "NAME"), rows, title="Devices and rules")
    yield Table(
        ("CONDITION", "STATUS", "REASON", "MESSAGE"),
        tuple(
            (c.type, c.status, c.reason, c.message)
            for c in status.conditions
            if c.status != "False"
        ),
        title="Conditions",
    )


def _who(one: Incident) -> Iterator[Block]:
    status = one.status
    for title, holds, more in (
        ("Affected pods", status.affected, status.affected_left_out),
        ("Evicted pods", status.evicted, status.evicted_left_out),
    ):
        rows = tuple(_hold(hold) for hold in holds)
        yield Table(("POD", "CLAIM", "DEVICE", "VIA", "TOLERATES"), rows, title=title)
        yield Lines((f"and {more} more",) if more else ())


def _hold(hold: PodHold) -> tuple[Text, ...]:
    pod = f"{hold.namespace}/{hold.pod}" if hold.pod else "no pod (the claim stays allocated)"
    claim = f"{hold.namespace}/{hold.claim}"
    return pod, claim, leaf(hold.device), _VIA.get(hold.via, hold.via), hold.tolerates


def _said(one: Incident, now: datetime) -> Iterator[Block]:
    status = one.status
    yield Lines(tuple(_intent(one, now) for one in status.intents), title="User overrides")
    yield Lines(status.foreign, title="Changes by others to these devices")
    yield Lines(status.informed, title="NVLink neighbours that may be affected")


def _intent(record: IntentRecord, now: datetime) -> str:
    """Say what a user wants, what became of it, and how far its end is."""
    distance = moment(record.until, now).partition(", ")[2]
    return overrides.in_words(record) + (f" ({distance})" if distance else "")


def _timeline(one: Incident, now: datetime) -> Table:
    rows = tuple(
        (stamp(line.time), age(line.time, now), line.phase, line.text)
        for line in one.status.timeline
    )
    return Table(("TIME", "AGO", "PHASE", "EVENT"), rows, title="Timeline")
