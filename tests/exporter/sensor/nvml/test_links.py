"""NVLinks through the real NVML child: states, counters, rates, and the fabric."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.model.readings import PeerReading, Values
from exporter.sensor.nvml import link_table as links
from exporter.sensor.nvml.links import Traffic
from simulator.node import SimulatedNode
from tests.exporter.sensor.nvml.child_run import NvmlChild

COUNTERS = ("crc_flit", "crc_data", "replay", "recovery")
PER_LINK = (1525, 1526, 1527, 1528)


@pytest.fixture
def h100() -> Iterator[SimulatedNode]:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create("3xH100", mig={2: ["1g.10gb"]}) as node,
    ):
        yield node


def _set(node: SimulatedNode, gpu: int, link: int, values: dict[str, int | None]) -> None:
    with node.scenario.edit() as scenario:
        scenario.gpus[gpu].links.setdefault(link, {}).update(values)


def test_each_link_says_whether_it_is_up(h100: SimulatedNode) -> None:
    _set(h100, 0, 5, {"state": 0})
    _set(h100, 0, 6, {"state": 2})
    with NvmlChild(h100) as child:
        found = child.gpu(0, (links.STATE,)).links
    assert len(found) == 18
    assert [link.link for link in found if not link.up] == [5]
    assert (found[5].values[links.STATE], found[6].values[links.STATE]) == (0, 2)


@pytest.mark.parametrize("link", range(18))
def test_errors_of_a_link_are_the_links_and_its_lanes(h100: SimulatedNode, link: int) -> None:
    reported = dict(zip(COUNTERS, (11, 12, 13, 14), strict=True))
    _set(h100, 1, link, {**reported})
    lanes = {counter: numbers[link] for counter, numbers in links.ERROR_LANES.items()}
    desired = (*PER_LINK, *lanes.values())
    with NvmlChild(h100) as child:
        gpu = child.gpu(1, desired)
    shown = gpu.links[link].values
    assert tuple(shown[number] for number in PER_LINK) == (11, 12, 13, 14)
    # In NVML's order: replay, recovery, flow control, data.
    assert [gpu.values[lanes[counter]] for counter in range(4)] == [13, 14, 11, 12]
    assert all(set(other.values.values()) <= {0} for other in gpu.links if other.link != link)


def test_totals_are_the_sum_of_the_links(h100: SimulatedNode) -> None:
    _set(h100, 0, 0, {"crc_flit": 1, "replay": 5})
    _set(h100, 0, 17, {"crc_flit": 2, "recovery": 7})
    with NvmlChild(h100) as child:
        values = child.gpu(0, (409, 419, 429, 439, 498, 499)).values
    assert values == {409: 3, 419: 0, 429: 5, 439: 7, 498: 7, 499: 5}


def test_links_of_blackwell_tell_other_counters() -> None:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create("1xB200") as node,
    ):
        _set(node, 0, 3, {"tx_packets": 9, "recovery_failed": 2, "effective_errors": 4})
        _set(node, 0, 4, {"tx_packets": 1})
        with NvmlChild(node) as child:
            gpu = child.gpu(0, (1200, 1212, 1219, 1525, 409))
    assert gpu.links[3].values == {1200: 9, 1212: 2, 1219: 4}
    # DCGM's fields are of the GPU: NVML's answer for all links.
    assert gpu.values == {1200: 10, 1212: 2, 1219: 4}


def test_bandwidth_is_a_rate_and_the_first_pass_has_none(h100: SimulatedNode) -> None:
    desired = (449, 843, 897, 444, 829, 1529, 1530)
    with NvmlChild(h100) as child:
        assert child.gpu(0, desired).values == {}
        # Faster than wires are, so that rounding does not hide the sum.
        _set(h100, 0, 4, {"tx_kib": 30_000_000, "rx_kib": 10_000_000})
        gpu = child.gpu(0, desired)
        again = child.gpu(0, desired)
    values = _whole(gpu.values)
    assert values[449] == pytest.approx(values[843] + values[897], abs=2)
    assert values[843] == pytest.approx(3 * values[897], abs=4)
    assert (values[444], values[829]) == (values[449], values[843])
    link = _whole(gpu.links[4].values)
    assert (link[1529], link[1530]) == (values[449], values[843])
    assert gpu.links[3].values[1529] == 0
    # Nothing more was sent.
    assert set(again.values.values()) == {0}


def test_a_counter_that_began_anew_makes_no_rate(h100: SimulatedNode) -> None:
    _set(h100, 0, 0, {"tx_kib": 1000, "rx_kib": 1000})
    with NvmlChild(h100) as child:
        child.sample((449,))
        _set(h100, 0, 0, {"tx_kib": 10, "rx_kib": 10})
        assert child.gpu(0, (449,)).values == {}
        assert child.gpu(0, (449,)).values == {449: 0}


def test_links_of_a_gpu_in_mig_mode_say_nothing(h100: SimulatedNode) -> None:
    with NvmlChild(h100) as child:
        gpu = child.gpu(2, (409, 419, 429, 439, 449, 400, 1220, 1525))
    assert gpu.links == ()
    assert gpu.values == {}


def test_gpus_say_which_others_they_reach(h100: SimulatedNode) -> None:
    h100.set_value(1, "p2p_status", 3)
    with NvmlChild(h100) as child:
        gpus = child.sample().gpus
        assert gpus[0].peers == (PeerReading(1, 3), PeerReading(2, 0))
        assert gpus[1].peers == (PeerReading(0, 3), PeerReading(2, 3))
        # Queried once for each set of GPUs.
        h100.set_value(1, "p2p_status", 0)
        assert child.gpu(0).peers == gpus[0].peers
        h100.lose(2, gone=True)
        assert child.gpu(0).peers == (PeerReading(1, 0),)


def test_the_fabric_says_how_far_registration_is(h100: SimulatedNode) -> None:
    h100.set_value(0, "fabric_state", 2)
    h100.set_value(1, "fabric_status", 999)
    h100.set_value(2, "fabric_state", None)
    with NvmlChild(h100) as child:
        gpus = child.sample((170, 171)).gpus
    states = [gpu.fabric and (gpu.fabric.state, gpu.fabric.status) for gpu in gpus]
    assert states == [(2, 0), (3, 999), None]
    assert [gpu.values for gpu in gpus] == [{170: 2}, {170: 4}, {}]


def test_without_a_fabric_nothing_is_reported_of_it_but_that(h100: SimulatedNode) -> None:
    h100.set_value(0, "fabric_state", 0)
    with NvmlChild(h100) as child:
        gpus = child.sample(range(170, 176)).gpus
    assert (gpus[0].fabric, gpus[0].values) == (None, {170: 0})
    assert gpus[1].values == {170: 3, 171: 0, 173: 0, 174: 0, 175: 1}


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1e9), st.integers(0, 2**62)), min_size=1, max_size=8))
def test_a_rate_is_never_negative_nor_out_of_bounds(reported: list[tuple[float, int]]) -> None:
    traffic = Traffic()
    rates = [traffic.rate("g", 0, "both", kib, now) for now, kib in reported]
    assert rates[0] is None
    assert all(rate is None or 0 <= rate <= 100_000_000 for rate in rates)


def test_a_rate_is_kibibytes_a_second_by_a_thousand() -> None:
    traffic = Traffic()
    assert traffic.rate("g", 0, "both", 0, 10.0) is None
    assert traffic.rate("g", 0, "both", 6_000_000, 12.0) == 3000
    traffic.keep(set())
    assert traffic.rate("g", 0, "both", 7_000_000, 13.0) is None


def _whole(values: Values) -> dict[int, int]:
    assert all(isinstance(value, int) for value in values.values())
    return {number: int(value) for number, value in values.items()}
