"""NVLinks on the page: what is a link's by DCGM's table, and what is the GPU's."""

from collections.abc import Mapping

from exporter.model.readings import GpuReading, LinkReading
from tests.exporter.metrics.pages import Series, rendered, shown, snapshot, values
from tests.exporter.worlds import gpu, seen

BYTES = "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES,counter,x"
MALFORMED = "DCGM_FI_DEV_NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS,counter,x"
LINKS = tuple(LinkReading(link=n, values={1201: 10 * n, 1204: n}) for n in (1, 2))


def name(row: str) -> str:
    return row.partition(",")[0]


def show(reading: GpuReading, row: str) -> Mapping[str, Series]:
    return rendered(snapshot(seen(reading), shown=shown(row)))


def test_a_counter_since_nvlink_5_is_the_gpus_as_dcgm_exporter_shows_it() -> None:
    ((labels, value),) = show(gpu(1, links=LINKS, values={1201: 30}), BYTES)[name(BYTES)]
    assert value == 30
    assert labels["UUID"] == "GPU-1"
    assert "nvlink" not in labels


def test_what_the_gpu_does_not_tell_is_not_reported_link_by_link_under_the_same_name() -> None:
    assert name(BYTES) not in show(gpu(1, links=LINKS), BYTES)


def test_errors_since_nvlink_5_are_reported_by_link_under_our_name() -> None:
    found = show(gpu(1, links=LINKS, values={1204: 3}), MALFORMED)
    assert values(found[name(MALFORMED)]) == {"GPU-1": 3}
    reported = {
        (labels["link"], labels["kind"]): n for labels, n in found["draguard_nvlink_errors_total"]
    }
    assert reported == {("1", "malformed"): 1, ("2", "malformed"): 2}
