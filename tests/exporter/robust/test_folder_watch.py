"""A folder whose changes are reported, whether it is there or not."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.sensor.supervisor import folder_watch
from exporter.sensor.supervisor.folder_watch import FolderWatch
from tests.exporter.running import PATIENCE, wait_for


class Reported:
    """Counts, and says what was there at the last notification."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.there: bool | None = None
        self.times = 0
        self.came = threading.Event()

    def __call__(self) -> None:
        self.there = self.file.exists()
        self.times += 1
        self.came.set()


@pytest.fixture
def seen(tmp_path: Path) -> Reported:
    return Reported(tmp_path / "run" / "release")


@pytest.fixture
def watch(seen: Reported) -> Iterator[FolderWatch]:
    found = FolderWatch(seen.file.parent, seen)
    yield found
    found.stop()


def test_a_file_that_comes_and_goes_is_reported_by_the_kernel(
    seen: Reported, watch: FolderWatch
) -> None:
    seen.file.parent.mkdir()
    watch.start()
    assert seen.came.wait(PATIENCE)
    seen.file.touch()
    wait_for(lambda: seen.there)
    seen.file.unlink()
    wait_for(lambda: seen.there is False)


def test_what_happens_is_reported_and_nothing_else(
    seen: Reported, watch: FolderWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that looks again and again, as without the kernel, would report more."""
    monkeypatch.setattr(folder_watch, "_POLL_SECONDS", 0.01)
    seen.file.parent.mkdir()
    watch.start()
    assert seen.came.wait(PATIENCE)
    before = seen.times
    for number in range(20):
        seen.there, seen.file = False, seen.file.with_name(f"file-{number}")
        seen.file.touch()
        wait_for(lambda: seen.there)
    assert seen.times == before + 20


def test_a_folder_that_is_made_later_or_anew_is_seen(seen: Reported, watch: FolderWatch) -> None:
    watch.start()
    seen.file.parent.mkdir()
    seen.file.touch()
    wait_for(lambda: seen.there)
    seen.file.unlink()
    seen.file.parent.rmdir()
    wait_for(lambda: seen.there is False)
    seen.file.parent.mkdir()
    seen.file.touch()
    wait_for(lambda: seen.there)
