"""What is said where a real node cannot run; building for one stops with the same words."""

import os
from pathlib import Path

import pytest

from simulator.compiler import BuildError
from tests.lab import builds
from tests.lab.node import packages


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
