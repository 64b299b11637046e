"""Alerts on ResourceClaims: idle, over their declared memory, or waiting."""

from alerts.claim_reasons import CANNOT, NOT_PREPARED, QUIET, any_of
from alerts.identity import CLAIM
from alerts.recordings import CLAIM_BUSY, DECLARED, OF_CLAIMS, USED
from alerts.rule import Alert, Group
from alerts.subjects import OF_CLAIM, OF_WAITING_CLAIM
from alerts.templates import WAITING, reasons_in
from alerts.thresholds import (
    DELETED_CLAIM,
    IDLE_UTILIZATION,
    PENDING_CLAIM,
    UNBOUND_CLAIM,
    UNPREPARED_CLAIM,
)

_BY = f"max by ({', '.join(CLAIM)})"

_KEEP = "5m"
_KEEP_WHY = "A restarted explainer exports no claims until it has looked at all."
_WHY = "`draguard why POD -n NAMESPACE` says what keeps each device away, and what would help."


def _waiting(state: str, matchers: str = "") -> str:
    """Return how long each claim has been in a state."""
    chosen = ",".join(part for part in (f'state="{state}"', matchers) if part)
    return f"{_BY} (\n  time() - draguard_claim_since_timestamp_seconds{{{chosen}}}\n)"


def _waits(text: str, state: str) -> str:
    return f"{WAITING} {text} {{{{ $value | humanizeDuration }}}}, {reasons_in(state)}."


GROUP = Group(
    name="draguard-claims",
    rules=(
        *OF_CLAIMS,
        Alert(
            name="DraguardClaimIdle",
            severity="info",
            of=OF_CLAIM,
            when="The busiest device of an allocated claim has had a GPU utilization below 1 % for "
            "two hours. Devices that cannot be measured never count as idle.",
            expr=f"{CLAIM_BUSY} < {IDLE_UTILIZATION}",
            wait="2h",
            wait_why="Data loading and compilation are normal idle time.",
            keep="15m",
            keep_why="A short health check of the program does not count as use.",
            summary="A claim has GPUs allocated and does not use them.",
            description="The busiest device of claim {{ $labels.dra_claim_namespace }}/"
            "{{ $labels.dra_claim_name }} has a GPU utilization of "
            "{{ $value | humanizePercentage }}.",
            next="Ask the owner of namespace {{ $labels.dra_claim_namespace }} whether the claim "
            "is still needed.",
        ),
        Alert(
            name="DraguardClaimMemoryExceeded",
            severity="warning",
            of=OF_CLAIM,
            when="A claim uses more memory of a shared device than it declared.",
            expr=f"{_BY} ({USED} - {DECLARED} > 0)",
            wait="10m",
            wait_why="A program may briefly need more memory while it starts.",
            keep="15m",
            keep_why="Programs allocate and free memory with each step.",
            summary="A claim uses more memory than it declared.",
            description="Claim {{ $labels.dra_claim_namespace }}/{{ $labels.dra_claim_name }} uses "
            "{{ $value | humanize1024 }}B more of a device than it declared. Other claims on the "
            "device may run out of memory.",
            next="Ask the owner of namespace {{ $labels.dra_claim_namespace }} to declare the "
            "memory that the program needs.",
        ),
        Alert(
            name="DraguardClaimCannotBeAllocated",
            severity="warning",
            of=OF_WAITING_CLAIM,
            when="A claim of a pod has been pending for five minutes, for a reason that does not "
            "end by itself.",
            expr=_waiting("Pending", f'reason=~"{any_of(CANNOT)}"') + " > 0",
            wait="5m",
            wait_why="A driver that starts publishes its devices and classes within minutes.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A claim cannot be allocated until something is changed.",
            description=_waits("has been pending for", "Pending"),
            next=_WHY,
        ),
        Alert(
            name="DraguardClaimPending",
            severity="warning",
            of=OF_WAITING_CLAIM,
            when="A claim of a pod has been pending for 15 minutes, for a reason that may end by "
            "itself.",
            expr=_waiting("Pending", f'reason!~"{any_of(CANNOT, QUIET)}"') + f" > {PENDING_CLAIM}",
            wait="1m",
            wait_why="The expression already contains the 15 minutes.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A pod is pending because its claim has no device.",
            description=_waits("has been pending for", "Pending"),
            next=_WHY,
        ),
        Alert(
            name="DraguardClaimNotBound",
            severity="warning",
            of=OF_WAITING_CLAIM,
            when="A claim has been allocated for 15 minutes, and its pod has no node.",
            expr=_waiting("Binding", f'reason!~"{any_of(QUIET)}"') + f" > {UNBOUND_CLAIM}",
            wait="5m",
            wait_why="The claim may have been allocated long before this pod came.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A claim has devices, and its pod has no node.",
            description=_waits("has been allocated for", "Binding"),
            next=_WHY,
        ),
        Alert(
            name="DraguardClaimNotPrepared",
            severity="warning",
            of=OF_WAITING_CLAIM,
            when="A pod has been on its node for 15 minutes, and its devices are not prepared: "
            f"{', '.join(NOT_PREPARED)}.",
            expr=_waiting("Preparing", f'reason=~"{any_of(NOT_PREPARED)}"')
            + f" > {UNPREPARED_CLAIM}",
            wait="1m",
            wait_why="The expression already contains the 15 minutes.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A pod is on its node, and its devices are not prepared.",
            description=_waits("has been in preparation for", "Preparing"),
            next=_WHY,
        ),
        Alert(
            name="DraguardClaimDeleting",
            severity="info",
            of=OF_WAITING_CLAIM,
            when="A claim has been in deletion for an hour.",
            expr=_waiting("Deleting") + f" > {DELETED_CLAIM}",
            wait="1m",
            wait_why="The expression already contains the hour.",
            keep=_KEEP,
            keep_why=_KEEP_WHY,
            summary="A claim is in deletion and does not end.",
            description=_waits("has been in deletion for", "Deleting"),
            next="`draguard why claim/CLAIM -n NAMESPACE` names who uses it. A finalizer of "
            "another program may keep it, too.",
        ),
    ),
)
