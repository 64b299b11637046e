"""Hardware that changes under a running exporter: the page follows, and nothing is frozen."""

import os
import signal
import time
from collections.abc import Iterator
from itertools import count

import pytest

from simulator import holdings
from simulator.node import SimulatedNode
from tests.exporter.live.stage import (
    NVML_UP,
    TEXT,
    exporter_of,
    fetch,
    labels_of,
    read_strictly,
    samples,
    simulated,
)
from tests.exporter.running import SOON, Exporter, is_running, wait_for

TEMPERATURE, MEMORY, UTIL = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_GPU_UTIL"
MIG = 2
_temperatures = count(40)


@pytest.fixture
def exporter(node: SimulatedNode) -> Iterator[Exporter]:
    """Three H100, the last one in seven slices; it must end as the process that it began as."""
    release = node.root / "release"
    with exporter_of(node, f"--release-file={release}", "--lost-after=2") as running:
        running.wait_shows(NVML_UP, TEMPERATURE)
        begun = running.pid
        yield running
        assert is_running(begun)


def uuids(exporter: Exporter, family: str) -> list[str]:
    return sorted(labels["UUID"] for labels in labels_of(exporter, family))


def assert_fresh(node: SimulatedNode, exporter: Exporter, *gpus: int) -> None:
    """See that these GPUs are read now: each shows a temperature that nothing had before."""
    reported = {node.gpu(gpu).uuid: float(next(_temperatures)) for gpu in gpus}
    for gpu in gpus:
        node.set_value(gpu, "temperature_c", int(reported[node.gpu(gpu).uuid]))

    def shown() -> bool:
        found = exporter.series(TEMPERATURE).items()
        return all(any(u in series and v == reported[u] for series, v in found) for u in reported)

    wait_for(shown, what=f"new values of {gpus}")


def presence(exporter: Exporter, uuid: str) -> tuple[str, str]:
    """Return (presence, reason) of the only row that there may be."""
    (row,) = samples(exporter, "draguard_gpu_info", UUID=uuid)
    return row["presence"], row.get("reason", "")


def test_a_slice_made_again_under_the_same_number_never_bears_the_old_ones_labels(
    node: SimulatedNode, exporter: Exporter
) -> None:
    old = node.gpu(MIG).instances[3]
    container = holdings.container(plugins=[holdings.plugin("nvidia.com/mig-1g.10gb", old.uuid)])
    node.kubelet.set_pods([holdings.pod("before", container)])
    exporter.wait_shows('pod="before"')
    new = old
    for _ in range(3):
        new = node.recreate_instance(MIG, old.gi)
        wait_for(lambda gi=old.gi, uuid=new.uuid: _live(exporter, gi, uuid), what="the new slice")
        assert new.uuid != old.uuid
        assert not samples(exporter, MEMORY, pod="before")
    container = holdings.container(plugins=[holdings.plugin("nvidia.com/mig-1g.10gb", new.uuid)])
    node.kubelet.set_pods([holdings.pod("after", container)])
    wait_for(lambda: samples(exporter, MEMORY, pod="after"), what="the next pod")
    (row,) = samples(exporter, MEMORY, pod="after")
    assert row["GPU_I_ID"] == str(old.gi)
    assert_fresh(node, exporter, 0, 1, MIG)


def _live(exporter: Exporter, gi: int, uuid: str) -> bool:
    """Return whether the new slice is shown; in no page may it bear the old one's pod."""
    _, page = fetch(exporter, TEXT)
    found = read_strictly(page, TEXT)
    slices = found.get("draguard_mig_slice_info", ())
    part = [labels for labels in slices if labels["GPU_I_ID"] == str(gi)]
    live = [labels["dra_mig_device_uuid"] for labels in part] == [uuid]
    if live:
        assert not [labels for labels in found.get(MEMORY, ()) if labels.get("pod") == "before"]
    return live


def test_slices_that_go_and_come_in_the_middle_of_samples_cost_nothing_else(
    node: SimulatedNode, exporter: Exporter
) -> None:
    node.slow(MIG, 10)
    parts = list(node.gpu(MIG).instances)
    end = time.monotonic() + 4
    for turn in count():
        if time.monotonic() > end:
            break
        part = parts[turn % 7]
        node.destroy_instance(MIG, part.gi)
        read_strictly(fetch(exporter, TEXT)[1], TEXT)
        node.create_instance(MIG, part.profile.name, start=part.start, gi=part.gi)
        assert exporter.shows(NVML_UP, "draguard_nvml_restarts_total 0")
    node.heal(MIG)
    live = {instance.uuid for instance in node.gpu(MIG).instances}

    def reported() -> set[str]:
        rows = labels_of(exporter, "draguard_mig_slice_info")
        return {labels["dra_mig_device_uuid"] for labels in rows}

    wait_for(lambda: reported() == live, what="the slices as they are")
    assert len(samples(exporter, MEMORY, UUID=node.gpu(MIG).uuid)) == 7
    assert_fresh(node, exporter, 0, 1, MIG)


