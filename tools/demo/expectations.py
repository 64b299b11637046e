"""Checks of what an act must have caused, as functions of what was seen.

Each returns "" if the outcome is as expected, and otherwise what is seen instead.
Pure.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from tools.demo.diary import EVICTION, Entry, Kind
from tools.demo.picture import Picture, Seat


class Acted(msgspec.Struct, frozen=True, kw_only=True):
    """One act so far."""

    target: Seat
    """The device that it is about, as it was before."""
    before: Picture
    now: Picture
    entries: tuple[Entry, ...]
    """What happened since it began."""
    began: float
    """Seconds since the demo began, when the act was played."""
    at: float
    """The same clock, now."""
    soak: float
    """Seconds of health after which the policy untaints a device."""
    counted: Mapping[tuple[str, int], int] = {}
    """XIDs by GPU UUID and code, on the metrics page of the target's node."""

    def news(self, kind: Kind, subject: str = "") -> Iterator[Entry]:
        for entry in self.entries:
            if entry.news.kind == kind and subject in ("", entry.news.subject):
                yield entry

    def seen_at(self, kind: Kind, subject: str, value: str) -> float | None:
        """Return when something was first reported, None if it was not."""
        return next(
            (entry.at for entry in self.news(kind, subject) if entry.news.value == value),
            None,
        )


Question = Callable[[Acted], str]


class Expectation(msgspec.Struct, frozen=True):
    says: str
    """What is expected, in words; `{device}`, `{node}` and `{pod}` are the target's."""
    question: Question

    def words(self, target: Seat) -> str:
        pod = target.holder.pod if target.holder else "its pod"
        return self.says.format(device=target.name, node=target.node, pod=pod)


class Check(msgspec.Struct, frozen=True):
    """One expectation in words, and what is seen instead; "" when it holds."""

    expected: str
    seen: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """What came of one act; `acted` None when it was not played."""

    title: str
    acted: Acted | None = None
    checks: tuple[Check, ...] = ()
    problem: str = ""
    """Why it was not played."""

    @property
    def good(self) -> bool:
        return self.acted is not None and not any(check.seen for check in self.checks)


def counted(codes: Mapping[int, int]) -> Question:
    """Exactly so many XIDs more of each code, on the target's GPU and on no other."""

    def question(acted: Acted) -> str:
        expected = {(acted.target.gpu, code): count for code, count in codes.items()}
        for where, found in (("/metrics", acted.counted), ("the report", acted.now.xids)):
            more = {
                key: count - acted.before.xids.get(key, 0)
                for key, count in found.items()
                if key[1] in codes and count != acted.before.xids.get(key, 0)
            }
            if more != expected:
                stated = ", ".join(f"{n} of XID {code} on {gpu}" for (gpu, code), n in more.items())
                return f"{where} counts {stated or 'none'}"
        return ""

    return question


def untouched(acted: Acted) -> str:
    """No rule, no new incident, no pod evicted."""
    known = {incident.name for incident in acted.before.incidents}
    new = [incident.name for incident in acted.now.incidents if incident.name not in known]
    return _rules_seen(acted, {}) or (f"an incident {new[0]}" if new else "") or stayed(acted)


def stayed(acted: Acted) -> str:
    """Every pod that held a device holds the same one."""
    return _moved(acted, frozenset())


def only_target_moved(acted: Acted) -> str:
    """Only the target's pod lost its device, and the eviction controller deleted it."""
    holder = acted.target.holder
    if holder is None:
        return f"nobody held {acted.target.name}"
    reasons = [entry.news.value for entry in acted.news("evicted", holder.uid)]
    if not reasons:
        return f"{holder.pod} was not deleted"
    if reasons != [EVICTION]:
        return f"{holder.pod} was deleted for another reason: {reasons}"
    return _moved(acted, frozenset({holder.uid}))


def replaced(acted: Acted) -> str:
    """A new pod runs, as many as before hold a device, and none was given the target."""
    before, now = acted.before.held(), acted.now.held()
    given = {entry.news.value for entry in acted.news("given")}
    if acted.target.name in given:
        return f"{acted.target.name} was given away again"
    if not now.keys() - before.keys():
        return "no new pod runs"
    missing = len(before) - len(now)
    return f"{missing} pods fewer than before hold a device" if missing > 0 else ""


def tainted_in_order(acted: Acted) -> str:
    """The target, and nothing else, got NoSchedule and then NoExecute."""
    return _rules_seen(acted, {acted.target.name: ["NoSchedule", "NoExecute"]})


def still_tainted(acted: Acted) -> str:
    """The target's rule, and no other, is there."""
    good = dict(acted.now.rules) == {acted.target.name: "NoExecute"}
    return "" if good else _standing(acted)


def untainted(acted: Acted) -> str:
    """The target's rule went, and no rule of any kind is left."""
    gone = acted.seen_at("rule", acted.target.name, "")
    return _standing(acted) if acted.now.rules or gone is None else ""


def soaked(acted: Acted) -> str:
    """The rule went no sooner than the soak time after the act."""
    gone = acted.seen_at("rule", acted.target.name, "")
    if gone is None:
        return "the rule is still there"
    waited = gone - acted.began
    return "" if waited >= acted.soak else f"it went after {waited:.1f} s"


def phases(*expected: str) -> Question:
    """The GPU's incident went through these phases in this order; others may lie between."""

    def question(acted: Acted) -> str:
        seen = [entry.news.value for entry in acted.news("phase", acted.target.gpu)]
        rest = iter(seen)
        missing = [phase for phase in expected if phase not in rest]
        return f"its phases are {', '.join(seen) or 'none'}" if missing else ""

    return question


def used_again(acted: Acted) -> str:
    """A new pod holds the target, and every other pod kept its device."""
    seat = acted.now.seat(acted.target.name)
    if seat is None or seat.holder is None:
        return f"{acted.target.name} is held by nobody; waiting: {', '.join(acted.now.waiting)}"
    return stayed(acted)


def _standing(acted: Acted) -> str:
    found = [f"{effect} on {name}" for name, effect in sorted(acted.now.rules.items())]
    return ", ".join(found) or "no rule is there"


def _moved(acted: Acted, expected: frozenset[str]) -> str:
    """Compare the pods that lost their device with those that should, by pod UID."""
    before, now = acted.before.held(), acted.now.held()
    gone = frozenset(
        uid for uid, seat in before.items() if uid not in now or now[uid].name != seat.name
    )
    if gone == expected:
        return ""
    too_many = [_pod(before[uid]) for uid in sorted(gone - expected)]
    too_few = [_pod(before[uid]) for uid in sorted(expected - gone)]
    words = [f"{', '.join(too_many)} evicted, too"] if too_many else []
    words += [f"{', '.join(too_few)} stayed"] if too_few else []
    return "; ".join(words)


def _pod(seat: Seat) -> str:
    return f"{seat.holder.pod if seat.holder else 'nobody'} on {seat.name}"


def _rules_seen(acted: Acted, expected: Mapping[str, list[str]]) -> str:
    """Compare every effect that was ever set during the act, by device."""
    seen: dict[str, list[str]] = {}
    for entry in acted.news("rule"):
        if entry.news.value:
            seen.setdefault(entry.news.subject, []).append(entry.news.value)
    if seen == dict(expected):
        return ""
    reported = "; ".join(f"{', then '.join(effects)} on {name}" for name, effects in seen.items())
    return reported or "no rule was made"
