"""What a healthy node requests of the API server, by the server's own audit log."""

import time
from collections import Counter

from benchmarks import audit
from benchmarks.figures import Figure, Section
from benchmarks.lone import GPUS, Ground, Lone

WINDOW = 120.0
"""Seconds that stand for an hour."""
_SCALE = 3600.0 / WINDOW
_REPORT, _LEASE = 900.0, 60.0
"""Seconds of the exporter's own defaults."""
_AGENT = "draguard"
"""User agent of the exporter, and of no other client while the window lasts."""
_SETTLE = 3.0
_AUDIT_DELAY = 2.0


def measure(ground: Ground) -> Section:
    """Count an hour's requests in WINDOW seconds: all intervals are shorter by the same factor."""
    ground.say(f"API requests of a healthy node: {WINDOW:.0f} s as an hour")
    flags = (
        f"--report-interval={_REPORT / _SCALE:g}",
        f"--lease-interval={_LEASE / _SCALE:g}",
        f"--interval={30 / _SCALE:g}",
    )
    with Lone(ground, GPUS, *flags):
        time.sleep(_SETTLE)
        begun = time.time()
        time.sleep(WINDOW)
        ended = time.time()
        time.sleep(_AUDIT_DELAY)
        found = Counter(
            f"{request.verb} {request.object_ref.resource or 'discovery'}"
            for request in audit.requests(ground.audit_log.read_bytes())
            if begun <= request.arrived <= ended and request.user_agent == _AGENT
        )
    return Section(
        "API requests of a healthy node in an hour",
        (
            _count("all", sum(found.values()), "64"),
            *(_count(what, number, part=True) for what, number in found.most_common()),
        ),
        (
            f"Counted in {WINDOW:.0f} s with report and Lease intervals {_SCALE:.0f} times shorter "
            "than the defaults. The watch of ResourceSlices is open all the time; the client opens "
            "it again after 5 to 10 minutes, 6 to 12 an hour that this window may not see.",
        ),
    )


def _count(what: str, number: int, budget: str = "", *, part: bool = False) -> Figure:
    return Figure(what=what, unit="", values=(number,), budget=budget, digits=0, part=part)