def test_mig_mode_is_switched_on_cut_and_switched_off(
    node: SimulatedNode, exporter: Exporter
) -> None:
    uuid = node.gpu(0).uuid
    node.set_mig(0, on=True)
    wait_for(lambda: not samples(exporter, UTIL, UUID=uuid), what="no utilisation of a MIG GPU")
    assert not samples(exporter, "draguard_mig_slice_info", UUID=uuid)
    part = node.create_instance(0, "3g.40gb")
    wait_for(lambda: samples(exporter, MEMORY, UUID=uuid, GPU_I_PROFILE="3g.40gb"), what="a slice")
    assert [labels.get("GPU_I_ID") for labels in samples(exporter, MEMORY, UUID=uuid)] == [
        str(part.gi)
    ]
    node.set_mig(0, on=False)
    wait_for(lambda: samples(exporter, UTIL, UUID=uuid), what="the whole GPU again")
    assert not samples(exporter, "draguard_mig_slice_info", UUID=uuid)
    assert [labels.get("GPU_I_ID") for labels in samples(exporter, MEMORY, UUID=uuid)] == [None]
    assert_fresh(node, exporter, 0, 1, MIG)


def _await_reason(exporter: Exporter, uuid: str, reason: str, end: float) -> None:
    """Wait until a GPU is unknown for a reason, and `end` is over; it is never anything else."""

    def stays_unknown() -> bool:
        state, why = presence(exporter, uuid)
        assert state == "Unknown", why
        return why == reason and time.monotonic() >= end

    wait_for(stays_unknown, what=reason)


def test_a_gpu_that_is_unbound_and_bound_again_is_never_called_lost(
    node: SimulatedNode, exporter: Exporter
) -> None:
    uuid = node.gpu(1).uuid
    other = {"device": node.gpu(1).pci.lower(), "driver": "none"}
    for take, reason, without in (
        (node.unbind, "SetAside", [other]),
        (node.remove_gpu, "NotOnBus", []),
    ):
        take(1)
        wait_for(lambda: uuid not in uuids(exporter, TEMPERATURE), what="it to be gone")
        end = time.monotonic() + 3  # longer than --lost-after
        _await_reason(exporter, uuid, reason, end)
        assert labels_of(exporter, "draguard_gpu_other_driver") == without
        assert_fresh(node, exporter, 0, MIG)
        node.bind(1)
        wait_for(lambda: presence(exporter, uuid) == ("Present", ""), what="it to be back")
        assert_fresh(node, exporter, 0, 1, MIG)


@pytest.mark.parametrize("left_out", ["released", "hung"])
def test_the_neighbours_of_a_gpu_that_is_left_out_are_read_when_it_is_unbound(
    left_out: str,
) -> None:
    """NVML numbers GPUs anew, and the next one has the number that is left out."""
    with simulated("3xH100") as node:
        release = node.root / "release"
        flags = (f"--release-file={release}", "--lost-after=2", "--hang-retry=600", SOON)
        with exporter_of(node, *flags) as exporter:
            exporter.wait_shows(NVML_UP, TEMPERATURE)
            uuid = node.gpu(0).uuid
            if left_out == "released":
                release.write_text(uuid, encoding="ascii")
                wait_for(lambda: presence(exporter, uuid) == ("Unknown", "Released"))
            else:
                node.hang(0)
                wait_for(lambda: presence(exporter, uuid) == ("Unknown", "Hung"))
            node.unbind(0)
            end = time.monotonic() + 4  # longer than --lost-after
            while time.monotonic() < end:
                assert all(presence(exporter, node.gpu(n).uuid)[0] != "Lost" for n in range(3))
                time.sleep(0.1)
            assert_fresh(node, exporter, 1, 2)
            assert [presence(exporter, node.gpu(n).uuid)[0] for n in (1, 2)] == ["Present"] * 2


def test_a_gpu_on_which_nvml_hangs_is_not_lost_for_a_sensor_that_is_new() -> None:
    with (
        simulated("3xH100") as node,
        exporter_of(node, "--lost-after=2", "--hang-retry=600", SOON) as exporter,
    ):
        exporter.wait_shows(NVML_UP, TEMPERATURE)
        uuid = node.gpu(1).uuid
        node.hang(1)
        wait_for(lambda: presence(exporter, uuid) == ("Unknown", "Hung"))
        sensors = {pid for pid, line in exporter.descendants().items() if "exporter sensor" in line}
        for pid in sensors:
            os.kill(pid, signal.SIGTERM)
        wait_for(lambda: presence(exporter, uuid)[1] == "NotIdentified", what="a new sensor")
        time.sleep(4)  # longer than --lost-after
        assert presence(exporter, uuid) == ("Unknown", "NotIdentified")
        assert_fresh(node, exporter, 0, 2)


