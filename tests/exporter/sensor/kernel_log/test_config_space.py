"""What the config space of a GPU says: answers, ones, or nothing that can be known."""

import os
import threading
import time
from pathlib import Path

import pytest

from exporter.sensor.kernel_log import config_space
from exporter.sensor.kernel_log.config_space import SURE, ConfigWatch
from tests.exporter.running import wait_for
from tests.exporter.sensor.kernel_log.test_pci import device

BUS = "0000:18:00.0"
ANSWER = bytes.fromhex("de103023")
"""NVIDIA's vendor id and an H100's, as the kernel gives them."""
ONES = b"\xff" * 4
REST = b"\x00" * 60


def gpu(folder: Path, config: bytes | None = ANSWER + REST, driver: str = "nvidia") -> Path:
    made = device(folder, BUS)
    (made / "driver").symlink_to(f"../../drivers/{driver}")
    if config is not None:
        (made / "config").write_bytes(config)
    return made


def watch(folder: Path) -> ConfigWatch:
    return ConfigWatch(folder, 0.05, lambda: None)


def looked(folder: Path, times: int = SURE) -> dict[str, str]:
    watched = watch(folder)
    for _ in range(times):
        watched.look()
    return dict(watched.answers())


@pytest.mark.parametrize(
    ("ids", "state"),
    [
        (ANSWER, "Answers"),
        (ONES, "AllOnes"),
        (b"\xde\x10\xff\xff", "Answers"),
        (b"\xff\xff\x30\x23", None),
        (b"\x01\x00\xff\xff", None),  # the device asks for more time after a reset
        (b"\0\0\0\0", None),
        (b"\xff\xff", None),
        (b"", None),
    ],
)
def test_what_the_first_bytes_mean(ids: bytes, state: str | None) -> None:
    assert config_space.meaning(ids) == state


@pytest.mark.parametrize(
    ("content", "state"),
    [(ANSWER + REST, "Answers"), (ONES + ONES * 15, "AllOnes"), (ONES[:3], None), (b"", None)],
)
def test_a_file_of_the_kernel_is_read(tmp_path: Path, content: bytes, state: str | None) -> None:
    assert config_space.read(gpu(tmp_path, content)) == state


def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    made = gpu(tmp_path, None)
    assert config_space.read(made) is None
    (made / "config").mkdir()  # reading it fails for root too
    assert config_space.read(made) is None
    assert config_space.read(tmp_path / "not there") is None


@pytest.mark.parametrize(
    ("status", "state"), [("active", "AllOnes"), ("suspended", None), ("unsupported", "AllOnes")]
)
def test_a_gpu_that_sleeps_is_not_woken(tmp_path: Path, status: str, state: str | None) -> None:
    made = gpu(tmp_path, ONES)
    (made / "power").mkdir()
    (made / "power" / "runtime_status").write_text(f"{status}\n")
    assert config_space.read(made) == state


class TestWatch:
    def test_an_answer_counts_at_once_and_ones_only_when_they_stay(self, tmp_path: Path) -> None:
        made = gpu(tmp_path)
        watched = watch(tmp_path)
        watched.look()
        assert watched.answers() == {BUS: "Answers"}
        (made / "config").write_bytes(ONES)
        for _ in range(SURE - 1):
            watched.look()
            assert watched.answers() == {}
        watched.look()
        assert watched.answers() == {BUS: "AllOnes"}

    def test_a_reset_between_two_looks_starts_the_count_anew(self, tmp_path: Path) -> None:
        made = gpu(tmp_path)
        watched = watch(tmp_path)
        for content in (ONES, ONES, ANSWER, ONES, ONES):
            (made / "config").write_bytes(content)
            watched.look()
        assert watched.answers() == {}

    @pytest.mark.parametrize("driver", ["vfio-pci", "nouveau"])
    def test_a_gpu_of_another_driver_is_not_read(self, tmp_path: Path, driver: str) -> None:
        gpu(tmp_path, ONES, driver)
        assert looked(tmp_path) == {}

    def test_a_gpu_of_no_driver_is_not_read(self, tmp_path: Path) -> None:
        (gpu(tmp_path, ONES) / "driver").unlink()
        assert looked(tmp_path) == {}

    def test_a_virtual_function_is_not_read(self, tmp_path: Path) -> None:
        (gpu(tmp_path, ONES) / "physfn").symlink_to(tmp_path)
        assert looked(tmp_path) == {}

    def test_without_a_pci_folder_nothing_is_known(self, tmp_path: Path) -> None:
        assert looked(tmp_path / "not mounted") == {}

    def test_it_looks_by_itself_and_says_what_is_new(self, tmp_path: Path) -> None:
        gpu(tmp_path, ONES)
        received = threading.Event()
        watched = ConfigWatch(tmp_path, 0.05, received.set)
        watched.start()
        try:
            assert received.wait(30)
            assert watched.answers() == {BUS: "AllOnes"}
        finally:
            watched.stop()

    def test_answers_that_nobody_looks_after_any_more_are_withdrawn(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gpu(tmp_path)
        watched = ConfigWatch(tmp_path, 0.0, lambda: None)
        watched.look()
        assert watched.answers() == {BUS: "Answers"}
        monkeypatch.setattr(config_space, "_LATE", 0.0)
        assert watched.answers() == {}

    def test_a_read_that_does_not_come_back_withdraws_what_was_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = gpu(tmp_path)
        watched = watch(tmp_path)
        watched.look()
        monkeypatch.setattr(config_space, "_LATE", 0.05)
        (made / "config").unlink()
        os.mkfifo(made / "config")  # opening it waits for a writer, as the kernel does in a reset
        watched.start()
        try:
            end = threading.Event()
            for _ in range(600):
                if not watched.answers():
                    break
                end.wait(0.05)
            assert watched.answers() == {}
        finally:
            with (made / "config").open("wb"):
                pass  # lets the reader go
            watched.stop()

    def test_looks_that_are_requested_count_no_faster_than_time_does(self, tmp_path: Path) -> None:
        """A reset reads as ones for a moment, and errors of other GPUs ask for looks meanwhile."""
        made, reported = gpu(tmp_path), list[dict[str, str]]()
        watched = ConfigWatch(tmp_path, 30.0, lambda: reported.append(dict(watched.answers())))
        watched.start()
        try:
            wait_for(lambda: reported)
            (made / "config").write_bytes(ONES)
            for _ in range(SURE + 3):
                watched.ask()
                time.sleep(0.02)
            (made / "config").write_bytes(ANSWER + REST)
            time.sleep(0.5)
        finally:
            watched.stop()
        assert {BUS: "AllOnes"} not in reported
