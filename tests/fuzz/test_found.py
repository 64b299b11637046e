"""What the long runs have found, each as the input that showed it."""

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from exporter import protocol
from exporter.agent.report import ledger
from exporter.metrics.debug_page import debug_page
from exporter.model.node_health import GpuHealth, NodeDeviceHealth, XidRecord
from exporter.model.signals import Signal
from exporter.sensor.kernel_log import cgroups
from exporter.sensor.nvml import link_table
from exporter.sensor.nvml.fields import Fields, Lacking, Tally
from exporter.sensor.nvml.gpu import RECOVERY_ACTION, GpuReader, SampleOptions
from exporter.sensor.nvml.library import Caller, FieldAnswer, NvmlError, number_of
from exporter.sensor.nvml.links import Links, Traffic
from kubeapi import client, store
from remediator.policy.error import PolicyError
from remediator.policy.load import read
from serving import web_config
from tests.exporter.metrics import pages
from tests.exporter.worlds import BUS, START, Sensed, at, gpu, seen
from tests.fuzz import reports, scrapers

WEB = Path("/etc/draguard/web.yml")
DEEP = 100_000


@pytest.mark.parametrize(
    "text", ["!!int ''", "!!float ''", "!!bool maybe", "!!timestamp x", "- " * 20_000]
)
def test_yaml_that_is_not_of_its_tag_is_a_sentence(text: str) -> None:
    with pytest.raises(web_config.WebConfigError, match="web"):
        web_config.parse(text, WEB)


@pytest.mark.parametrize("name", ["X-Frame]Options", "X Y", "a:", "", "é"])
def test_a_header_that_no_client_could_read_is_refused(name: str) -> None:
    text = f"http_server_config: {{headers: {{{name!r}: deny}}}}"
    with pytest.raises(web_config.WebConfigError, match="cannot be sent"):
        web_config.parse(text, WEB)


def test_a_certificate_whose_name_has_a_zero_byte_is_refused() -> None:
    text = 'tls_server_config: {cert_file: "a\\0b", key_file: k}'
    with pytest.raises(web_config.WebConfigError, match="zero byte"):
        web_config.parse(text, WEB)


def test_sixty_marks_are_no_bcrypt_hash() -> None:
    text = f"basic_auth_users: {{alice: '$2y$10${'é' * 53}'}}"
    with pytest.raises(web_config.WebConfigError, match="bcrypt"):
        web_config.parse(text, WEB)


def test_a_frame_nested_without_end_is_refused() -> None:
    body = b"\x82\xa1x" + b"\x91" * DEEP + b"\xc0" + b"\xa4type\xa5hello"
    with pytest.raises(protocol.WireError, match="cannot be read"):
        protocol.decode(body, protocol.to_sensor)


def test_a_frame_with_a_time_of_no_zone_is_refused() -> None:
    frame = protocol.encode(protocol.Happened(Sensed().nvml(1, 79)))[5:]
    protocol.decode(frame, protocol.from_child)
    raw: Any = msgspec.msgpack.decode(frame)
    raw["signal"]["at"] = "2026-01-05T08:00:00"
    with pytest.raises(protocol.WireError, match="timezone"):
        protocol.decode(msgspec.msgpack.encode(raw), protocol.from_child)


def test_a_stored_report_with_a_time_of_no_zone_cannot_be_read() -> None:
    raw = b'{"metadata": {}, "status": {"observedTime": "2026-01-05T08:00:00"}}'
    with pytest.raises(msgspec.DecodeError, match="timezone"):
        msgspec.json.decode(raw, type=NodeDeviceHealth)


@pytest.mark.parametrize(
    "raw", [b'{"metadata": {"name": "\xff"}}', b'{"x":' + b"[" * DEEP + b"]" * DEEP + b"}"]
)
def test_an_object_that_cannot_be_decoded_is_an_error_of_the_api(raw: bytes) -> None:
    with pytest.raises(client.ApiError, match="not an object"):
        store.meta_of(msgspec.Raw(raw))
    assert client.error_of("GET", 500, raw.replace(b"metadata", b"message")).status == 500


