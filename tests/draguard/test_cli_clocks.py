"""A clock that is wrong, ours or a node's, makes nobody alive, and no intent longer or over."""

import re
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import msgspec
import pytest

from kubeapi import clock
from kubeapi.lease import renew
from remediator.controller.agents import AGENT_LEASE_PREFIX, LEASE_NAME
from remediator.model.intent import Intent
from tests.chain.scene import INCIDENTS, LEASES
from tests.draguard.cluster.test_fleet_status import (
    LATE,
    known,
    lease,
    looked_at,
    objects,
    shown_words,
)
from tests.draguard.fleet import LOST_INCIDENT, Fleet
from tests.draguard.printed import printed
from tests.remediator.builders import T0, gpu

HOURS = timedelta(hours=5)
AHEAD = T0 + HOURS
AGENT = f"{AGENT_LEASE_PREFIX}node-a"
Shift = Callable[[timedelta], None]


@pytest.fixture
def shift(monkeypatch: pytest.MonkeyPatch) -> Shift:
    """Set this machine's clock wrong, as a command sees it; the cluster's stays."""

    def by(time: timedelta) -> None:
        wrong = SimpleNamespace(now=lambda: clock.now() + time)
        monkeypatch.setattr("draguard.connection.whoami.clock", wrong)

    return by


@pytest.mark.parametrize("time", [-HOURS, HOURS, timedelta()], ids=["behind", "ahead", "right"])
def test_which_agent_is_alive_is_judged_by_the_server_s_clock(
    time: timedelta, shift: Shift, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    shift(time)

    text = printed(capsys, "status", "--kubeconfig", fleet.kubeconfig)

    assert "3 reporting, 1 stale (node-e), 1 without an agent (node-d)" in text
    assert "remediator-0, renewed 0s ago" in text


@pytest.mark.parametrize("time", [-HOURS, HOURS], ids=["behind", "ahead"])
def test_an_intent_counts_until_its_end(
    time: timedelta, shift: Shift, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the remediator's clock: a hold of four hours by a laptop that slept for five is none."""
    shift(time)
    where = ("--kubeconfig", fleet.kubeconfig)

    stated = printed(capsys, "hold", LOST_INCIDENT, "--until", "4h", "--reason", "x", *where)

    spec = fleet.cluster.get(f"{INCIDENTS}/{LOST_INCIDENT}")["spec"]
    printed(capsys, "hold", LOST_INCIDENT, "--remove", *where)
    read = msgspec.convert(spec["hold"], Intent)
    assert read.until is not None
    assert abs(read.until - clock.now() - timedelta(hours=4)) < timedelta(minutes=5)
    assert "Z, in 4h" in stated


def test_an_agent_that_dates_ahead_is_not_taken_for_alive() -> None:
    """It may have died hours ago by the server's clock: nobody can tell from one look."""
    found = looked_at(objects(gpu(0), at=LATE, leases=(lease(AGENT, AHEAD),)))

    assert (known(found.gpus).healthy, known(found.gpus).unknown) == (0, 1)
    assert known(found.unknown)[0].why == (
        "the clock of node-a is 4h ahead of the API server's: the state of its agent is unknown"
    )


def test_an_agent_that_dates_a_little_ahead_is_alive() -> None:
    near = (lease(AGENT, LATE + timedelta(seconds=100)),)

    assert known(looked_at(objects(gpu(0), at=LATE, leases=near)).gpus).healthy == 1


def test_of_two_signs_the_one_that_can_be_believed_counts() -> None:
    found = looked_at(objects(gpu(0), leases=(lease(AGENT, AHEAD),)))

    assert known(found.gpus).healthy == 1


def test_a_lease_that_is_no_agents_makes_no_node_alive() -> None:
    others = (lease("node-a", LATE), lease(f"x-{AGENT}", LATE))

    assert known(looked_at(objects(gpu(0), at=LATE, leases=others)).gpus).healthy == 0


def test_a_leader_that_dates_ahead_is_doubted() -> None:
    found = looked_at(objects(gpu(0), leases=(lease(LEASE_NAME, AHEAD, "remediator-0"),)))

    words = "remediator-0datesitsLease5haheadoftheAPIserver'sclock:whetheritleadsisunknown"
    assert words in shown_words(found)


@pytest.mark.parametrize(
    ("renewed", "holder", "why"),
    [
        (
            timedelta(hours=-1),
            "remediator-0",
            "remediator-0 last renewed its Lease 1h ago, and no other replica has taken over",
        ),
        (timedelta(), "", "no remediator leads: nothing is tainted or untainted"),
    ],
)
def test_an_intent_that_no_remediator_acts_on_says_so(
    renewed: timedelta,
    holder: str,
    why: str,
    fleet: Fleet,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who is told that rules come down now must not wait for it in vain."""
    where = ("--kubeconfig", fleet.kubeconfig)
    arguments = ("ignore", LOST_INCIDENT, "--until", "1h", "--reason", "x", "--yes", *where)
    with fleet.silence():
        renew(fleet.cluster.client, LEASES, LEASE_NAME, holder, 10, clock.now() + renewed)
        words = printed(capsys, *arguments)
        printed(capsys, "ignore", LOST_INCIDENT, "--remove", *where)

    assert re.search(rf"^note +{re.escape(why)}", words, re.MULTILINE)
    assert "takes effect once a remediator runs" in words
