"""The pins: everything that is installed has one version and the hashes of its files."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from deploy import locks

ROOT = locks.ROOT
PINS = locks.pinned(locks.CONSTRAINTS.read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = ",".join(PROJECT["project"]["optional-dependencies"])
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}\b")


def test_every_pinned_package_has_one_version_and_a_hash() -> None:
    assert len(PINS) > 50
    for name, block in PINS.items():
        (version,) = Requirement(block.partition("\\")[0].strip()).specifier
        assert version.operator == "==", name
        assert HASH.search(block), name


def test_what_the_project_needs_for_running_testing_and_building_is_pinned() -> None:
    requirements = (
        f"draguard[{EXTRAS}]",
        *PROJECT["dependency-groups"]["dev"],
        *PROJECT["build-system"]["requires"],
    )

    assert locks.needed(requirements) <= set(PINS)


@pytest.mark.parametrize("name", locks.LISTS)
def test_a_list_has_all_that_its_target_needs_and_nothing_of_the_tests(name: str) -> None:
    listed = locks.pinned((locks.FOLDER / name).read_text(encoding="utf-8"))

    assert set(listed) == locks.needed(locks.LISTS[name])
    assert not {"pytest", "grpcio", "grafanalib", "hypothesis"} & set(listed)
    for package, block in listed.items():
        assert block == PINS[package]


def test_the_node_does_not_carry_the_packages_of_the_controller() -> None:
    listed = locks.pinned((locks.FOLDER / "exporter.txt").read_text(encoding="utf-8"))

    assert not {"kubernetes", "pydantic", "rich"} & set(listed)


def test_a_package_with_another_hash_is_refused(tmp_path: Path) -> None:
    other = HASH.sub(f"--hash=sha256:{'0' * 64}", PINS["msgspec"])
    (tmp_path / "other.txt").write_text(other, encoding="utf-8")

    done = subprocess.run(
        [
            *(sys.executable, "-m", "uv", "pip", "install", "--system-certs", "--no-deps"),
            *("--require-hashes", "--target", tmp_path / "site", "-r", tmp_path / "other.txt"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode
    assert "Hash mismatch" in done.stderr


def test_a_package_that_is_not_pinned_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    less = tmp_path / "constraints.txt"
    less.write_text("".join(block for name, block in PINS.items() if name != "h2"), "utf-8")
    monkeypatch.setattr(locks, "CONSTRAINTS", less)

    with pytest.raises(locks.NotPinnedError, match="does not pin h2: run `make lock`"):
        locks.texts()
