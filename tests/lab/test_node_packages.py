"""What is said where a real node cannot run; building for one stops with the same words.

`make verify` says them and passes.
"""

import os
import subprocess
from pathlib import Path

import pytest

from simulator.compiler import BuildError
from tests.lab import builds
from tests.lab.node import packages

ROOT = Path(__file__).parents[2]
NO_ROOT = "import os\nos.geteuid = lambda: 1000\n"


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without root, without a package, and without cgroup v1."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(packages, "PACKAGES", {str(tmp_path / "bin" / "no-such"): "no-package"})
    monkeypatch.setattr(packages, "_V1", tmp_path / "memory")


def test_all_that_is_missing_is_named_with_what_to_do(
    lacking: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert packages.main() == 1

    root, package, groups = capsys.readouterr().err.splitlines()
    assert "root is missing" in root
    assert f"no-package; run: {packages.INSTALL}" in package
    assert "cgroup v1 is missing" in groups


def test_nothing_is_built_for_a_node_that_cannot_run(lacking: None) -> None:
    made = builds.make({"real_node_built": builds.NODE["real_node_built"]}, lambda _: None)

    assert isinstance(made["real_node_built"], BuildError)
    assert "root is missing" in str(made["real_node_built"])


def test_a_program_elsewhere_on_the_path_counts_and_a_plugin_of_that_name_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bridge").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(folder))
    places = {"/nowhere/sbin/bridge": "a program", "/nowhere/cni/bridge": "a plugin"}
    monkeypatch.setattr(packages, "PACKAGES", places)

    assert packages.missing_packages() == ["a plugin"]


def made(target: str, *words: str, **environ: str) -> list[str]:
    """Make a target without setting up; MAKE only prints what it would make. Returns the lines.

    What a make that runs these tests was given is not in the environment.
    """
    ended = subprocess.run(
        ["make", "--old-file=.venv/.installed", target, "MAKE=echo", *words],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environ},
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    return ended.stdout.splitlines()


def test_verify_passes_without_a_real_node_and_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_ROOT)

    *missing, end = made("node-if-possible", PYTHONPATH=str(tmp_path))

    assert "root is missing" in missing[0]
    assert "nothing was tested on a real node" in end


def test_verify_tests_on_a_real_node_where_nothing_is_missing(tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to("/bin/true")

    assert made("node-if-possible", f"BIN={tmp_path}") == ["node"]


@pytest.mark.parametrize(("words", "ends"), [((), True), (("TESTS=tests/lab",), False)])
def test_verify_ends_with_the_real_node_unless_certain_tests_are_named(
    words: tuple[str, ...], ends: bool
) -> None:
    end = made("verify", "--dry-run", *words)[-1]

    assert ("node-if-possible" in end) == ends
