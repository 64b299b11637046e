"""The outcomes of the acts as rows of a table of words. Pure."""

from itertools import groupby

from tools.demo.expectations import Acted, Outcome

HEADINGS = ("Act", "Seen", "Decided", "Done", "XID to NoSchedule", "NoExecute to pod gone", "")
_PRESENCE = {"Lost": "GPU lost", "Present": "GPU back", "Unknown": "GPU silent"}


def rows(outcomes: list[Outcome]) -> list[tuple[str, ...]]:
    """Return one row of `HEADINGS` per act."""
    return [_row(number, one) for number, one in enumerate(outcomes, 1)]


def complaints(outcomes: list[Outcome]) -> list[str]:
    """Return one sentence per expectation that was not met."""
    found: list[str] = []
    for number, one in enumerate(outcomes, 1):
        if one.problem:
            found.append(f"act {number} ({one.title}): {one.problem}")
        found += [
            f"act {number} ({one.title}): expected: {check.expected}; seen: {check.seen}"
            for check in one.checks
            if check.seen
        ]
    return found


def _row(number: int, outcome: Outcome) -> tuple[str, ...]:
    title = f"{number} {outcome.title}"
    acted = outcome.acted
    if acted is None:
        return (title, "", "", "", "", "", "not played")
    holder = acted.target.holder
    gone = next(acted.news("gone", holder.uid), None) if holder else None
    verdict = "ok" if outcome.good else "FAILED"
    phases = groupby(entry.news.value for entry in acted.news("phase"))
    return (
        title,
        _seen(acted),
        " > ".join(phase for phase, _ in phases) or "nothing to do",
        _done(acted),
        _took(acted.began, acted.seen_at("rule", acted.target.name, "NoSchedule")),
        _took(acted.seen_at("rule", acted.target.name, "NoExecute"), gone.at if gone else None),
        verdict,
    )


def _seen(acted: Acted) -> str:
    codes = list(dict.fromkeys(entry.news.value for entry in acted.news("xid")))
    counts = [
        acted.now.xids.get((acted.target.gpu, int(code)), 0)
        - acted.before.xids.get((acted.target.gpu, int(code)), 0)
        for code in codes
    ]
    words = [
        f"XID {code} x{count}" if count > 1 else f"XID {code}"
        for code, count in zip(codes, counts, strict=True)
    ]
    words += [f"GPU instance {entry.news.value}" for entry in acted.news("instance")]
    words += [_PRESENCE.get(entry.news.value, entry.news.value) for entry in acted.news("presence")]
    return ", ".join(words) or "-"


def _done(acted: Acted) -> str:
    tainted = {entry.news.subject for entry in acted.news("rule") if entry.news.value}
    freed = {entry.news.subject for entry in acted.news("rule") if not entry.news.value}
    evicted = {entry.news.subject for entry in acted.news("evicted")}
    started = len({entry.news.subject for entry in acted.news("given")}) - len(evicted)
    stayed = len(acted.before.held().keys() & acted.now.held().keys())
    words = [
        _devices(tainted - freed, "tainted"),
        _devices(tainted & freed, "tainted, then untainted"),
        _devices(freed - tainted, "untainted"),
        _pods(started, "started") if started > 0 else "",
        _pods(len(evicted), "evicted"),
        f"{stayed} stayed",
    ]
    return "; ".join(filter(None, words))


def _devices(names: set[str], became: str) -> str:
    return f"{', '.join(sorted(names))} {became}" if names else ""


def _pods(count: int, did: str) -> str:
    return {0: f"no pod {did}", 1: f"1 pod {did}"}.get(count, f"{count} pods {did}")


def _took(begin: float | None, end: float | None) -> str:
    return "-" if begin is None or end is None else f"{end - begin:.2f} s"
