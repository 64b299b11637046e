"""A taint stays until a reading shows that what NVML read as a state is over."""

from typing import Any

import msgspec
import pytest

from exporter.model.node_health import (
    FabricHealth,
    GpuHealth,
    MemoryHealth,
    MemorySlices,
    NvlinkHealth,
    RecoveryAction,
    SwitchHealth,
    SxidRecord,
)
from tests.remediator.builders import Stored, action, at, gpu, mig_gpu, policy, report, view, xid
from tests.remediator.playing import settle

WITHOUT_USER = policy(sticky=False)
DOWN = NvlinkHealth(up=(0, 1), down=(2,), failed=(2,))
NEVER_UP = NvlinkHealth(up=(0, 1), down=(2,))
UP = NvlinkHealth(up=(0, 1, 2))
REGISTERED = FabricHealth(state=3, status=0)
SOUND = MemoryHealth(
    row_remap_failed="False", sram_threshold_exceeded="False", remap_observed_at=at(1000)
)
REMAP_FAILED = msgspec.structs.replace(SOUND, row_remap_failed="True", remap_observed_at=at(1))
OVER_THRESHOLD = msgspec.structs.replace(SOUND, sram_threshold_exceeded="True")
REMAPS_HIDDEN = msgspec.structs.replace(SOUND, row_remap_failed="Unknown", remap_observed_at=None)
THRESHOLD_UNREAD = msgspec.structs.replace(SOUND, sram_threshold_exceeded="Unknown")


def play(stored: Stored, seconds: float, *gpus: GpuHealth, **fields: Any) -> None:
    seen = view(*gpus, report=report(*gpus, observed_at=at(seconds), **fields))
    settle(stored, seen, seconds, WITHOUT_USER)


def tainted_for(*, errors: int = 0, **state: Any) -> Stored:
    stored = Stored()
    for seconds in (2.0, 6.0, 10.0):
        play(stored, seconds, gpu(0, recovery_action=action(observed=seconds), **state))
    for seconds in (100.0, 104.0) if errors else ():
        answer = action(1, 100, seconds)
        play(stored, seconds, gpu(0, xid(errors, 99), recovery_action=answer, **state))
    assert stored.effects()
    return stored


def after(stored: Stored, boot: str, **state: Any) -> bool:
    """Play what comes after a reset, or a boot, for long; return whether the taint still stands."""
    for seconds in (1000.0, 1010.0, 1300.0, 1620.0, 1700.0):
        board = gpu(
            0,
            epoch=2,
            epoch_started=at(985),
            presence_since=at(990),
            recovery_action=action(0, 990, seconds),
            **state,
        )
        play(stored, seconds, board, boot_id=boot)
    return bool(stored.effects())


@pytest.mark.parametrize(
    ("state", "later", "stands"),
    [
        ({"nvlink": DOWN}, {"nvlink": UP}, False),
        ({"nvlink": DOWN}, {"nvlink": NEVER_UP}, True),
        ({"fabric": FabricHealth(state=3, status=5)}, {"fabric": REGISTERED}, False),
        ({"fabric": FabricHealth(state=3, status=5)}, {"fabric": FabricHealth(state=2)}, True),
        ({"fabric": FabricHealth(state=3, status=5)}, {}, True),
        ({"memory": REMAP_FAILED}, {"memory": SOUND}, False),
        ({"memory": REMAP_FAILED}, {"memory": REMAPS_HIDDEN}, True),
        ({"memory": OVER_THRESHOLD}, {"memory": SOUND}, False),
        ({"memory": OVER_THRESHOLD}, {"memory": THRESHOLD_UNREAD}, True),
    ],
    ids=[
        "link is up",
        "link never came up",
        "registered",
        "in progress",
        "unread",
        "rows can be remapped",
        "remaps are hidden",
        "SRAM is under the threshold",
        "threshold is unread",
    ],
)
@pytest.mark.parametrize("errors", [0, 95], ids=["alone", "with an XID 95 that leads"])
def test_a_taint_stays_until_its_end_is_read(
    state: dict[str, Any], later: dict[str, Any], errors: int, *, stands: bool
) -> None:
    assert after(tainted_for(errors=errors, **state), "boot-2", **later) == stands