def test_a_process_whose_start_time_has_5000_digits_is_not_known() -> None:
    stat = b"7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 " + b"9" * 5000
    assert cgroups.start_time(stat) is None


def test_an_address_that_is_none_is_answered() -> None:
    scrapers.check_head(b"GET http://[/metrics HTTP/1.1\r\nHost: x\r\n\r\n")


class _Same:
    """A library that gives one answer to every field, and has nothing else."""

    def __init__(self, value: float) -> None:
        self._value = value

    def __call__(self, _gpu: int, name: str, *arguments: Any) -> list[FieldAnswer]:
        if name != "nvmlDeviceGetFieldValues":
            raise NvmlError(name, 3, "Not Supported")
        return [
            FieldAnswer(0, self._value) if field == RECOVERY_ACTION else FieldAnswer(3)
            for field, _ in arguments[1]
        ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e308, -1, 2**63])
def test_a_recovery_action_that_makes_no_sense_was_not_reported(value: float) -> None:
    tally = Tally()
    reader = GpuReader(cast("Caller", _Same(value)), tally)
    reported = reader.read(0, "GPU-1", None, reader.begin(), SampleOptions(processes=False))
    assert (reported["recovery_supported"], reported["recovery_action"]) == (None, None)
    assert tally.refused == 1


def test_a_recovery_action_of_0_was_reported() -> None:
    reader = GpuReader(cast("Caller", _Same(0)), Tally())
    reported = reader.read(0, "GPU-1", None, reader.begin(), SampleOptions(processes=False))
    assert (reported["recovery_supported"], reported["recovery_action"]) == (True, 0)


def test_a_sum_of_links_that_is_no_number_any_more_is_left_out() -> None:
    def call(_gpu: int, _name: str, _handle: Any, keys: list[tuple[int, int]]) -> Any:
        summed = number_of("NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY")
        return [FieldAnswer(0, 2**62 if field == summed else 0) for field, _ in keys]

    fields = Fields(cast("Caller", call), 0, None, Lacking(), Tally())
    links = Links("GPU-1", fields, link_table.SUMS, Traffic(), count=3)
    links.read()
    assert links.values == {497: 0, 498: 0}


def test_a_time_at_the_end_of_all_times_is_paired() -> None:
    last = (2**63 - 1, 94)
    reports.check_sequence([("dcgm", last), ("dcgm", last)])


def test_records_that_a_gpus_new_name_leaves_no_room_for_are_counted() -> None:
    def records(first: int) -> tuple[XidRecord, ...]:
        return tuple(
            XidRecord(code=code, count=1, first_seen=START, last_seen=START)
            for code in range(first, first + 200)
        )

    def known(uuid: str, first: int) -> GpuHealth:
        return GpuHealth(
            uuid=uuid,
            presence="Present",
            presence_since=START,
            pci_bus_id=BUS["GPU-1"],
            xids=records(first),
        )

    fresh = ledger.begin("boot-1", "1", START)
    gpus = known("GPU-1", 0), known(f"unknown-{BUS['GPU-1']}", 500)
    after = ledger.observe(msgspec.structs.replace(fresh, gpus=gpus), seen(gpu(1), seconds=1))
    (joined,) = after.gpus
    assert len(joined.xids) == 256
    assert joined.xids_dropped == after.xids_dropped == 144


def test_the_debug_page_has_no_mark_that_steers_a_terminal() -> None:
    stated = debug_page(pages.snapshot(seen(gpu(1), driver="580\x1b[2J\u2028"), node="a\x1bb"))
    assert all(line.isprintable() for line in stated.split("\n"))


def test_a_signal_travels_with_its_time() -> None:
    signal = Signal(kind="xid", source="nvml", at=at(1), code=79)
    frame = protocol.encode(protocol.Happened(signal))[5:]
    assert protocol.decode(frame, protocol.from_child) == protocol.Happened(signal)


@pytest.mark.parametrize(
    "text",
    ['"\\ud800": 1', 'emergency_stop: {by: "\\ud800", why: x}', "budget: {evict: {node: %s}}"],
)
def test_a_policy_that_no_decision_could_use_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(PolicyError, match=r"^line 1: "):
        read(text.replace("%s", "9" * 400))
