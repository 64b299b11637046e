"""Opsgenie, Teams and mail: what a real Alertmanager sends to them, also of hostile values."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.alerts.test_alertmanager_template import HOSTILE, IDENTITY, RECORDED, once
from tests.exporter.running import free_port
from tests.lab.alertmanager import Alertmanager, Pager, amtool
from tests.lab.cluster import await_true
from tests.lab.mailbox import Mailbox
from tests.lab.paging import ALERTS

SHIPPED = ALERTS / "alertmanager" / "receivers.yml"
Json = dict[str, Any]


def test_the_real_amtool_takes_the_shipped_file(alertmanager_built: Path) -> None:
    done = amtool(alertmanager_built, "check-config", str(SHIPPED))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 templates" in done.stdout


def here(folder: Path, pager: Pager, mailbox: Mailbox) -> Path:
    """Return a copy of the file in which all that is sent stays on this machine."""
    config: Json = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    config["templates"] = [str(SHIPPED.parent / name) for name in config["templates"]]
    config["route"] |= {"group_by": ["UUID"], "group_wait": "10ms"}
    (receiver,) = config["receivers"]
    (opsgenie,), (teams,), (mail,) = (
        receiver[f"{kind}_configs"] for kind in ("opsgenie", "msteamsv2", "email")
    )
    del opsgenie["api_key_file"], teams["webhook_url_file"]
    del mail["auth_username"], mail["auth_password_file"]
    opsgenie |= {"api_key": "of-nobody", "api_url": f"{pager.url}/opsgenie/"}
    teams |= {"webhook_url": f"{pager.url}/teams"}
    mail |= {"smarthost": mailbox.address, "require_tls": False, "hello": "localhost"}
    copy = folder / "receivers.yml"
    copy.write_text(yaml.safe_dump(config), encoding="utf-8")
    return copy


class Sent:
    """What one run of a real Alertmanager sent."""

    def __init__(self, programs: Path, folder: Path, alerts: list[Json]) -> None:
        started = datetime.now(UTC).isoformat()  # noqa: TID251 - a server compares it with its clock
        with (
            Pager() as pager,
            Mailbox() as mailbox,
            Alertmanager(
                programs, folder, here(folder, pager, mailbox), port=free_port()
            ) as server,
        ):
            server.post([{**alert, "startsAt": started} for alert in alerts])
            for path in ("/opsgenie/v2/alerts", "/teams"):
                await_true(path, lambda at=path: len(once(pager.taken(at))) >= len(alerts))
            await_true("mail", lambda: len(mailbox.taken) >= len(alerts))
            self.opsgenie = once(pager.taken("/opsgenie/v2/alerts"))
            self.teams = once(pager.taken("/teams"))
            self.mails = mailbox.taken

    def cards(self) -> list[tuple[str, str]]:
        """Return title and text of each card of Teams."""
        bodies = [card["attachments"][0]["content"]["body"] for card in self.teams]
        return [(body[0]["text"], body[1]["text"]) for body in bodies]

    def texts(self) -> list[str]:
        """Return the text of each mail, whose only part is text."""
        parts = [[*mail.walk()] for mail in self.mails]
        assert {part.get_content_type() for found in parts for part in found} <= {
            "multipart/alternative",
            "text/plain",
        }
        return [found[-1].get_content() for found in parts]  # type: ignore[attr-defined] # of the default policy


@pytest.fixture
def page(alertmanager_built: Path, tmp_path: Path) -> Sent:
    recorded = RECORDED["alerts"][0]
    alert = {key: recorded[key] for key in ("labels", "annotations", "generatorURL")}
    return Sent(alertmanager_built, tmp_path, [alert])


def test_each_gets_the_page_with_all_its_sentences(page: Sent) -> None:
    stated = RECORDED["alerts"][0]["annotations"]
    title = "CRITICAL: DraguardGpuGone: GPU-1"
    (event,), ((card_title, card),), (mail,) = page.opsgenie, page.cards(), page.mails
    (text,) = page.texts()

    assert event["message"].startswith(title)
    assert (event["priority"], event["source"], event["entity"]) == ("P1", "Draguard", "GPU-1")
    assert card_title.startswith(title)
    assert str(mail["Subject"]).startswith(title)
    for sentence in ("gpu", "description", "hit", "done", "next", "runbook_url", "dashboard_url"):
        for received in (event["description"], card, " ".join(text.split())):
            assert " ".join(stated[sentence].split()) in " ".join(received.split())


def test_hostile_values_are_no_link_no_markup_and_no_template(
    alertmanager_built: Path, tmp_path: Path
) -> None:
    names = RECORDED["alerts"][0]["annotations"]
    alerts = [
        {
            "labels": {
                "alertname": "DraguardGpuGone",
                "severity": "critical",
                **dict.fromkeys(IDENTITY, value),
            },
            "annotations": dict.fromkeys(names, value),
        }
        for value in (*HOSTILE.values(), "[Runbook](https://evil.example)")
    ]
    sent = Sent(alertmanager_built, tmp_path, alerts)

    received = [text for card in sent.cards() for text in card]
    received += [event["description"] for event in sent.opsgenie] + sent.texts()
    for text in received:
        assert not re.search(r"[\[\]<>]", text), text
        assert "alertmanager.example.com" not in text
    assert len(json.dumps(sent.teams)) < 200_000
