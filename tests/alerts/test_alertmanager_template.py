"""Notifications of Slack and PagerDuty: texts of a recorded page, and hostile values.

The page was recorded from a real Alertmanager (tests/alerts/test_pages.py); the real amtool renders
all texts. UPDATE_GOLDEN=1 rewrites tests/golden/alerts/.
"""

import json
import os
import re
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.exporter.running import free_port
from tests.lab.alertmanager import Alertmanager, Pager, rehearsed, rendered
from tests.lab.cluster import await_true
from tests.lab.paging import CONFIG, TEMPLATE

GOLDEN = Path(__file__).parents[1] / "golden" / "alerts"
RECORDED: dict[str, Any] = json.loads((GOLDEN / "page-xid-79.json").read_text(encoding="utf-8"))
TEXTS = (
    "draguard.title",
    "draguard.titlelink",
    "draguard.color",
    "draguard.slack.text",
    "draguard.gpu",
    "draguard.failed",
    "draguard.resolved",
    "draguard.hit",
    "draguard.done",
    "draguard.next",
    "draguard.runbook",
    "draguard.dashboard",
)
LINK = re.compile(r"<https?://[^\s<>|\"]+\|([\w ]+)>")
LINKS = {"Runbook", "Dashboard", "Query", "Silence this alert", "Silence all of this GPU"}
IDENTITY = ("cluster", "node", "UUID")
HOSTILE = {
    "quotes": 'a"b\'c`d``e\\f\\"g',
    "braces": '{{ .Status }}{{ template "draguard.title" . }}}}{{/*',
    "newlines": "one\ntwo\r\nthree\u2028four\vfive\n\n*six*",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>&lt;b&gt;",
    "mentions": "<!channel> <@U123> <!here|hello> @everyone",
    "links": "<https://evil.example|Runbook> https://evil.example/|Runbook>",
    "hidden": "left\u202etfel\u200bzero\x1b[31mred\x7f\u2066",
    "addresses": "a%7C|b%20c d+e&f=g#h?i;j,k",
    "yaml": "x: '{{ .ExternalURL }}'",
    "yaml list": "['{{ .Status }}', '{{ nonsense }}']",
    "yaml that ends a quote": '", a: {{ .Status }}, b: "\\',
    "long": "x" * 4096,
    "long of more bytes": "\U0001f525ü" * 1024,
}
Render = Callable[[str, dict[str, Any]], str]


@pytest.fixture
def render(alertmanager_built: Path, tmp_path: Path) -> Render:
    return partial(rendered_with, alertmanager_built, tmp_path)


def rendered_with(programs: Path, folder: Path, template: str, data: dict[str, Any]) -> str:
    return rendered(programs, TEMPLATE, template, data, folder)


def with_values(value: str) -> dict[str, Any]:
    """Return the recorded page with the value in every annotation and label of identity."""
    page = deepcopy(RECORDED)
    addresses = {"runbook_url", "dashboard_url"}
    for holder in (page["alerts"][0]["annotations"], page["commonAnnotations"]):
        for name in holder:
            holder[name] = f"https://x.example/?y={value}" if name in addresses else value
    for labels in (page["alerts"][0]["labels"], page["groupLabels"], page["commonLabels"]):
        labels.update(dict.fromkeys(IDENTITY, value))
    return page


def test_the_texts_of_the_recorded_page(render: Render) -> None:
    stated = "".join(f"== {name}\n{render(name, RECORDED)}\n" for name in TEXTS)
    golden = GOLDEN / "page-xid-79.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(stated, encoding="utf-8")

    assert stated == golden.read_text(encoding="utf-8")


def test_the_oldest_alertmanager_says_it_in_the_same_words(
    amtool_0_25_built: Path, tmp_path: Path
) -> None:
    oldest = partial(rendered_with, amtool_0_25_built, tmp_path)
    stated = "".join(f"== {name}\n{oldest(name, RECORDED)}\n" for name in TEXTS)

    assert stated == (GOLDEN / "page-xid-79.txt").read_text(encoding="utf-8")


def test_a_page_that_is_over_says_so(render: Render) -> None:
    page = deepcopy(RECORDED)
    page["status"] = "resolved"
    page["alerts"][0] |= {"status": "resolved", "endsAt": "2026-07-30T18:30:00Z"}

    assert render("draguard.title", page).startswith("RESOLVED: DraguardGpuGone: GPU-1 on node-a")
    assert "resolved Jul 30 18:30 UTC" in render("draguard.slack.text", page)
    assert render("draguard.color", page) == "good"


