"""Engines of DCGM that end, hang, crash, go blank or say no, under the real supervisor."""

import subprocess
import sys
from pathlib import Path

import pytest

from exporter.model.readings import Hang
from simulator.dcgm_engine import SimulatedDcgm
from simulator.node import SimulatedNode
from tests.exporter.running import HANGS_AFTER, ROOT
from tests.exporter.sensor.dcgm.running import (
    TEMPERATURE,
    Supervised,
    let_go,
    listening,
    simulated,
    uuid,
    values,
)

MEMORY_USED = 252
FIRST, SECOND, MIG = 0, 1, 2


@pytest.fixture
def dcgm(node: SimulatedNode, monkeypatch: pytest.MonkeyPatch) -> SimulatedDcgm:
    return simulated(node, monkeypatch)


@pytest.fixture
def tcp(dcgm: SimulatedDcgm) -> str:
    return listening(dcgm)


@pytest.mark.parametrize("kind", ["blank", "late"])
def test_a_first_sample_without_values_is_not_the_end_of_the_engine(
    dcgm: SimulatedDcgm, kind: str
) -> None:
    dcgm.release.first_sample(kind)  # type: ignore[arg-type] # the table's words are those of the literal
    with Supervised(dcgm) as seen:
        reading = seen.reading()
        assert all(state.source.reason in ("", "Starting") for state in seen.states)
    assert values(reading, uuid(dcgm, FIRST))[TEMPERATURE] == 31


@pytest.mark.parametrize("socket", [True, False])
def test_a_host_engine_is_reached_by_port_and_by_socket(
    dcgm: SimulatedDcgm, tcp: str, *, socket: bool
) -> None:
    path = dcgm.node.root / "hostengine.sock"
    dcgm.listen(str(path))
    with Supervised(dcgm, f"unix://{path}" if socket else tcp) as seen:
        reading = seen.reading(lambda state: values(state, uuid(dcgm, FIRST)))
    assert values(reading, uuid(dcgm, FIRST))[TEMPERATURE] == 31


def test_a_host_engine_that_ends_is_reported_gone_and_found_again(
    dcgm: SimulatedDcgm, tcp: str
) -> None:
    with Supervised(dcgm, tcp) as seen:
        seen.reading()
        dcgm.kill(tcp)
        lost = seen.down("ConnectionLost")
        assert lost.reading is None
        seen.down("EngineUnreachable")
        dcgm.restart(tcp)
        again = seen.wait(lambda state: state.source.up)
    assert again.restarts > 0


def test_an_engine_that_was_restarted_unseen_is_connected_to_again(
    dcgm: SimulatedDcgm, tcp: str
) -> None:
    with Supervised(dcgm, tcp) as seen:
        seen.reading()
        dcgm.restart(tcp)
        seen.down("ConnectionLost")
        reading = seen.reading(lambda state: values(state, uuid(dcgm, FIRST)))
    assert values(reading, uuid(dcgm, FIRST))[TEMPERATURE] == 31


def test_all_fields_of_all_gpus_blank_are_a_state_of_the_engine(
    dcgm: SimulatedDcgm, tcp: str
) -> None:
    with Supervised(dcgm, tcp) as seen:
        seen.reading()
        dcgm.stop_driver_calls(tcp)
        down = seen.down("EngineBlank")
        # It stays so, without a moment of "up" in between.
        later = seen.down("EngineBlank")
        assert not any(state.source.up for state in seen.states[seen.states.index(down) :])
        dcgm.restart(tcp)
        seen.wait(lambda state: state.source.up)
    assert "restart the host engine" in later.source.message


def test_an_embedded_engine_that_went_blank_is_started_again(dcgm: SimulatedDcgm) -> None:
    with Supervised(dcgm) as seen:
        seen.reading()
        dcgm.node.inject_xid(FIRST, 119)
        seen.down("EngineBlank")
        reading = seen.reading(lambda state: values(state, uuid(dcgm, SECOND)))
    # What made it so is reported before it ends.
    assert [signal.code for signal in seen.signals] == [119]
    assert values(reading, uuid(dcgm, SECOND))[TEMPERATURE] == 31


def test_one_blank_gpu_is_not_the_engine(dcgm: SimulatedDcgm) -> None:
    with Supervised(dcgm) as seen:
        seen.reading()
        for field in (TEMPERATURE, 155, 190, MEMORY_USED):
            dcgm.set_field(FIRST, field, "blank")
        reading = seen.reading(lambda state: not values(state, uuid(dcgm, FIRST)))
        seen.reading()
        assert all(state.source.reason in ("", "Starting") for state in seen.states)
    assert values(reading, uuid(dcgm, SECOND))[TEMPERATURE] == 31


def test_a_call_that_hangs_is_named(dcgm: SimulatedDcgm) -> None:
    with Supervised(dcgm, sample_deadline=HANGS_AFTER) as seen:
        seen.reading()
        dcgm.fail("hung", call="dcgmUpdateAllFields")
        # Where patience is short, a machine that stands still may make another call hang before.
        hung = seen.since(lambda state: state.hang == Hang("dcgmUpdateAllFields"))
        dcgm.heal()
        seen.reading()
    assert (hung.source.up, hung.source.reason) == (False, "Hung")
    assert "DCGM hangs in dcgmUpdateAllFields" in hung.source.message


