"""Statuses of incidents as no cluster would hold them: too long, too many, out of range."""

from typing import get_args

from hypothesis import strategies as st

from exporter.model.node_health import MemorySlices
from remediator.diagnose.fault import SEVERITY
from remediator.model.claim import ADMIN, EXTENDED_RESOURCE, GANG
from remediator.model.incident_status import (
    PHASES,
    SCHEMA_VERSION,
    AffectedPod,
    Condition,
    EvictionStatus,
    FaultStatus,
    Hardware,
    HistoryStatus,
    IncidentStatus,
    PolicyStatus,
    RecoveryStatus,
    RepairStatus,
    RuleRecord,
    ScopeStatus,
    SeenSignal,
    StayStatus,
    Target,
    TimelineEntry,
    Untaint,
    WouldTaint,
)
from remediator.model.taint_rule import EFFECTS
from remediator.plan.words import MODES, NEEDS
from tests.remediator.builders import at

SOURCES = ("Kmsg", "Syslog", "NvmlEvent", "Dcgm", "GpuLost", "Nvml")


def _over(word: str, times: int) -> str:
    return word * times


def _entries(some: list[object], times: int) -> tuple[object, ...]:
    return tuple(some) * times


TEXT = st.builds(
    _over,
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8),
    st.integers(0, 700),
)
NUMBER = st.integers(-(2**70), 2**70)
MOMENT = st.integers(-(10**9), 10**10).map(at)
EFFECT = st.sampled_from(EFFECTS)
CAMEL = st.sampled_from(["Deferred", "NeedsHuman", "AwaitingEvidence"])


def many(
    strategy: st.SearchStrategy[object], most: int = 70
) -> st.SearchStrategy[tuple[object, ...]]:
    """Few different entries, and more of them than a list may have."""
    return st.builds(
        _entries,
        st.lists(strategy, max_size=3),
        st.sampled_from([1, 1, 1, most]),
    )


DEVICE = st.builds(Target, TEXT, TEXT, TEXT, TEXT)
POD = st.builds(
    AffectedPod,
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    via=st.sampled_from(["", ADMIN, EXTENDED_RESOURCE, GANG]),
    tolerates=TEXT,
)
STATUSES = st.builds(
    IncidentStatus,
    schema_version=st.sampled_from([-1, 0, SCHEMA_VERSION, 2**70]),
    observed_generation=NUMBER,
    phase=st.sampled_from(["", *PHASES]),
    phase_since=st.none() | MOMENT,
    message=TEXT,
    fault=st.builds(
        FaultStatus,
        fault_class=st.sampled_from(SEVERITY),
        classes=many(st.sampled_from(SEVERITY)),
        cause=TEXT,
        evidence=many(TEXT),
        sources=many(st.sampled_from(SOURCES)),
        seen_signals=st.none()
        | many(
            st.builds(
                SeenSignal,
                code=NUMBER,
                gpu_instance=NUMBER,
                compute_instance=NUMBER,
                placement_start=NUMBER,
                count=NUMBER,
                first_seen_time=MOMENT,
            )
        ),
        slices=st.none() | many(DEVICE),
    ),
    scope=st.builds(
        ScopeStatus,
        summary=TEXT,
        devices=many(DEVICE, 200),
        hardware=many(
            st.builds(
                Hardware,
                uuid=TEXT,
                placement=st.none() | st.builds(MemorySlices, NUMBER, NUMBER),
                effect=EFFECT,
                fault=TEXT,
                cause=TEXT,
                tainted_time=st.none() | MOMENT,
            )
        ),
        rules=many(st.builds(RuleRecord, TEXT, TEXT, TEXT, EFFECT), 300),
        would_taint=many(st.builds(WouldTaint, TEXT, EFFECT), 300),
        affected=many(POD, 300),
        affected_left_out=NUMBER,
        informed=many(TEXT),
        foreign=many(TEXT),
    ),
    stay=st.builds(
        StayStatus,
        node=TEXT,
        boot_id=TEXT,
        epoch=NUMBER,
        pci_bus_id=TEXT,
        siblings=st.none() | many(TEXT),
        clock_set_back_ms=st.none() | NUMBER,
    ),
    eviction=st.builds(EvictionStatus, evicted=many(POD)),
    repair=st.builds(RepairStatus, needs=st.sampled_from(["", *NEEDS.values()]), answered=NUMBER),
    recovery=st.builds(
        RecoveryStatus,
        untaint=st.sampled_from(["", *get_args(Untaint)]),
        healthy_since=st.none() | MOMENT,
        soak_epoch=NUMBER,
        dbe_volatile=st.none() | NUMBER,
    ),
    policy=st.builds(
        PolicyStatus, mode=st.sampled_from(["", *MODES.values()]), device_classes=many(TEXT)
    ),
    history=st.builds(HistoryStatus, recurrence=NUMBER, duplicate_of=TEXT),
    conditions=many(
        st.builds(
            Condition, CAMEL, st.just("True"), CAMEL, MOMENT, TEXT, observed_generation=NUMBER
        )
    ),
    timeline=many(st.builds(TimelineEntry, MOMENT, TEXT, TEXT)),
)