def with_one_that_is_over(page: dict[str, Any]) -> dict[str, Any]:
    """Return the page with another alert, which is resolved and first in the order of labels."""
    over = deepcopy(page["alerts"][0])
    over |= {"status": "resolved", "endsAt": "2026-07-30T18:30:00Z"}
    over["labels"]["alertname"] = "DraguardDeviceSick"
    over["annotations"] = dict.fromkeys(over["annotations"], "https://old.example")
    return {**page, "alerts": [over, *page["alerts"]]}


def test_what_is_over_is_not_what_a_page_is_about(render: Render) -> None:
    page = with_one_that_is_over(RECORDED)

    for name in TEXTS:
        if name not in {"draguard.slack.text", "draguard.resolved"}:
            assert render(name, page) == render(name, RECORDED)
    assert render("draguard.resolved", page) == '"DraguardDeviceSick"'
    text = render("draguard.slack.text", page)
    assert text.count("*What failed:*") == 1
    assert "*Resolved:* DraguardDeviceSick" in text
    assert "old.example" not in text


def test_what_goes_on_is_shown_before_what_is_over(render: Render) -> None:
    page = with_one_that_is_over(RECORDED)
    page["alerts"] = [*[page["alerts"][0]] * 12, *RECORDED["alerts"] * 7]

    text = render("draguard.slack.text", page)
    assert text.count("*DraguardGpuGone*: ") == 5
    assert "and 2 more." in text
    assert text.count("DraguardDeviceSick") == 10
    assert " and 2 more\n" in text


def test_of_many_alerts_five_are_shown_and_the_rest_counted(render: Render) -> None:
    page = {**RECORDED, "alerts": RECORDED["alerts"] * 8}

    assert " and 7 more: GPU-1" in render("draguard.title", page)
    text = render("draguard.slack.text", page)
    assert text.count("*What failed:*") == 5
    assert "and 3 more." in text


@pytest.mark.parametrize(
    ("labels", "where"),
    [
        ({"cluster": "east", "node": "node-a"}, "node node-a, cluster east"),
        ({"dra_claim_namespace": "ml", "dra_claim_name": "train"}, "claim ml/train"),
        ({"dra_claim_namespace": "ml"}, "claims of namespace ml"),
        ({}, "the cluster"),
    ],
)
def test_what_is_not_of_a_gpu_is_named_too(
    render: Render, labels: dict[str, str], where: str
) -> None:
    page = {**RECORDED, "groupLabels": labels}

    assert render("draguard.title", page) == f"CRITICAL: DraguardGpuGone: {where}"
    assert "Silence all of this GPU" not in render("draguard.slack.text", page)


def test_a_gpu_on_several_nodes_is_named_without_one(render: Render) -> None:
    page = {**RECORDED, "groupLabels": {"cluster": "east", "UUID": "GPU-1"}}

    assert render("draguard.title", page) == "CRITICAL: DraguardGpuGone: GPU-1, cluster east"
    assert "Silence all of this GPU" in render("draguard.slack.text", page)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_value_is_no_markup_no_mention_no_link_and_no_line(render: Render, name: str) -> None:
    harmless = render("draguard.slack.text", with_values("harmless"))
    text = render("draguard.slack.text", with_values(HOSTILE[name]))

    assert text.count("\n") == harmless.count("\n")
    assert set(LINK.findall(text)) == LINKS
    assert set("<>") & set(LINK.sub("", text)) == set()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u2028\u202e\u200b]", text)
    assert len(text) < 20_000


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_in_the_title_is_one_line_without_brackets(render: Render, name: str) -> None:
    title = render("draguard.title", with_values(HOSTILE[name]))

    assert title.startswith("CRITICAL: DraguardGpuGone: ")
    assert set("<>\n`") & set(title) == set()
    assert len(title) < 320


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("template", [name for name in TEXTS if name != "draguard.slack.text"])
def test_every_text_is_one_line_of_bounded_length(render: Render, template: str, name: str) -> None:
    text = render(template, with_values(HOSTILE[name]))

    assert "\n" not in text
    assert len(text) < 5000


@pytest.mark.parametrize("name", [name for name in HOSTILE if not name.startswith("long")])
def test_the_silence_is_for_exactly_these_labels(render: Render, name: str) -> None:
    value = HOSTILE[name]

    text = render("draguard.slack.text", {**RECORDED, "groupLabels": {"UUID": value}})

    (address,) = re.findall(r"<([^<>|]+)\|Silence all of this GPU>", text)
    found = unquote(address.partition("?filter=")[2])
    assert found.startswith('{UUID="')
    assert literal(found.removeprefix("{UUID=").removesuffix("}")) == value


