"""One incident as a person reads it: what is so, who is hit, what may be done. Pure."""

from collections.abc import Iterator
from datetime import datetime

from draguard.output.amounts import age, moment, stamp
from draguard.output.sheet import Block, Cell, Facts, Lines, Table, Text, Tone, leaf
from remediator.decide import person
from remediator.objects import answers
from remediator.objects.answers import KINDS, Answer
from remediator.objects.incident import AnswerRecord, Incident, PodHold

_VIA = {
    "": "a claim",
    "admin": "admin access",
    "extended": "an extended resource",
    "gang": "its gang (not moved)",
}


def case_file(one: Incident, now: datetime) -> Iterator[Block]:
    """Give the whole story, in the order in which somebody who is paged needs it."""
    yield Facts(tuple(_facts(one, now)), title=one.name)
    yield from _standing(one)
    yield from _who(one)
    yield from _said(one, now)
    yield Lines(one.spec.evidence, title="Evidence")
    yield _timeline(one, now)
    yield Lines(tuple(_next(one)), title="What you can do")


def _facts(one: Incident, now: datetime) -> Iterator[tuple[str, Text]]:
    spec, status = one.spec, one.status
    since = age(status.phase_since, now)
    yield "phase", Cell(f"{status.phase}{f', for {since}' if since else ''}", _tone(one))
    yield "says", status.message
    yield "GPU", f"{spec.uuid} on {spec.node}"
    yield "fault", f"class {spec.fault}, cause {spec.cause}"
    yield "scope", spec.scope.summary
    yield "mode", status.mode
    yield "needs", "" if status.needs == "nothing" else status.needs
    yield "opened", moment(one.metadata.creation_timestamp, now)
    yield "closed", moment(status.closed_at, now)
    yield "healthy", moment(status.healthy_since, now)
    yield "episode", f"{status.recurrence} of this GPU" if status.recurrence > 1 else ""
    sticky = "its recovery is to be confirmed by a person" if status.sticky else ""
    yield "sticky", sticky if one.open else ""
    yield "duplicate", f"of {status.duplicate_of}" if status.duplicate_of else ""


def _tone(one: Incident) -> Tone:
    tones: dict[str, Tone] = {"NeedsHuman": "bad", "Recovered": "good"}
    return tones.get(one.status.phase, "strong")


def _standing(one: Incident) -> Iterator[Block]:
    status = one.status
    rules = {rule.device: rule for rule in status.rules}
    would = {plan.device: plan.effect for plan in status.would_fence}
    devices = [*(str(target.name) for target in one.spec.scope.devices), *rules, *would]
    rows = tuple(
        (
            device,
            rules[device].effect if device in rules else "no rule",
            would.get(device, ""),
            rules[device].name if device in rules else "",
        )
        for device in dict.fromkeys(devices)
    )
    yield Table(("DEVICE", "RULE", "WOULD BE", "NAME"), rows, title="Devices and rules")
    yield Table(
        ("CONDITION", "STATUS", "REASON", "SAYS"),
        tuple((c.type, c.status, c.reason, c.message) for c in status.conditions),
        title="Conditions",
    )


def _who(one: Incident) -> Iterator[Block]:
    status = one.status
    for title, holds, more in (
        ("Who is hit", status.hit, status.hit_left_out),
        ("Who was evicted", status.evicted, status.evicted_left_out),
    ):
        rows = tuple(_hold(hold) for hold in holds)
        yield Table(("POD", "CLAIM", "DEVICE", "BY", "TOLERATES"), rows, title=title)
        yield Lines((f"and {more} more",) if more else ())


def _hold(hold: PodHold) -> tuple[Text, ...]:
    pod = f"{hold.namespace}/{hold.pod}" if hold.pod else "nobody (the claim is kept)"
    claim = f"{hold.namespace}/{hold.claim}"
    return pod, claim, leaf(hold.device), _VIA.get(hold.via, hold.via), hold.tolerates


def _said(one: Incident, now: datetime) -> Iterator[Block]:
    status = one.status
    yield Lines(tuple(_answer(one, now) for one in status.answers), title="Answers of people")
    yield Table(
        ("DEVICE", "DELETED", "NOT MADE AGAIN UNTIL"),
        tuple(
            (
                rule.device,
                moment(rule.deleted_at, now),
                f"{moment(rule.respected_until, now)}, or a new signal",
            )
            for rule in status.deleted_rules
        ),
        title="Rules that a person deleted",
    )
    yield Lines(status.foreign, title="What others did to these devices")
    yield Lines(status.informed, title="Neighbours over NVLink that may feel it")


def _answer(record: AnswerRecord, now: datetime) -> str:
    """Say what a person answered, and how far its end is."""
    read = answers.read(record.kind, record.said) if record.kind in KINDS else None
    until = read.until if isinstance(read, Answer) else None
    distance = moment(until, now).partition(", ")[2]
    return person.in_words(record) + (f" ({distance})" if distance else "")


def _timeline(one: Incident, now: datetime) -> Table:
    rows = tuple(
        (stamp(line.time), age(line.time, now), line.phase, line.text)
        for line in one.status.timeline
    )
    return Table(("TIME", "AGO", "PHASE", "WHAT"), rows, title="Timeline")


def _next(one: Incident) -> Iterator[Text]:
    """Give the commands that make sense now."""
    if not one.open:
        return
    if one.status.phase == "NeedsHuman":
        yield f"draguard confirm-repaired {one.name} --why 'new board, ticket 4711'"
    yield f"draguard hold {one.name} --for 4h --why 'a run must end first'"
    yield f"draguard ignore {one.name} --for 4h --why 'a test board'"
    if one.status.rules:
        yield f"draguard release {one.name} --dry-run"