def test_a_neighbour_in_trouble_ends_no_fault_of_a_link() -> None:
    """It may explain a new one: then this GPU is healthy, and its link is still down."""
    stored = tainted_for(nvlink=DOWN)
    for seconds in (100.0, 110.0, 400.0, 720.0, 800.0):
        hangs = gpu(1, presence="Unknown", presence_since=at(100))
        play(stored, seconds, gpu(0, nvlink=DOWN, recovery_action=action(observed=seconds)), hangs)

    assert set(stored.effects()) == {"gpu-0"}


def test_what_a_taint_names_is_awaited_once_the_status_is_lost() -> None:
    stored = tainted_for(memory=REMAP_FAILED)
    stored.loses_status(stored.incident.name)

    assert after(stored, "boot-2", memory=REMAPS_HIDDEN)


def without_action(seconds: float) -> RecoveryAction:
    return RecoveryAction(support="Unsupported", observed_at=at(seconds))


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
def test_a_memory_fault_hides_no_xid_of_a_driver_without_a_recovery_action(boot: str) -> None:
    stored = Stored()
    for seconds in (2.0, 6.0, 10.0):
        none = without_action(seconds)
        play(stored, seconds, gpu(0, xid(74, 1), memory=REMAP_FAILED, recovery_action=none))
    assert stored.incident.status.fault.fault_class == "memory"

    # The agent has lost its record of the XID.
    for seconds in (1000.0, 1010.0, 1300.0, 1620.0, 1700.0):
        well = gpu(0, memory=SOUND, recovery_action=without_action(seconds))
        play(stored, seconds, well, boot_id=boot)

    assert bool(stored.effects()) == (boot == "boot-1")


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"], ids=["a reset", "a reboot"])
@pytest.mark.parametrize("again", [94, 95], ids=["contained", "the same"])
def test_a_contained_error_in_the_soak_takes_no_reset_back(boot: str, again: int) -> None:
    stored = Stored()
    for seconds in (2.0, 6.0, 10.0):
        none = without_action(seconds)
        play(stored, seconds, mig_gpu(0, xid(95, 1), recovery_action=none))

    error = xid(again, 1300, gi=5, epoch=2, count=1 if again == 94 else 2)
    error = msgspec.structs.replace(error, mig_mode="Enabled", placement=MemorySlices(4, 1))
    for seconds in (1000.0, 1010.0, 1300.0, 1310.0, 2000.0, 3000.0):
        since: dict[str, Any] = {
            "epoch": 2,
            "epoch_started": at(985),
            "recovery_action": without_action(seconds),
        }
        seen = (error,) if seconds >= 1300 else ()
        play(stored, seconds, mig_gpu(0, *seen, **since), boot_id=boot)

    assert bool(stored.effects()) == (again == 95)


def test_a_contained_error_in_the_soak_takes_no_reset_of_a_switch_back() -> None:
    stored, failed = (
        Stored(),
        SxidRecord(
            code=10003,
            count=1,
            first_seen=at(1),
            last_seen=at(1),
            severity="Fatal",
            sources=("kmsg",),
        ),
    )
    switch = (SwitchHealth(pci_bus_id="0000:c1:00.0", sxids=(failed,)),)
    for seconds in (2.0, 6.0, 10.0):
        read = action(observed=seconds)
        play(stored, seconds, gpu(0, recovery_action=read), switches=switch)
    assert stored.effects()

    contained = xid(94, 1300, epoch=2)
    for seconds in (1000.0, 1010.0, 1300.0, 1310.0, 2000.0, 3000.0):
        since: dict[str, Any] = {
            "epoch": 2,
            "epoch_started": at(985),
            "recovery_action": action(0, 2, seconds),
        }
        errors = (contained,) if seconds >= 1300 else ()
        # The agent has forgotten the switch.
        play(stored, seconds, gpu(0, *errors, **since))

    assert not stored.effects()
