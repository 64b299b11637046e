"""Every alert has a runbook, and its queries and commands exist."""

import io
import re
import shlex
from contextlib import redirect_stdout, suppress
from pathlib import Path

import promql_parser as promql
import pytest

from alerts.rule import Alert
from alerts.table import alerts, recorded
from draguard.__main__ import main as draguard
from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane, ControlPlaneError
from tests.chain.conftest import install
from tests.dashboards.known import FAMILIES_KNOWN, LABELS
from tests.dashboards.promql_reading import named_labels, selectors

FOLDER = Path(__file__).parents[2] / "alerts" / "runbooks"
ALERTS = {alert.name: alert for alert in alerts()}
PAGES = sorted(FOLDER.glob("*.md"))
SECTIONS = ["Meaning", "Impact", "What Draguard already did", "What you do", "Diagnosis"]
RECORDED = {recording.name for recording in recorded()}
PROMETHEUS_OWN = {
    "ALERTS": "Prometheus itself records it",
    "prometheus_notifications_alertmanagers_discovered": "of the Prometheus that sends",
    "prometheus_rule_evaluation_failures_total": "of the Prometheus that evaluates",
}
ALERT_LABELS = {"alertname", "source"}
ON_THE_NODE = {"dmesg", "lspci", "nvidia-smi"}
"""Programs on the node, as words in the text."""
LONGEST = 90
"""Lines of a page."""
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
INLINE = re.compile(r"`([^`\n]+)`")


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text(page), re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """Return what the page says to type, in blocks and in sentences."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    stated = INLINE.findall(re.sub(r"```.*?```", "", text(page), flags=re.DOTALL))
    lines += [line for line in stated if line.split()[0] in {"draguard", "kubectl"} and " " in line]
    return [shlex.split(line.partition(" > ")[0]) for line in lines]


def named(page: Path) -> Alert:
    return ALERTS[page.stem]


OF_ALERTS = [page for page in PAGES if page.stem != "README"]


def test_each_alert_has_its_page_and_each_page_its_alert() -> None:
    assert {page.stem for page in OF_ALERTS} == set(ALERTS)


@pytest.mark.parametrize("page", OF_ALERTS, ids=lambda page: page.stem)
def test_a_page_has_the_five_sections_and_says_of_what_it_is(page: Path) -> None:
    alert = named(page)
    head, *_ = text(page).partition("\n## ")
    sections = re.findall(r"^## (.*)$", text(page), re.MULTILINE)
    bodies = re.split(r"^## .*$", text(page), flags=re.MULTILINE)[1:]

    assert head.startswith(f"# {alert.name}\n\n**{alert.severity}**, of ")
    labels = re.findall(r"`(\w+)`", head) if alert.of.labels else []
    assert tuple(labels) == alert.of.labels
    assert sections == SECTIONS
    assert [body for body in bodies if not body.strip()] == []
    assert len(text(page).splitlines()) <= LONGEST


@pytest.mark.parametrize("page", OF_ALERTS, ids=lambda page: page.stem)
def test_every_query_can_be_run(page: Path) -> None:
    queries = blocks(page, "promql")

    assert queries
    for query in queries:
        parsed = promql.parse(query)
        for selector in selectors(parsed):
            known = {*FAMILIES_KNOWN, *RECORDED, *PROMETHEUS_OWN}
            assert selector.name in known, f"{page.stem} asks for {selector.name}"
            assert selector.labels <= {*LABELS, *ALERT_LABELS, "UUID"}, f"{page.stem}: {query}"
            if selector.name in FAMILIES_KNOWN:
                there = FAMILIES_KNOWN[selector.name].labels | {
                    "cluster",
                    "node",
                    "instance",
                    "job",
                }
                assert selector.labels <= there, (
                    f"{page.stem}: {selector.name} has no {selector.labels - there}"
                )
        assert set(named_labels(parsed)) <= LABELS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_series_that_a_sentence_names_exists(page: Path) -> None:
    stated = {
        word for word in INLINE.findall(text(page)) if re.fullmatch(r"(draguard|DCGM)_\w+", word)
    }

    assert stated - set(FAMILIES_KNOWN) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_draguard_command_has_the_flags_that_it_is_given(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for program, *words in commands(page):
        if program == "draguard" and words[0] != "--help":
            name = words[:2] if words[0] in {"policy"} else words[:1]
            reported = help_of(name)
            flags = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert reported.startswith(f"usage: draguard {' '.join(name)}"), f"{page.stem}: {words}"
            assert {
                flag for flag in flags if f"{flag} " not in reported and f"{flag}]" not in reported
            } == set()


def help_of(words: list[str]) -> str:
    stated = io.StringIO()
    with redirect_stdout(stated), suppress(SystemExit):
        draguard([*words, "--help"])
    return stated.getvalue()


def requested_of_the_cluster() -> set[tuple[str, ...]]:
    """Return every complete kubectl command of all pages, with names of missing objects."""
    return {
        tuple(re.sub(r"\b[A-Z]{3,}\b(?!:)", lambda name: name[0].lower(), word) for word in words)
        for page in PAGES
        for program, *words in commands(page)
        if program == "kubectl" and words[0] != "draguard" and len(words) > 1
    }


@pytest.mark.timeout(600)
def test_a_real_apiserver_takes_every_kubectl_command(
    control_plane: ControlPlane, client: Client
) -> None:
    """A missing object is not found; an unknown resource, field or flag is rejected."""
    install(control_plane, client)
    requested = requested_of_the_cluster()
    refused: dict[tuple[str, ...], str] = {}
    for words in sorted(requested):
        try:
            control_plane.kubectl(*words)
        except ControlPlaneError as error:
            if not re.search(r'\(NotFound\)|"[\w-]+" not found', str(error)):
                refused[words] = str(error)

    assert len(requested) > 20
    assert refused == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link, anchor in LINK.findall(text(page)):
        there = (page.parent / link).resolve() if link else page
        assert there.is_file(), f"{page.stem} links to {link}"
        if anchor:
            heads = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {slug(head) for head in heads}, f"{page.stem} links to #{anchor}"


def slug(head: str) -> str:
    return re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")
