"""What others wrote into objects reaches no terminal raw, and a program whole."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import yaml

from draguard.phrases import LIMIT, shown
from draguard.render.blocks import Cell, Facts, Lines, Table
from draguard.render.formats import encoded
from draguard.render.plain import plain
from kubeapi.client import NotFound
from remediator.model.incident import IncidentSpec
from remediator.model.incident_caps import cut_to_limits
from remediator.model.incident_status import AffectedPod, Condition, TimelineEntry
from tests.chain.proxy import Proxy
from tests.chain.scene import INCIDENTS
from tests.draguard.fleet import Fleet
from tests.draguard.printed import printed
from tests.draguard.test_cli_errors import config, written
from tests.draguard.test_cli_terminal import COLOUR, on_terminal
from tests.lab.cluster import RULES
from tests.remediator.builders import T0, make_status, uuid

NASTY = (
    "\x1b]0;owned\x07\x1b[2J[bold red]x[/] <b>&amp;\u202e\u2066 a\r\nINCIDENT  b\x9bm\x7f\t:smile:"
)
"""A window's title, a cleared screen, markup, bidirectional marks, a forged row, C1, an emoji."""
NAME = "gpu-nasty-1"
Tell = Callable[..., str]


@pytest.fixture(scope="module")
def nasty(fleet: Fleet) -> Iterator[Fleet]:
    spec = IncidentSpec(node="node-a", uuid="GPU-x")
    longest = make_status(
        fault_class="lost",
        cause=NASTY,
        evidence=(NASTY, "y" * 500),
        phase="Suspected",
        message=NASTY,
        conditions=(Condition("Deferred", "True", "Human", T0, NASTY),),
        timeline=(TimelineEntry(T0, NASTY, NASTY),),
        affected=(AffectedPod("ns", NASTY, NASTY, NASTY, "u", "Gang", NASTY),),
        foreign=(NASTY,),
        informed=(NASTY,),
    )
    fleet.incident(NAME, spec, cut_to_limits(longest))
    yield fleet
    with suppress(NotFound):
        fleet.cluster.client.delete(f"{INCIDENTS}/{NAME}")


@pytest.fixture
def tell(nasty: Fleet, capsys: pytest.CaptureFixture[str]) -> Tell:
    def run(*arguments: str) -> str:
        return printed(capsys, *arguments, "--kubeconfig", nasty.kubeconfig)

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
    stated = tell(*arguments, "-o", output)

    assert is_harmless(stated)
    assert "smile" in stated or arguments[0] == "plan"


def test_a_row_cannot_be_forged(tell: Tell) -> None:
    rows = [line for line in tell("incidents").splitlines() if line.startswith("INCIDENT  ")]

    assert len(rows) == 1


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_program_gets_it_whole(output: str, tell: Tell) -> None:
    stated = tell("incidents", NAME, "-o", output)
    read = msgspec.json.decode(stated) if output == "json" else yaml.safe_load(stated)

    assert read["status"]["message"] == NASTY
    assert read["status"]["fault"]["evidence"][1] == "y" * 500


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


@pytest.mark.parametrize(
    "text",
    ["1e3", "12e05", "0o17", "y", "N", "no", "on", "~", "null", "1_000", "-1", ".5", "+.inf"],
)
def test_what_another_reader_of_yaml_takes_for_a_number_or_a_truth_value_is_quoted(
    text: str,
) -> None:
    """A node may be called 1e3: YAML 1.2 has numbers, and 1.1 truth values, that PyYAML has not."""
    assert encoded({text: [text]}, "yaml") == f"'{text}':\n- '{text}'\n"


def test_what_a_marked_rule_says_reaches_no_terminal_raw(nasty: Fleet) -> None:
    """Which node a rule is for is an annotation, and a plan is shown under that name."""
    (rule,) = (found for found in nasty.cluster.items(RULES) if "node-b" in str(found["spec"]))
    path = f"{RULES}/{rule['metadata']['name']}"
    stated = {"metadata": {"annotations": {"draguard.dev/node": f"node-b{NASTY}"}}}
    nasty.cluster.client.merge_patch(path, stated)
    try:
        shown = on_terminal("plan", "--kubeconfig", nasty.kubeconfig)
    finally:
        stated = {"metadata": {"annotations": {"draguard.dev/node": "node-b"}}}
        nasty.cluster.client.merge_patch(path, stated)

    assert "Node node-b\\x1b]0;owned" in shown
    assert is_harmless(COLOUR.sub("", shown))


def test_what_a_library_logs_on_the_way_reaches_no_terminal(nasty: Fleet, tmp_path: Path) -> None:
    """The pods of a node are requested by the name that an incident gives it."""
    name = "gpu-nasty-2"
    spec = IncidentSpec(node="node-x", uuid=uuid(7))
    nasty.incident(name, spec, make_status(node=f"x{NASTY}", fault_class="lost", phase="Tainted"))
    endpoint = nasty.cluster.plane.endpoint()
    try:
        with Proxy(endpoint) as proxy:
            proxy.refuse, proxy.refused_path = 403, "/api/v1/pods"
            path = written(tmp_path, "config", config(proxy.url, endpoint.token or ""))
            shown = on_terminal("plan", "--kubeconfig", str(path), columns=500)
    finally:
        nasty.cluster.client.delete(f"{INCIDENTS}/{name}")

    assert is_harmless(COLOUR.sub("", shown))
    assert "cannot be listed, so none of them counts as evicted or gone" in shown
    assert "no device counts as drained" not in shown
