"""What the supervisor knows of DCGM before any child runs."""

from pathlib import Path
from typing import Any

import pytest

from exporter.model.readings import CallNote, DcgmReading, NvmlReading
from exporter.protocol import DcgmSampled, Sampled, SampleRequest
from exporter.sensor.dcgm import options
from exporter.sensor.dcgm.vendor import DcgmVendor
from exporter.settings import Settings
from tests.exporter.worlds import START


def vendor(folder: Path, address: str, **fields: Any) -> DcgmVendor:
    release = folder / "release"
    settings = Settings(node_name="node-a", dcgm=address, release_file=release, **fields)
    return DcgmVendor(settings, lambda: (252, 150))


def test_the_child_gets_the_engine_and_where_both_libraries_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/more")
    folders = {"dcgm_library_dir": Path("/opt/dcgm"), "nvml_library_dir": "/opt/nvml"}
    reported = vendor(tmp_path, "unix:///run/he", interval=7.0, dcgm_health=False, **folders)
    environment = reported.environment()
    assert environment["LD_LIBRARY_PATH"] == "/opt/dcgm:/opt/more"
    assert "/opt/nvml" in environment.values()
    given = options.decode(environment[options.VARIABLE])
    assert given == options.Options(address="unix:///run/he", health=False, interval=7.0)
    assert not given.embedded


def test_without_folders_the_loader_looks_where_it_always_does(tmp_path: Path) -> None:
    assert set(vendor(tmp_path, "embedded").environment()) == {options.VARIABLE}


@pytest.mark.parametrize(
    ("address", "released", "silent"),
    [
        ("embedded", None, False),
        ("embedded", "GPU-a", True),
        ("embedded", "", True),
        ("localhost:5555", None, False),
        ("localhost:5555", "GPU-a", False),
        ("localhost:5555", "", True),
    ],
)
def test_who_holds_all_gpus_makes_way_for_the_reset_of_one(
    tmp_path: Path, address: str, released: str | None, *, silent: bool
) -> None:
    if released is not None:
        (tmp_path / "release").write_text(released, encoding="utf-8")
    one = vendor(tmp_path, address)
    assert one.must_reopen() is silent
    assert (one.withheld() or ("", ""))[0] == ("Released" if silent else "")


def test_no_gpu_is_left_out_of_an_engine_that_is_queried_for_all(tmp_path: Path) -> None:
    one = vendor(tmp_path, "embedded")
    assert one.hung(CallNote(None, "dcgmUpdateAllFields", 9.0), 100.0).call == "dcgmUpdateAllFields"
    assert one.request(101.0) == SampleRequest(requested=(252, 150))
    assert one.remark() == ("", "", None)


def test_only_a_sample_of_dcgms_is_one(tmp_path: Path) -> None:
    one, reading = vendor(tmp_path, "embedded"), DcgmReading(at=START)
    assert one.reading(DcgmSampled(reading), SampleRequest()) is reading
    assert one.reading(Sampled(NvmlReading(at=START)), SampleRequest()) is None
