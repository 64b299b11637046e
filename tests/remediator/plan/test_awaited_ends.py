"""A taint stays until a reading shows that what NVML read as a state is over."""

from typing import Any

import pytest

from exporter.model.node_health import FabricHealth, GpuHealth, NvlinkHealth
from tests.remediator.builders import Stored, action, at, gpu, report, view, xid
from tests.remediator.playing import settle

DOWN = NvlinkHealth(up=(0, 1), down=(2,), failed=(2,))
NEVER_UP = NvlinkHealth(up=(0, 1), down=(2,))
UP = NvlinkHealth(up=(0, 1, 2))
REGISTERED = FabricHealth(state=3, status=0)


def play(stored: Stored, seconds: float, *gpus: GpuHealth, **fields: Any) -> None:
    settle(stored, view(*gpus, report=report(*gpus, observed_at=at(seconds), **fields)), seconds)


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
    ],
    ids=["link is up", "link never came up", "registered", "in progress", "unread"],
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
