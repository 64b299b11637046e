"""What the bus says of a GPU, in the report."""

import json
from typing import Any

import msgspec
import pytest

from exporter.agent.report import ledger, outline
from exporter.agent.report.ledger import Published
from exporter.model.node_health import ConfigSpace, NodeHealth
from exporter.model.readings import Observation
from tests.exporter.worlds import BUS, START, at, gpu, seen, unseen, with_bus

FRESH = ledger.begin("boot-1", "1", START)
ONE, TWO = BUS["GPU-1"], BUS["GPU-2"]
WELL = {ONE: "Answers", TWO: "Answers"}


def reading(changes: Observation, config: dict[str, Any], **bus: Any) -> Observation:
    """Return an observation with a PCI list of both GPUs and what their config space reads."""
    places = bus.pop("places", (ONE, TWO))
    return msgspec.structs.replace(with_bus(changes, *places, **bus), pci_config=config)


def both(seconds: float = 0.0) -> Observation:
    return seen(gpu(1), gpu(2), seconds=seconds)


def after(*changes: Observation, **more: Any) -> NodeHealth:
    report = FRESH
    for observation in (reading(both(), WELL), *changes):
        report = ledger.observe(report, observation, **more)
    return report


def of_first(report: NodeHealth) -> ConfigSpace:
    return report.gpus[0].config_space


def test_a_gpu_that_answers_says_so_and_when() -> None:
    report = after(reading(both(60), WELL))
    assert of_first(report) == ConfigSpace(state="Answers", since=at(0), answered_at=at(60))


@pytest.mark.parametrize("news", [both(60), unseen(60)])
def test_ones_are_reported_with_the_time_they_were_first_read(news: Observation) -> None:
    """With NVML, and while NVML cannot be queried."""
    dead = WELL | {ONE: "AllOnes"}
    later = msgspec.structs.replace(news, at=at(90))
    report = after(reading(news, dead), reading(later, dead))
    assert of_first(report) == ConfigSpace(state="AllOnes", since=at(60), answered_at=at(0))
    assert report.gpus[1].config_space.state == "Answers"


def test_a_gpu_that_answered_and_is_no_longer_listed_is_gone() -> None:
    report = after(reading(unseen(60), {TWO: "Answers"}, places=(TWO,)))
    assert of_first(report).state == "Gone"


def test_the_only_gpu_of_a_node_may_be_gone_too() -> None:
    report = ledger.observe(FRESH, reading(seen(gpu(1)), {ONE: "Answers"}, places=(ONE,)))
    report = ledger.observe(report, reading(unseen(60), {}, places=()))
    assert of_first(report).state == "Gone"


def test_gone_outlasts_a_restart_of_the_agent() -> None:
    report = after()
    stored = msgspec.json.decode(msgspec.json.encode(report), type=NodeHealth)
    report = ledger.adopt(stored, "boot-1", "1", at(30))
    report = ledger.observe(report, reading(unseen(60), {}, places=(TWO,)))
    assert of_first(report).state == "Gone"


UNREADABLE = {
    "its file cannot be read": reading(unseen(60), {TWO: "Answers"}),
    "the folder is not mounted": msgspec.structs.replace(unseen(60), pci_config={}),
    "another driver has it, or none": reading(
        seen(gpu(2), seconds=60), {ONE: "AllOnes"}, unbound=(ONE,)
    ),
    "it was let go": reading(seen(gpu(1, released=True), gpu(2), seconds=60), {ONE: "AllOnes"}),
}


@pytest.mark.parametrize("why", UNREADABLE)
def test_not_knowing_is_unknown_and_never_off_the_bus(why: str) -> None:
    found = of_first(after(UNREADABLE[why]))
    assert (found.state, found.off_bus, found.answered_at) == ("Unknown", False, at(0))


def test_an_address_that_never_answered_is_not_gone() -> None:
    """Where PCI is hidden, the list lacks GPUs that are there."""
    report = ledger.observe(FRESH, reading(both(), {}, places=()))
    report = ledger.observe(report, reading(unseen(60), {}, places=()))
    assert of_first(report) == ConfigSpace()


def test_a_gpu_that_left_the_bus_is_gone_though_a_restarted_driver_does_not_offer_it() -> None:
    """It offers what NVML lists. Gone is no fault by itself: it confirms what the log reports."""
    changes = reading(seen(gpu(2), seconds=60), {TWO: "Answers"}, places=(TWO,))
    report = after(changes, published=Published(frozenset({"GPU-2"})))
    assert of_first(report).state == "Gone"


def test_an_answer_that_is_read_again_is_no_news_and_ones_are() -> None:
    report, later = after(), after(reading(both(60), WELL))
    assert outline.change_key(report) == outline.change_key(later)
    dead = after(reading(both(60), WELL | {ONE: "AllOnes"}))
    assert outline.change_key(dead) != outline.change_key(later)


def test_the_report_of_a_gpu_off_the_bus_as_it_is_stored() -> None:
    report = outline.finished(after(reading(unseen(60), WELL | {ONE: "AllOnes"})))
    first = json.loads(msgspec.json.encode(report))["gpus"][0]
    assert first["configSpace"] == {
        "state": "AllOnes",
        "sinceTime": "2026-11-21T08:01:00Z",
        "lastAnswerTime": "2026-11-21T08:00:00Z",
    }
    assert first["presence"] == "Unknown"
    assert report.summary.attention == "GPU-1: off the bus"
