"""Alerts on ResourceClaims: idle, over their declared memory, or pending."""

from alerts import templates
from alerts.identity import CLAIM
from alerts.recordings import CLAIM_BUSY, DECLARED, OF_CLAIMS, USED
from alerts.rule import Alert, Group
from alerts.subjects import OF_CLAIM
from alerts.thresholds import IDLE_UTILIZATION, PENDING_CLAIM

_BY = f"max by ({', '.join(CLAIM)})"

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
            name="DraguardClaimPending",
            severity="warning",
            of=OF_CLAIM,
            when="A claim of a pod has been pending for 15 minutes.",
            expr=f"{_BY} (time() - draguard_claim_pending_since_timestamp_seconds) "
            f"> {PENDING_CLAIM}",
            wait="1m",
            wait_why="The expression already contains the 15 minutes.",
            keep="5m",
            keep_why="A restarted remediator exports no metrics until its caches are synced.",
            summary="A pod is pending because its claim has no GPU.",
            description="Claim {{ $labels.dra_claim_namespace }}/{{ $labels.dra_claim_name }} has "
            "been pending for {{ $value | humanizeDuration }}" + templates.PENDING + ".",
            next="`draguard why claim/DRA_CLAIM_NAME -n DRA_CLAIM_NAMESPACE` names what keeps each "
            "device away, and what would be enough.",
        ),
    ),
)
