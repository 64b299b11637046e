"""Whatever lies at a path in a shared folder, reading it returns at once."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.regular_file import read_regular


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_kernel_log(path: Path) -> None:
    path.symlink_to("/proc/kmsg")


def folder(path: Path) -> None:
    path.mkdir()


def circle(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("put", [fifo, endless, link_to_kernel_log, folder, circle])
def test_what_is_no_file_is_refused_at_once(put: Callable[[Path], None], tmp_path: Path) -> None:
    put(tmp_path / "file")
    with pytest.raises(OSError, match=r"regular file|a link"):
        read_regular(tmp_path / "file", 10)


@pytest.mark.parametrize("put", [fifo, endless, folder, circle])
def test_nor_is_it_read_by_one_who_follows_links(
    put: Callable[[Path], None], tmp_path: Path
) -> None:
    put(tmp_path / "file")
    with pytest.raises(OSError, match=r"regular file|symbolic links"):
        read_regular(tmp_path / "file", 10, follow=True)


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    assert read_regular(tmp_path / "file", 4) == b"0123"
    assert read_regular(tmp_path / "file", 100) == b"0123456789"


def test_a_link_is_followed_only_where_that_is_requested(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_regular(tmp_path / "link", 10, follow=True) == b"x"
    with pytest.raises(OSError, match="a link"):
        read_regular(tmp_path / "link", 10)
