"""Alerts on ResourceClaims: held and not used, used beyond what was given, waited for in vain."""

from alerts import templates
from alerts.identity import CLAIM
from alerts.recordings import CLAIM_BUSY, DECLARED, OF_CLAIMS, USED
from alerts.rule import Alert, Group
from alerts.subjects import OF_CLAIM

_BY = f"max by ({', '.join(CLAIM)})"
_PENDING_SECONDS = 900

GROUP = Group(
    name="draguard-claims",
    rules=(
        *OF_CLAIMS,
        Alert(
            name="DraguardClaimIdle",
            severity="info",
            of=OF_CLAIM,
            when="No device of an allocated claim computed for more than one percent of the time, "
            "for two hours. Devices that cannot be measured never count as idle.",
            expr=f"{CLAIM_BUSY} < 0.01",
            wait="2h",
            wait_why="Loading data, compiling and a lunch break are no waste.",
            keep="15m",
            keep_why="A health check of the program is no work.",
            summary="A claim holds GPUs and does not use them.",
            description="The busiest device of claim {{ $labels.dra_claim_namespace }}/"
            "{{ $labels.dra_claim_name }} computes for {{ $value | humanizePercentage }} of the "
            "time.",
            next="Ask the owner of namespace {{ $labels.dra_claim_namespace }} whether it is still "
            "needed.",
        ),
        Alert(
            name="DraguardClaimMemoryExceeded",
            severity="warning",
            of=OF_CLAIM,
            when="A claim uses more memory of a shared device than it was given.",
            expr=f"{_BY} ({USED} - {DECLARED} > 0)",
            wait="10m",
            wait_why="A program may need more for a moment while it starts.",
            keep="15m",
            keep_why="Memory is taken and given back with each step of a program.",
            summary="A claim uses more memory than it declared.",
            description="Claim {{ $labels.dra_claim_namespace }}/{{ $labels.dra_claim_name }} uses "
            "{{ $value | humanize1024 }}B more of a device than it declared: those who share the "
            "device may run out of memory.",
            next="Ask the owner of namespace {{ $labels.dra_claim_namespace }} to declare what the "
            "program needs.",
        ),
        Alert(
            name="DraguardClaimPending",
            severity="warning",
            of=OF_CLAIM,
            when="A pod has waited for devices for a quarter of an hour.",
            expr=f"{_BY} (time() - draguard_claim_pending_since_timestamp_seconds) "
            f"> {_PENDING_SECONDS}",
            wait="1m",
            wait_why="The quarter of an hour is in the question.",
            keep="5m",
            keep_why="A remediator that restarts shows nothing until its watches are filled.",
            summary="A pod waits for GPUs.",
            description="Claim {{ $labels.dra_claim_namespace }}/{{ $labels.dra_claim_name }} has "
            "been pending for {{ $value | humanizeDuration }}" + templates.PENDING + ".",
            next="Tainted: repair what is tainted. NoneFree: wait, or take idle claims back. "
            "Other: `kubectl describe` its pod says what the scheduler misses.",
        ),
    ),
)
