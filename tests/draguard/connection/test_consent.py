"""What hurts when it is wrong needs a confirmation, and is not done without a terminal."""

import io
import sys

import pytest

from draguard.connection.session import confirmed
from draguard.render.consequences import consequences
from remediator.diagnose.fault import Fault, Sick
from tests.remediator.builders import T0, at, make_board
from tests.remediator.plan.fleets import an_incident


class User(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "goes_on"), [("yes\n", True), ("y\n", False), ("\n", False), ("", False)]
)
def test_only_a_typed_yes_goes_on(
    typed: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", User(typed))

    assert confirmed("untaint", ["verdict  sick"], "Untaint it?", yes=False) == goes_on

    stated = capsys.readouterr().err
    assert stated.startswith("verdict  sick\nUntaint it? Type yes: ")
    assert ("nothing was done" in stated) != goes_on


@pytest.mark.parametrize("yes", [True, False])
def test_without_a_terminal_the_flag_alone_goes_on(
    yes: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))

    assert confirmed("untaint", ["verdict  sick\x1b[2J"], "Untaint it?", yes=yes) == yes

    stated = capsys.readouterr().err
    assert "\x1b" not in stated
    assert ("no terminal for confirmation; add --yes to continue" in stated) != yes


def test_the_verdict_the_needs_and_what_follows_are_shown() -> None:
    fault = Fault(fault_class="lost", cause="xid-79", last_seen=T0, evidence="XID 79, off the bus")
    board = make_board(Sick((fault,)))
    one = an_incident("a0", needs="node-reboot")

    stated = "\n".join(consequences(one, board, ["NoExecute on gpu-0"], at(4 * 3600), at(0)))

    assert "verdict  sick: XID 79, off the bus\n" in stated
    assert "needs    node-reboot\n" in stated
    assert "taints   1 taint will be removed: NoExecute on gpu-0\n" in stated
    assert "new pods can be scheduled to it immediately, even if its fault remains" in stated
    assert "Z, in 4h; then the fault counts again" in stated
