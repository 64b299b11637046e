"""What ships: the wheel holds our packages with their data, and works away from the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.verify

ROOT = Path(__file__).parents[1]
PACKAGES = {"allocation", "exporter", "remediator", "kubeapi", "serving", "draguard", "simulator"}
DATA = {
    "exporter/data/xid_catalog.csv",
    "simulator/cluster/go/main.go",
    "simulator/cluster/go/go.sum",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        check=True,
        cwd=ROOT,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_our_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    top = {name.split("/", 1)[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == PACKAGES
    assert set(names) >= DATA
    for folder in ("ini", "nvml", "dcgm"):
        assert any(
            name.startswith(f"simulator/{folder}/") and name.endswith(".c") for name in names
        )


def test_the_wheel_works_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    script = (
        "import exporter, exporter.model.xid as xid\n"
        "print(exporter.__file__, xid.lookup(79).xid_class)"
    )

    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    where, fault_class = ran.stdout.split()
    assert Path(where).is_relative_to(site)
    assert fault_class == "lost"
