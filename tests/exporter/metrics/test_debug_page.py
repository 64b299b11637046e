"""`/debug` of nodes made by hand: what a person finds there."""

from datetime import timedelta
from typing import get_args

from exporter.agent.join.claims import Holders
from exporter.agent.join.device_resolution import Miss
from exporter.agent.report import ledger
from exporter.metrics.debug_page import MISSES, debug_page
from exporter.metrics.snapshot import Snapshot
from exporter.model.node_health import SourceHealth
from tests.exporter.metrics.pages import held, holder, snapshot
from tests.exporter.worlds import START, Sensed, at, gpu, mig_gpu, seen


def section(page: str, title: str) -> list[str]:
    """Return the rows below a title and its head line."""
    (block,) = [part for part in page.split("\n\n") if part.startswith(title)]
    return block.splitlines()[2:]


def test_sources_say_what_to_do() -> None:
    down = SourceHealth(
        name="resourceslices", state="Down", reason="Unreachable", message="see the API server"
    )
    rows = section(debug_page(snapshot(seen(gpu()), agent_sources=(down,))), "SOURCES (2)")
    assert rows[0].split()[:2] == ["nvml", "up"]
    assert rows[1].split()[:3] == ["resourceslices", "DOWN", "Unreachable"]
    assert rows[1].endswith("see the API server")


def test_gpus_and_slices_are_listed_as_known() -> None:
    page = debug_page(snapshot(seen(gpu(1, recovery_action=1), mig_gpu(2))))
    assert [row.split()[:6] for row in section(page, "GPUS (2)")] == [
        ["0", "GPU-1", "0000:01:00.0", "Present", "-", "1"],
        ["1", "GPU-2", "0000:02:00.0", "Present", "-", "0"],
    ]
    assert [row.split()[:4] for row in section(page, "MIG SLICES (2)")] == [
        ["GPU-2", "3", "0", "1g.10gb"],
        ["GPU-2", "5", "0", "1g.10gb"],
    ]


def reasons(page: str) -> dict[str, str]:
    rows = section(page, "DEVICES WITHOUT A POD'S LABELS")
    return {row.split()[0]: " ".join(row.split()[1:]) for row in rows}


def test_it_says_for_each_device_why_no_pod_is_named() -> None:
    holders = held(
        GPU_1=(holder("a"),),
        GPU_2=(holder("a"), holder("b")),
        GPU_3=(holder("monitor", admin=True),),
    )
    page = debug_page(snapshot(seen(gpu(1), gpu(2), gpu(3), gpu(4)), holders=holders))
    assert reasons(page) == {
        "GPU-2": "shared by 2 holders: see draguard_device_allocation_info",
        "GPU-3": "allocated with admin access only, which owns nothing",
        "1": "more not allocated",
    }


def test_a_source_that_is_down_is_the_reason() -> None:
    down = SourceHealth(name="podresources", state="Down", reason="NotFound")
    page = debug_page(snapshot(seen(gpu()), agent_sources=(down,)))
    assert reasons(page) == {"GPU-1": "podresources is down (NotFound)"}


def test_each_miss_has_a_sentence() -> None:
    assert set(MISSES) == set(get_args(Miss))
    holders = Holders(misses=(("not_live", "gpu.nvidia.com/node-a/gpu-0-mig-1g10gb-19-0"),))
    (row,) = section(
        debug_page(snapshot(seen(gpu()), holders=holders)), "HOLDS WITHOUT A DEVICE (1)"
    )
    assert row.split()[:2] == ["gpu.nvidia.com/node-a/gpu-0-mig-1g10gb-19-0", "not_live"]
    assert row.endswith(MISSES["not_live"])


def with_xids(*lines: tuple[int, str]) -> Snapshot:
    sensed = Sensed()
    signals = [
        sensed.kmsg(number, code, message=message) for number, (code, message) in enumerate(lines)
    ]
    report = ledger.observe(ledger.begin("boot-1", "1", START), seen(gpu()))
    report = ledger.take(report, signals, run="run-1", kernel_sequence=None)
    return Snapshot(node="node-a", at=at(30), report=report)


def test_the_last_xids_come_first_with_what_they_mean() -> None:
    rows = section(
        debug_page(with_xids((31, "MMU Fault"), (79, "off the bus"))), "LAST 20 XIDS (2)"
    )
    assert [row.split()[0] for row in rows] == [
        (START + timedelta(seconds=1)).isoformat(),
        START.isoformat(),
    ]
    assert " 79 " in rows[0]
    assert rows[0].endswith("off the bus")
    assert rows[1].endswith("MMU Fault")


def test_the_hex_words_of_nvlink_errors_are_read() -> None:
    line = (
        "RLW_SRC_TRACK Nonfatal XC1 i0 Link 10 "
        "(0x04082907 0x00000008 0x00000000 0x00000000 0x00000000 0x00000000)"
    )
    (row,) = section(debug_page(with_xids((145, line))), "LAST 20 XIDS (1)")
    assert "[RLW_SRC_TRACK: " in row
    assert row.endswith(line)


def test_what_a_process_calls_itself_cannot_steer_a_terminal() -> None:
    page = debug_page(with_xids((31, "\x1b[2J\rgone")))
    assert "\x1b" not in page
    assert "\r" not in page


def test_a_node_of_which_nothing_is_known_has_a_page() -> None:
    page = debug_page(Snapshot(node="node-a", at=START, report=ledger.begin("", "1", START)))
    assert page.startswith("node node-a, boot not known, driver not known")
    assert "GPUS (0)" in page
