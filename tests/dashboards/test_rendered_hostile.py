"""Label values that want to be code: drawn as text, handed on by links, harmless to queries."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from dashboards.catalogue import BOARDS, CLAIM, FLEET, NODE
from tests.lab.browser.install import Installed
from tests.lab.pictures_backfill import samples
from tests.lab.pictures_gallery import Gallery, gallery
from tests.lab.pictures_story import ONE_HOUR, Story

pytestmark = [
    pytest.mark.timeout(900),  # a loaded machine plays the hour in minutes
    pytest.mark.verify,
]
UIDS = [board.uid for board in BOARDS]
_HELD = re.compile(r'Hostname="node-b".*pod="(?P<pod>llm[^"]*)".*dra_claim_name="(?P<claim>[^"]*)"')


class Hostile(NamedTuple):
    """What stands in the place of honest values. A variable takes all but `pod` and `model`."""

    node: str = "n\"o'd\\e <img src=x onerror=\"window.hurt='node'\">"
    namespace: str = "</td></table><script>window.hurt='namespace'</script>$node ${__data.fields}"
    claim: str = '[[claim]] .*|{a=~"b"} <svg onload="window.hurt=\'claim\'"> ' + "x" * 4096
    pod: str = "one\ntwo\r\n<iframe srcdoc=\"<script>parent.hurt='pod'</script>\"></iframe>"
    model: str = "[click](javascript:window.hurt='model') <b>bold</b>\n# heading"


HOSTILE = Hostile()


def renamed(story: Story) -> Mapping[str, str]:
    """Return hostile values by those that the programs printed, for one claim among honest ones."""
    held = (
        found
        for _, labels, _ in samples(story.moments[0].pages["node-b"])
        if (found := _HELD.search(labels))
    )
    victim = next(held)
    return {
        "node-b": HOSTILE.node,
        "research": HOSTILE.namespace,
        victim["claim"]: HOSTILE.claim,
        victim["pod"]: HOSTILE.pod,
        "NVIDIA H100 80GB HBM3": HOSTILE.model,
    }


@pytest.fixture(scope="module")
def shown(
    story: Story,
    installed: Installed,
    prometheus_built: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gallery]:
    folder = tmp_path_factory.mktemp("hostile")
    with gallery(story, installed, prometheus_built, folder, renamed(story)) as one:
        yield one


CHOSEN: Mapping[str, Mapping[str, str]] = {
    NODE.uid: {"node": HOSTILE.node},
    CLAIM.uid: {"namespace": HOSTILE.namespace, "claim": HOSTILE.claim},
}
"""What dashboards of one thing are opened for."""


@pytest.mark.parametrize("uid", UIDS)
def test_a_hostile_label_value_is_text_and_nothing_else(shown: Gallery, uid: str) -> None:
    moment = shown.at(ONE_HOUR.lost - 1)
    with shown.browser.dashboard(uid, moment, **CHOSEN.get(uid, {})) as drawn:
        assert drawn.complaints == []
        assert {
            panel.title: panel.errors for panel in drawn.panels().values() if panel.errors
        } == {}
        assert drawn.page.evaluate("() => window.hurt") is None
        made = "img[src='x'], svg[onload], iframe, main script, a[href^='javascript'], main b"
        assert drawn.page.locator(made).count() == 0
        chosen = drawn.variables()
        for name, value in CHOSEN.get(uid, {}).items():
            assert value in chosen[name]["value"]


def test_it_is_shown_whole(shown: Gallery) -> None:
    moment = shown.at(ONE_HOUR.lost - 1)
    with shown.browser.dashboard(CLAIM.uid, moment, **CHOSEN[CLAIM.uid]) as drawn:
        texts = {word.text for word in drawn.words()}
    assert {HOSTILE.node, HOSTILE.namespace, HOSTILE.claim} <= texts


def test_a_link_hands_it_on_as_it_is(shown: Gallery) -> None:
    moment = shown.at(ONE_HOUR.silent - 1)
    with shown.browser.dashboard(FLEET.uid, moment) as drawn:
        to_node = [link for link in drawn.links() if _given(link, NODE.uid) == HOSTILE.node]
    assert to_node, "no row of the fleet leads to the node of that name"
    with shown.browser.at(to_node[0], moment) as arrived:
        assert arrived.complaints == []
        assert arrived.variables()["node"]["value"] == HOSTILE.node
        assert {panel.title for panel in arrived.panels().values() if panel.errors} == set()
        assert any(word.text == "Lost" for word in arrived.words())


def _given(link: str, uid: str) -> str:
    """Return what a link to a dashboard chooses as its node, "" for other links."""
    place = urlsplit(link)
    return parse_qs(place.query).get("var-node", [""])[0] if place.path == f"/d/{uid}" else ""