def literal(quoted: str) -> str:
    """Read a quoted string of Alertmanager's matchers, which are Go's."""
    hexadecimal = re.sub(r"\\x([0-9a-f]{2})", r"\\u00\1", quoted)
    return json.loads(hexadecimal.replace("\\v", "\\u000b").replace("\\a", "\\u0007"))


@pytest.mark.parametrize("name", ["long", "long of more bytes"])
def test_names_too_long_for_an_address_lead_to_an_empty_form(render: Render, name: str) -> None:
    assert "silences/new|Silence" in render("draguard.slack.text", with_values(HOSTILE[name]))


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "", "/runbooks/x.md", "data:text/html,x"]
)
def test_what_is_no_web_address_is_no_link(render: Render, address: str) -> None:
    page = deepcopy(RECORDED)
    for holder in (page["alerts"][0]["annotations"], page["commonAnnotations"]):
        holder |= {"runbook_url": address, "dashboard_url": address}

    text = render("draguard.slack.text", page)
    assert set(LINK.findall(text)) == LINKS - {"Runbook", "Dashboard"}
    assert "javascript" not in text + render("draguard.titlelink", page)


def sent(
    programs: Path, folder: Path, alerts: list[dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Let a real Alertmanager send critical alerts; return the requests by path."""
    started = datetime.now(UTC).isoformat()  # noqa: TID251 - a server compares it with its clock
    places = ("/draguard-page", "/slack/draguard-page", "/pagerduty/draguard-page")
    with Pager() as pager:
        config = rehearsed(CONFIG, folder, pager.url, minute=0.1)
        with Alertmanager(programs, folder, config, port=free_port()) as server:
            server.post([{**alert, "startsAt": started} for alert in alerts])
            for place in places:
                await_true(place, lambda at=place: len(once(pager.taken(at))) >= len(alerts))
            return {place: once(pager.taken(place)) for place in places}


def once(taken: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each notification once: without an answer in time it is sent again."""
    return [message for number, message in enumerate(taken) if message not in taken[:number]]


def test_pagerduty_gets_the_page_by_its_own_words(alertmanager_built: Path, tmp_path: Path) -> None:
    recorded = RECORDED["alerts"][0]
    reported = {key: recorded[key] for key in ("labels", "annotations", "generatorURL")}
    (event,) = sent(alertmanager_built, tmp_path, [reported])["/pagerduty/draguard-page"]
    stated = recorded["annotations"]
    details = event["payload"].pop("custom_details")

    assert event["event_action"] == "trigger"
    assert event["dedup_key"]
    assert event["payload"] == {
        "summary": "CRITICAL: DraguardGpuGone: GPU-1 on node-a, cluster lab",
        "source": "Draguard",
        "severity": "critical",
        "class": "DraguardGpuGone",
        "component": "GPU-1",
        "group": "node-a",
    }
    assert {name: str(value).strip('" ') for name, value in details.items()} == {
        "gpu": stated["gpu"],
        "firing": f"DraguardGpuGone: {stated['description']}",
        "resolved": "",
        "affected pods": stated["hit"],
        "what Draguard did": stated["done"],
        "what you do": stated["next"],
        "num_firing": "1",
        "num_resolved": "0",
    }
    assert {link["text"]: link["href"] for link in event["links"]} == {
        "Runbook": stated["runbook_url"],
        "Dashboard": stated["dashboard_url"],
    }


def test_a_real_alertmanager_sends_hostile_values_everywhere_and_runs_none(
    alertmanager_built: Path, tmp_path: Path
) -> None:
    """PagerDuty's details are read as YAML and rendered again by Alertmanager itself."""
    alerts = [
        {
            "labels": {
                "alertname": "DraguardGpuGone",
                "severity": "critical",
                **dict.fromkeys(IDENTITY, value),
            },
            "annotations": dict.fromkeys(RECORDED["alerts"][0]["annotations"], value),
        }
        for value in HOSTILE.values()
    ]
    came = sent(alertmanager_built, tmp_path, alerts)

    reported = {page["groupLabels"]["UUID"]: page for page in came["/draguard-page"]}
    assert set(reported) == set(HOSTILE.values())
    assert {page["alerts"][0]["annotations"]["hit"] for page in reported.values()} == set(reported)
    for event in came["/pagerduty/draguard-page"]:
        details = event["payload"]["custom_details"]
        assert {type(value) for name, value in details.items() if "num" not in name} == {str}
        assert "alertmanager.example.com" not in json.dumps(details)
        assert "\n" not in event["payload"]["summary"]
    expected = {
        rendered_with(alertmanager_built, tmp_path, "draguard.slack.text", page)
        for page in reported.values()
    }
    assert {
        message["attachments"][0]["text"] for message in came["/slack/draguard-page"]
    } == expected
