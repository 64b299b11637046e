"""Building the simulated library."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simulator import build, dcgm_build
from simulator.compiler import find_compiler


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile without optimisation: what is built when is the same."""
    for flags in ("simulator.build._FLAGS", "simulator.dcgm_build._FLAGS"):
        monkeypatch.setattr(flags, ("-std=gnu11", "-O0", "-fPIC", "-shared", "-pthread"))


def test_a_second_build_is_the_same_file_and_compiles_nothing(
    quickly: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = build.build()
    stamp = first.stat().st_mtime_ns
    assert build.build() == first
    assert first.stat().st_mtime_ns == stamp
    assert [path.name for path in first.parent.iterdir()] == [build.LIBRARY]


def test_builds_at_the_same_time_end_with_one_whole_library(tmp_path: Path) -> None:
    program = (
        "import ctypes; from simulator import build; "
        "print(ctypes.CDLL(build.build()).nvmlShutdown())"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment, text=True
        )
        for _ in range(3)
    ]
    assert [process.communicate(timeout=240)[0] for process in running] == ["1\n"] * 3
    assert len(list(tmp_path.rglob("*"))) == 3  # draguard, nvml-<key>, the library


def test_changed_sources_or_compiler_give_another_file(
    quickly: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mine = shlex.join(find_compiler())
    monkeypatch.setenv("CC", mine)
    first = build.build()
    monkeypatch.setenv("CC", f"{mine} -DOTHER")
    assert build.build() != first


def test_a_change_in_what_both_libraries_have_builds_both_anew(
    quickly: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = {build.build(), dcgm_build.build_library()}
    readers = Path(shutil.copytree(build.READERS, tmp_path / "changed" / "ini"))
    with (readers / "clock.h").open("a", encoding="utf-8") as header:
        header.write("/* changed */\n")
    monkeypatch.setattr(build, "READERS", readers)
    assert before.isdisjoint({build.build(), dcgm_build.build_library()})


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['ziglang'] = None; from simulator import build; build.build()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": str(tmp_path)},
        cwd=Path(build.__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr.endswith("install one, or run: pip install ziglang\n")


def test_a_compiler_that_fails_is_reported_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", f"{shlex.join(find_compiler())} -include no-such-file.h")
    with pytest.raises(build.BuildError, match=r"no-such-file\.h"):
        build.build()
    assert list(tmp_path.rglob(build.LIBRARY)) == []


def test_the_sources_compile_without_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build.build()
    assert capfd.readouterr().err == ""
