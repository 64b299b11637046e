"""What others wrote into objects reaches no terminal raw, and a program whole."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec
import pytest
import yaml

from draguard.output.formats import encoded
from draguard.output.plain import plain
from draguard.output.safe import LIMIT, shown
from draguard.output.sheet import Cell, Facts, Lines, Table
from kubeapi.client import NotFound
from remediator.objects.incident import (
    Condition,
    IncidentSpec,
    IncidentStatus,
    PodHold,
    TimelineEntry,
)
from tests.chain.scene import INCIDENTS
from tests.draguard.fleet import T0, Fleet
from tests.draguard.told import told

NASTY = (
    "\x1b]0;owned\x07\x1b[2J[bold red]x[/] <b>&amp;\u202e\u2066 a\r\nINCIDENT  b\x9bm\x7f\t:smile:"
)
"""A window's title, a cleared screen, markup, bidirectional marks, a forged row, C1, an emoji."""
NAME = "gpu-nasty-1"
Tell = Callable[..., str]


@pytest.fixture(scope="module")
def nasty(fleet: Fleet) -> Iterator[Fleet]:
    spec = IncidentSpec(
        node="node-a", uuid="GPU-x", fault=NASTY, cause=NASTY, evidence=(NASTY, "y" * 9000)
    )
    status = IncidentStatus(
        phase="Suspected",
        message=NASTY,
        mode=NASTY,
        conditions=(Condition("Held", "True", "Human", T0, NASTY),),
        timeline=(TimelineEntry(T0, NASTY, NASTY),),
        hit=(PodHold("ns", NASTY, NASTY, NASTY, "u", NASTY, NASTY),),
        foreign=(NASTY,),
        informed=(NASTY,),
    )
    fleet.incident(NAME, spec, status)
    yield fleet
    with suppress(NotFound):
        fleet.cluster.client.delete(f"{INCIDENTS}/{NAME}")


@pytest.fixture
def tell(nasty: Fleet, capsys: pytest.CaptureFixture[str]) -> Tell:
    def run(*arguments: str) -> str:
        return told(capsys, *arguments, "--kubeconfig", nasty.kubeconfig)

    return run


def is_harmless(text: str) -> bool:
    return all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.parametrize(
    "arguments", [("status",), ("incidents",), ("incidents", NAME), ("plan",)], ids=" ".join
)
@pytest.mark.parametrize("output", ["text", "json", "yaml"])
def test_nothing_raw_reaches_the_terminal(
    arguments: tuple[str, ...], output: str, tell: Tell
) -> None:
    said = tell(*arguments, "-o", output)

    assert is_harmless(said)
    assert "smile" in said or arguments[0] == "plan"


def test_a_row_cannot_be_forged(tell: Tell) -> None:
    rows = [line for line in tell("incidents").splitlines() if line.startswith("INCIDENT  ")]

    assert len(rows) == 1


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_program_gets_it_whole(output: str, tell: Tell) -> None:
    said = tell("incidents", NAME, "-o", output)
    read = msgspec.json.decode(said) if output == "json" else yaml.safe_load(said)

    assert read["status"]["message"] == NASTY
    assert read["spec"]["evidence"][1] == "y" * 9000


def test_markup_and_emojis_are_text() -> None:
    page = plain(
        (
            Facts((("[b]name[/b]", "[red]value[/red]"),), title="[i]title[/i]"),
            Table(("A",), ((Cell("[link=x]y[/link] :smile:", "bad"),),)),
            Lines(("[dim]z[/dim]",)),
        )
    )

    for text in ("[b]name[/b]", "[red]value[/red]", "[i]title[/i]", "[link=x]y[/link] :smile:"):
        assert text in page
    assert "[dim]z[/dim]" in page


def test_a_value_is_one_line_and_cut_with_a_sign() -> None:
    assert shown("a\nb\tc\x1b") == "a b c\\x1b"
    assert shown("x" * (LIMIT + 1)) == "x" * LIMIT + "..."
    assert shown("x" * LIMIT) == "x" * LIMIT


def test_what_looks_like_a_time_or_a_number_stays_text_in_yaml() -> None:
    values = {"a": "2026-01-05T12:00:00Z", "b": "1e3", "c": "no", "d": "0x1", "e": "~"}

    assert yaml.safe_load(encoded(values, "yaml")) == values