@pytest.mark.parametrize("failure", ["segfault", "abort"])
def test_an_embedded_engine_that_crashes_takes_its_child_and_no_more(
    dcgm: SimulatedDcgm, failure: str
) -> None:
    with Supervised(dcgm) as seen:
        seen.reading()
        dcgm.fail(failure, call="dcgmEntitiesGetLatestValues")
        seen.down("Crashed")
        dcgm.heal()
        seen.reading()


def test_health_is_reported_by_watch_and_code_and_of_the_gpu(dcgm: SimulatedDcgm) -> None:
    dcgm.health.add_incident(FIRST, "thermal", "fail", code=40, text="too hot")
    dcgm.health.add_incident(MIG, "memory", "warn", gi=dcgm.node.gpu(MIG).instances[0].gi, code=4)
    dcgm.health.add_incident(SECOND, "xid", "fail", code=81)
    with Supervised(dcgm) as seen:
        reading = seen.reading()
    assert reading.health is not None
    assert set(reading.gpus) == {uuid(dcgm, index) for index in (FIRST, SECOND, MIG)}
    reported = {
        (
            finding.uuid,
            finding.watch,
            finding.health,
            finding.error_code,
            finding.severity,
            finding.category,
        )
        for finding in reading.health
    }
    hot = ("THERMAL", 20, "DCGM_FR_THERMAL_VIOLATIONS", "TRIAGE", "HARDWARE_THERMAL")
    memory = ("MEM", 10, "DCGM_FR_VOLATILE_DBE_DETECTED", "RESET", "HARDWARE_MEMORY")
    whole = ("ALL", 20, "DCGM_FR_UNCONTAINED_ERROR", "RESET", "HARDWARE_MEMORY")
    assert reported == {
        (uuid(dcgm, FIRST), *hot),
        (uuid(dcgm, MIG), *memory),
        (uuid(dcgm, SECOND), *whole),
    }
    assert "too hot" in {finding.message for finding in reading.health}


def test_health_that_nobody_wants_or_that_cannot_be_queried_is_unknown(dcgm: SimulatedDcgm) -> None:
    with Supervised(dcgm, dcgm_health=False) as seen:
        assert seen.reading().health is None
    dcgm.health.add_incident(FIRST, "thermal", "fail", code=40)
    for call in ("dcgmHealthCheck", "dcgmHealthSet"):
        dcgm.fail("error=-33", call=call)
        with Supervised(dcgm) as seen:
            seen.reading()
            reading = seen.reading()
            assert reading.health is None
            assert values(reading, uuid(dcgm, FIRST))[TEMPERATURE] == 31
            # Not before it is really watched does it say something.
            dcgm.heal()
            assert seen.reading(lambda state: state.health is not None).health


@pytest.mark.parametrize(
    ("call", "code", "logged_text"),
    [
        ("dcgmConnect", -12, "VersionMismatch: bring them to one version"),
        ("dcgmConnect", -21, "EngineUnreachable: start nv-hostengine"),
        ("dcgmInit", -7, "EngineRefused: dcgmInit: DCGM_ST_INIT_ERROR (-7)"),
        ("dcgmFieldGroupCreate", -24, "EngineRefused: DCGM_ST_MAX_LIMIT"),
        ("dcgmWatchFields", -3, "EngineRefused: dcgmWatchFields"),
        ("dcgmGetEntityGroupEntities", -21, "ConnectionLost: connected to again"),
    ],
)
def test_an_engine_that_says_no_is_quoted_with_what_to_do(
    dcgm: SimulatedDcgm, tcp: str, call: str, code: int, logged_text: str
) -> None:
    reason, _, advice = logged_text.partition(": ")
    dcgm.fail(f"error={code}", tcp, call=call)
    # What is about no engine yet fails as the embedded one does.
    dcgm.fail(f"error={code}", call=call)
    with Supervised(dcgm, tcp) as seen:
        down = seen.down(reason)
    assert advice in down.source.message


def test_a_node_without_dcgm_says_how_to_get_it(dcgm: SimulatedDcgm, tmp_path: Path) -> None:
    with Supervised(dcgm, dcgm_library_dir=tmp_path, nvml_library_dir=str(tmp_path)) as seen:
        down = seen.down("LibraryNotFound")
    assert "--dcgm-library-dir" in down.source.message


def test_an_embedded_engine_makes_way_for_the_reset_of_any_gpu(dcgm: SimulatedDcgm) -> None:
    with Supervised(dcgm) as seen:
        seen.reading()
        let_go(seen, f"{uuid(dcgm, FIRST)}\n")
        released = seen.down("Released")
        assert released.reading is None
        seen.settings.release_file.unlink()
        seen.reading()


def test_a_host_engine_is_queried_on_until_the_whole_node_is_released(
    dcgm: SimulatedDcgm, tcp: str
) -> None:
    with Supervised(dcgm, tcp) as seen:
        seen.reading()
        let_go(seen, f"{uuid(dcgm, FIRST)}\n")
        seen.reading()
        seen.reading()
        assert all(state.source.reason in ("", "Starting") for state in seen.states)
        let_go(seen, "")
        seen.down("Released")


def test_the_child_loads_no_other_vendors_library() -> None:
    code = "import exporter.sensor.dcgm.child, sys; print(*{'pynvml', 'grpc'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
