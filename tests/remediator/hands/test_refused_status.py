"""A status that the API server refuses costs what is told in it, and nothing of what is done."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.remediator.builders import dead, gpu
from tests.remediator.hands.api import INCIDENTS, Json
from tests.remediator.hands.test_blind_watches import (
    SETTLED,
    Room,
    _presence,  # pyright: ignore[reportPrivateUsage] - the same steps on the same server
    room,  # noqa: F401 # pyright: ignore[reportUnusedImport] - a fixture
    set_up,
)


def a_word(status: Json) -> str:
    return 'status.phase: Unsupported value: "Tainted"' if status.get("phase") else ""


def its_size(status: Json) -> str:
    return "request is too large" if status.get("message") else ""


@pytest.mark.parametrize(("misfit", "missing"), [(a_word, "phase"), (its_size, "message")])
def test_taints_are_made_and_raised_though_a_part_of_the_status_is_refused(
    room: Room,  # noqa: F811 - the fixture
    misfit: Callable[[Json], str],
    missing: str,
) -> None:
    room.api.misfit = misfit
    set_up(room)
    room.report(dead(0), gpu(1))
    room.seen("the report is heard of", lambda: _presence(room) == "Lost")

    room.decide()
    assert room.api.effects() == {"gpu-0": "NoSchedule"}
    room.ahead = SETTLED
    room.decide()

    assert room.api.effects() == {"gpu-0": "NoExecute"}
    status: Any = next(iter(room.api.stored[INCIDENTS].values()))["status"]
    assert missing not in status
    assert (status["fault"], len(status["rules"])) == ("lost", 1)
    assert room.cluster.writer.statuses_refused > 0
