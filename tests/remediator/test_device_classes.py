"""DeviceClasses count as of an incident's opening: no later claim raises or lowers anything."""

from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from remediator.plan.view import GpuPlace
from remediator.policy.place import Match
from remediator.policy.table import MODES, SHIPPED, Change, Override, Policy
from tests.remediator.builders import NODE, Stored, dead, uuid, view
from tests.remediator.playing import settle

CLASSES = ("training", "interactive", "batch")
OPENING = MODES[1:]
"""Modes in which an incident is opened at all."""
LATER = st.lists(st.frozensets(st.sampled_from(CLASSES)), min_size=1, max_size=4)


def by_class(training: str, interactive: str) -> Policy:
    """Enforce everywhere, but for two DeviceClasses in these modes."""
    rows = tuple(
        msgspec.structs.replace(row, mode="enforce", settle=timedelta(seconds=3)) for row in SHIPPED
    )
    overrides = tuple(
        Override(
            name=f"overrides[{index}]",
            match=Match(device_classes=(name,)),
            changes={row.fault_class: msgspec.convert({"mode": mode}, Change) for row in SHIPPED},
        )
        for index, (name, mode) in enumerate((("training", training), ("interactive", interactive)))
    )
    return Policy(rows=rows, overrides=overrides)


def effects(rows: Policy, opening: frozenset[str], later: list[frozenset[str]]) -> dict[str, str]:
    """Return the rules at the end of an incident of a dead GPU with these claims over time."""
    stored, sick = Stored(), view(dead(0))
    for step, classes in enumerate((opening, *later, opening, opening)):
        place = GpuPlace(node=NODE, classes=classes)
        settle(stored, msgspec.structs.replace(sick, places={uuid(0): place}), 4 * step, rows)
    return stored.effects()


def test_a_tenant_who_tolerates_the_taint_and_names_a_milder_class_lowers_nothing() -> None:
    rows = by_class("enforce", "dry-run")
    tenant = frozenset({"interactive"})

    assert effects(rows, frozenset(), [tenant, frozenset(), tenant]) == {"gpu-0": "NoExecute"}


def test_a_class_that_held_the_gpu_at_the_opening_counts_until_the_end() -> None:
    rows = by_class("enforce", "incident-only")

    assert effects(rows, frozenset({"interactive"}), [frozenset()]) == {}


@given(
    st.sampled_from(OPENING),
    st.sampled_from(OPENING),
    st.frozensets(st.sampled_from(CLASSES)),
    LATER,
)
def test_claims_after_the_opening_change_nothing(
    training: str, interactive: str, opening: frozenset[str], later: list[frozenset[str]]
) -> None:
    rows = by_class(training, interactive)

    assert effects(rows, opening, later) == effects(rows, opening, [opening] * len(later))
