"""A leader whose policy is another one than the leader's before: nothing is taken down for it."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.policy.table import MODES, Ceiling, Mode
from tests.remediator.builders import (
    RESET,
    Stored,
    action,
    dead,
    gpu,
    policy,
    view,
    with_fields,
    xid,
)
from tests.remediator.plan.handover import reconciled
from tests.remediator.playing import claim, pod, settle

STRONG = policy(mode="enforce")
SICK = view(gpu(0, xid(95), recovery_action=RESET))
MENDED = view(gpu(0, xid(95), recovery_action=action(0, 20, 20)))


def evicting() -> Stored:
    stored = Stored()
    for second in (1, 6):
        settle(stored, SICK, second, STRONG)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    return stored


@given(st.sampled_from(MODES), st.sampled_from(["observe", "None", "NoSchedule"]))
def test_no_mode_and_no_ceiling_takes_anything_down_while_they_disagree(
    mode: Mode, ceiling: str
) -> None:
    milder = policy(mode=mode, ceiling=ceiling)
    stored = evicting()

    settle(stored, SICK, 10, msgspec.structs.replace(milder, disagrees="another leader's"))
    assert stored.effects() == {"gpu-0": "NoExecute"}

    settle(stored, SICK, 400, milder)
    assert stored.effects() != {"gpu-0": "NoExecute"}


def test_no_eviction_begins_while_they_disagree() -> None:
    """The other may have an emergency stop, a window or a smaller budget."""
    stored = Stored()
    other = msgspec.structs.replace(STRONG, disagrees="another leader's")
    for second in (1, 6):
        settle(stored, SICK, second, other)
    assert stored.effects() == {"gpu-0": "NoSchedule"}
    (held,) = [one for one in stored.incident.status.conditions if one.type == "Deferred"]
    assert held.message == "NoExecute deferred: another leader's"

    settle(stored, SICK, 310, STRONG)
    assert stored.effects() == {"gpu-0": "NoExecute"}


@pytest.mark.parametrize("seconds", [60, 600])
def test_no_soak_ends_while_they_disagree(seconds: float) -> None:
    """The file of this leader may be an older one, with a shorter soak."""
    stored = evicting()
    rows = policy(mode="enforce", soak=timedelta(seconds=seconds))
    other = msgspec.structs.replace(rows, disagrees="another leader's")

    for second in (21, 700):
        settle(stored, MENDED, second, other)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert "the soak time waits: another leader's" in stored.incident.status.message

    settle(stored, MENDED, 701, STRONG)
    assert stored.effects() == {}
    assert stored.incident.status.phase == "Recovered"


def test_a_class_that_is_off_there_waits_for_a_person_as_before() -> None:
    stored = Stored()
    sticky = policy(mode="enforce", sticky=True)
    for second in (1, 6):
        settle(stored, SICK, second, sticky)
    assert stored.incident.status.recovery.untaint == "OnConfirmation"

    other = msgspec.structs.replace(policy(mode="off"), disagrees="another leader's")
    for second in (21, 700):
        settle(stored, MENDED, second, other)

    assert stored.effects() == {"gpu-0": "NoExecute"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ceiling", ["observe", "NoExecute"])
@pytest.mark.parametrize("known", [True, False], ids=["sick", "unknown"])
def test_a_repair_that_is_requested_stays_so_while_they_disagree(
    mode: Mode, ceiling: Ceiling, *, known: bool
) -> None:
    """Its deadline is over, and a pod holds a GPU of the node."""
    stored = Stored()
    sick = view(dead(0), gpu(1), claims=(claim("gpu-1"),), pods=(pod(),))
    for second in (1, 6):
        reconciled(stored, sick, second)
    assert reconciled(stored, sick, 3700)[0] == "True"
    seen = with_fields(sick, stale="" if known else "silent")

    milder = policy(mode=mode, ceiling=ceiling)
    other = msgspec.structs.replace(milder, disagrees="another leader's")
    assert reconciled(stored, seen, 3710, other)[0] == "True"
    assert reconciled(stored, seen, 3711, other)[0] == "True"

    after = reconciled(stored, sick, 4100, milder)[0]
    assert after == ("True" if mode == "enforce" and ceiling == "NoExecute" else "False")