def test_a_gpu_that_is_put_in_is_shown_with_its_events(
    node: SimulatedNode, exporter: Exporter
) -> None:
    number = node.add_gpu("H200")
    uuid = node.gpu(number).uuid
    wait_for(lambda: uuid in uuids(exporter, TEMPERATURE), what="the new GPU")
    exporter.wait_shows('draguard_gpus_expected{source="pci"} 4', "draguard_gpus_seen 4")
    assert_fresh(node, exporter, 0, 1, MIG, number)
    node.inject_xid(number, 31, kernel=False)
    wait_for(lambda: samples(exporter, "draguard_xid_errors_total", UUID=uuid, code="31"))


def test_the_driver_is_unloaded_and_another_one_loaded(
    node: SimulatedNode, exporter: Exporter
) -> None:
    node.unload_driver()
    exporter.wait_shows('draguard_source_up{source="nvml",reason="DriverNotLoaded"} 0')
    assert not [line for line in fetch(exporter, TEXT)[1].splitlines() if line[:5] == "DCGM_"]
    assert len(labels_of(exporter, "draguard_gpu_info")) == 3
    assert not labels_of(exporter, "draguard_mig_slice_info")
    node.load_driver("590.44.01")
    exporter.wait_shows(NVML_UP, 'driver_version="590.44.01"')
    wait_for(lambda: samples(exporter, TEMPERATURE, DCGM_FI_DRIVER_VERSION="590.44.01"))
    assert not samples(exporter, TEMPERATURE, DCGM_FI_DRIVER_VERSION="580.95.05")
    assert_fresh(node, exporter, 0, 1, MIG)
    # The driver may also be changed between two samples.
    node.load_driver("590.48.01")
    wait_for(lambda: samples(exporter, TEMPERATURE, DCGM_FI_DRIVER_VERSION="590.48.01"))
    assert_fresh(node, exporter, 0, 1, MIG)
    node.inject_xid(1, 43, kernel=False)
    exporter.wait_count(43, 1)


def test_two_gpus_that_say_one_uuid_are_known_for_it_and_neither_bears_the_others_pod() -> None:
    with simulated("3xH100") as node, exporter_of(node, "--lost-after=600") as exporter:
        exporter.wait_shows(NVML_UP, TEMPERATURE)
        one, other, third = (node.gpu(number).uuid for number in range(3))
        node.kubelet.set_pods(
            holdings.pod(
                name, holdings.container(plugins=[holdings.plugin("nvidia.com/gpu", held)])
            )
            for name, held in (("p", one), ("q", other), ("r", third))
        )
        exporter.wait_shows('pod="p"', 'pod="q"', 'pod="r"')
        node.show_uuid(1, one)
        wait_for(lambda: presence(exporter, one) == ("Unknown", "DuplicateUUID"))
        assert presence(exporter, third) == ("Present", "")
        for family in (TEMPERATURE, MEMORY):
            pods = [row.get("pod", "") for row in labels_of(exporter, family)]
            assert sorted(pods) == ["", "", "r"]
        for family in ("draguard_gpu_up", "draguard_gpu_recovery_action", "draguard_fabric_state"):
            assert uuids(exporter, family) == [third]
        # The kernel's line and NVML's event name it in different ways.
        node.inject_xid(1, 31)
        exporter.wait_count(31, 1)
        (record,) = labels_of(exporter, "draguard_xid_errors_total")
        assert record["UUID"] == other
        node.show_uuid(1, "")
        for uuid, pod in ((one, "p"), (other, "q")):
            wait_for(lambda uuid=uuid: presence(exporter, uuid) == ("Present", ""))
            wait_for(lambda uuid=uuid, pod=pod: samples(exporter, MEMORY, UUID=uuid, pod=pod))
        assert exporter.count(31) == 1
        assert_fresh(node, exporter, 0, 1, 2)


def test_a_release_file_lets_go_of_what_it_names_and_of_nothing_else(
    node: SimulatedNode, exporter: Exporter
) -> None:
    release = node.root / "release"
    named = node.gpu(1)
    child = exporter.nvml_child()
    release.write_text(f"{named.pci.upper()}\n", encoding="ascii")
    wait_for(lambda: presence(exporter, named.uuid) == ("Unknown", "Released"))
    wait_for(lambda: exporter.nvml_child() != child, what="a child that never opened it")
    assert named.uuid not in uuids(exporter, TEMPERATURE)
    assert not samples(exporter, "draguard_gpu_missing")
    assert_fresh(node, exporter, 0, MIG)
    node.inject_xid(0, 43, kernel=False)
    exporter.wait_count(43, 1)

    release.write_text("", encoding="ascii")
    exporter.wait_shows('draguard_source_up{source="nvml",reason="Released"} 0')
    assert not labels_of(exporter, TEMPERATURE)
    lines = exporter.descendants().values()
    assert not [line for line in lines if "exporter.sensor.nvml.child" in line]

    release.unlink()
    wait_for(lambda: presence(exporter, named.uuid) == ("Present", ""))
    assert_fresh(node, exporter, 0, 1, MIG)
    node.inject_xid(1, 43, kernel=False)
    exporter.wait_count(43, 2)
