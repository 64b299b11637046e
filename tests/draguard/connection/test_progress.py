"""What a long command is doing is said on a terminal, and nowhere else; nothing of it stays."""

import io
import sys

import pytest

from draguard.__main__ import main
from draguard.connection import progress
from draguard.connection.progress import Progress
from tests.draguard.fleet import Fleet


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch, patience: float) -> Terminal:
    """Make stderr a terminal; in the test, because pytest sets stderr anew after fixtures."""
    seen = Terminal()
    monkeypatch.setattr(sys, "stderr", seen)
    monkeypatch.setattr(progress, "PATIENCE", patience)
    return seen


def shows(written: str) -> str:
    """The line that a terminal shows after it has obeyed."""
    return written.rpartition("\r\x1b[K")[2]


def test_pages_are_counted_and_the_line_is_gone_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = on_terminal(monkeypatch, 0.0)

    with Progress() as one:
        one.read("resourceclaims", 0, 0)
        assert shows(terminal.getvalue()) == "reading resourceclaims ..."
        one.read("resourceclaims", 1500, 40000)
        assert shows(terminal.getvalue()) == "reading resourceclaims: 1,500 of 40,000 ..."

    assert shows(terminal.getvalue()) == ""


def test_a_command_that_is_done_at_once_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch, 3600.0)

    with Progress() as one:
        one.says("reading")

    assert terminal.getvalue() == ""


def test_a_pipe_gets_no_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)

    with Progress() as one:
        one.says("reading")

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["status", "plan", "incidents", "doctor"])
def test_who_looks_at_a_cluster_sees_how_far_it_is(
    command: str, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = on_terminal(monkeypatch, 0.0)
    monkeypatch.setattr("draguard.cluster.listing.PAGE", 1)

    main([command, "--kubeconfig", fleet.kubeconfig])

    assert "reading deviceincidents: 1 of 2 ..." in terminal.getvalue()
    assert shows(terminal.getvalue()) == ""
