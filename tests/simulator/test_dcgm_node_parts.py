"""What the simulated libdcgm has beside GPUs: NVSwitches, their links, CPUs and cores."""

from collections.abc import Iterator

import pytest

from simulator.dcgm_engine import SimulatedDcgm
from simulator.dcgm_file import DcgmFaultError
from simulator.node import SimulatedNode
from tests.simulator.dcgm_client import NOT_FOUND, DcgmClient, with_engine

SWITCH, LINK, CPU, CORE = 3, 6, 7, 8
UP, DOWN, NOT_SUPPORTED = 3, 2, 0
BADPARAM, VER_MISMATCH, NOT_LOADED = -1, -12, -33


@pytest.fixture
def dcgm(node: SimulatedNode) -> SimulatedDcgm:
    return SimulatedDcgm(node)


@pytest.fixture
def client(dcgm: SimulatedDcgm) -> Iterator[DcgmClient]:
    with with_engine(dcgm) as client:
        yield client


def link(switch: int, number: int) -> int:
    return switch << 24 | number << 8 | SWITCH


def test_a_node_has_no_switches_and_no_cpus_by_itself(client: DcgmClient) -> None:
    assert client.ask(f"entities(h, {SWITCH})") == []
    assert client.error_of(f"entities(h, {CPU})") == NOT_LOADED
    assert client.error_of("cpus(h)") == NOT_LOADED
    assert client.ask("switch_states(h)") == {}


def test_a_switch_and_its_links_tell_what_they_were_given(
    dcgm: SimulatedDcgm, client: DcgmClient
) -> None:
    dcgm.parts.add_switch(1, links=4, fields={858: 45, 1524: "1.2.3"})
    dcgm.parts.set_switch_link(1, 3, {780: 12}, up=False)
    assert client.ask(f"entities(h, {SWITCH})") == [1]
    assert client.ask("{k: v[:5] for k, v in switch_states(h).items()}") == {
        "1": [UP, UP, UP, DOWN, NOT_SUPPORTED]
    }
    client.ask(f"watched(h, [({SWITCH}, 1)], 858, 1524, 859)")
    assert client.ask(f"value(h, {SWITCH}, 1, 858)") == 45
    assert client.ask(f"value(h, {SWITCH}, 1, 1524)") == "1.2.3"
    assert client.ask(f"value(h, {SWITCH}, 1, 859)") == NOT_FOUND
    client.ask(f"watched(h, [({LINK}, {link(1, 3)}), ({LINK}, {link(1, 0)})], 780)")
    assert client.ask(f"value(h, {LINK}, {link(1, 3)}, 780)") == 12
    assert client.ask(f"value(h, {LINK}, {link(1, 0)}, 780)") == NOT_FOUND
    assert client.error_of(f"group(h, ({LINK}, {link(1, 4)}))") == BADPARAM
    assert client.error_of(f"group(h, ({SWITCH}, 0))") == BADPARAM


def test_the_module_of_switches_may_be_missing(dcgm: SimulatedDcgm, client: DcgmClient) -> None:
    dcgm.parts.add_switch(0)
    dcgm.release.without_switch_module()
    assert client.error_of(f"entities(h, {SWITCH})") == NOT_LOADED
    assert client.ask("switch_states(h)") == {}


def test_cpus_own_their_cores(dcgm: SimulatedDcgm, client: DcgmClient) -> None:
    dcgm.parts.add_cpu(0, first=0, cores=2, serial="0x1A", fields={1110: 47.5})
    dcgm.parts.add_cpu(1, first=72, cores=1)
    dcgm.parts.set_core(72, {1100: 0.25})
    assert client.ask("cpus(h)") == [[0, [0, 1], "0x1A"], [1, [72], ""]]
    assert client.ask("cpus(h, 1)") == [[0, [0, 1], ""], [1, [72], ""]]
    assert client.ask(f"entities(h, {CORE})") == [0, 1, 72]
    client.ask(f"watched(h, [({CPU}, 0)], 1110)")
    client.ask(f"watched(h, [({CORE}, 72)], 1100)")
    assert client.ask(f"value(h, {CPU}, 0, 1110)") == 47.5
    assert client.ask(f"value(h, {CORE}, 72, 1100)") == 0.25
    assert client.error_of(f"group(h, ({CORE}, 2))") == BADPARAM


def test_an_engine_may_know_no_serial_numbers(dcgm: SimulatedDcgm, client: DcgmClient) -> None:
    dcgm.parts.add_cpu(0, first=0, cores=1, serial="0x1A")
    dcgm.release.without_cpu_serials()
    assert client.error_of("cpus(h)") == VER_MISMATCH
    assert client.ask("cpus(h, 1)") == [[0, [0], ""]]


def test_a_field_that_dcgm_has_not_is_refused(dcgm: SimulatedDcgm) -> None:
    with pytest.raises(DcgmFaultError, match="DCGM has no field 49"):
        dcgm.parts.add_switch(0, fields={49: 1})
