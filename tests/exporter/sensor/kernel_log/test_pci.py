"""Which GPUs the kernel lists."""

from pathlib import Path

import pytest

from exporter.sensor.kernel_log import pci


def device(folder: Path, address: str, vendor: str = "0x10de", kind: str = "0x030200") -> Path:
    made = folder / address
    made.mkdir(parents=True)
    (made / "vendor").write_text(f"{vendor}\n")
    (made / "class").write_text(f"{kind}\n")
    return made


def test_the_gpus_of_nvidia_are_listed_in_order(tmp_path: Path) -> None:
    device(tmp_path, "0000:2a:00.0")
    device(tmp_path, "0000:18:00.0", kind="0x030000")
    device(tmp_path, "10000:01:00.0")
    assert pci.gpus(tmp_path) == ("0000:18:00.0", "0000:2a:00.0", "10000:01:00.0")


@pytest.mark.parametrize(
    ("vendor", "kind"),
    [
        ("0x10de", "0x068000"),  # an NVSwitch is a bridge
        ("0x10de", "0x040300"),  # a GPU's own sound
        ("0x10de", "0x038000"),
        ("0x1002", "0x030000"),
        ("garbage", "\0\0"),
        ("", ""),
    ],
)
def test_other_devices_are_not(tmp_path: Path, vendor: str, kind: str) -> None:
    device(tmp_path, "0000:18:00.0", vendor, kind)
    assert pci.gpus(tmp_path) == ()


def test_a_virtual_function_is_its_gpu_again_and_not_counted(tmp_path: Path) -> None:
    whole = device(tmp_path, "0000:18:00.0")
    (device(tmp_path, "0000:18:00.4") / "physfn").symlink_to(whole)
    (device(tmp_path, "0000:19:00.0") / "physfn").symlink_to(whole)
    assert pci.gpus(tmp_path) == ("0000:18:00.0",)


def test_a_device_that_goes_while_it_is_looked_at_costs_no_other(tmp_path: Path) -> None:
    device(tmp_path, "0000:18:00.0")
    (tmp_path / "0000:19:00.0").mkdir()
    (tmp_path / "0000:1a:00.0").symlink_to(tmp_path / "gone")
    (tmp_path / "a file").touch()
    assert pci.gpus(tmp_path) == ("0000:18:00.0",)


def test_gpus_that_another_driver_or_none_has_are_distinguished(tmp_path: Path) -> None:
    for address, driver in (("18", "nvidia"), ("19", "vfio-pci"), ("1a", ""), ("1b", "nouveau")):
        made = device(tmp_path, f"0000:{address}:00.0")
        if driver:
            (made / "driver").symlink_to(f"../../drivers/{driver}")
    assert pci.unbound(tmp_path) == {
        "0000:19:00.0": "vfio-pci",
        "0000:1a:00.0": "",
        "0000:1b:00.0": "nouveau",
    }
    assert pci.unbound(tmp_path / "missing") == {}


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    assert pci.gpus(tmp_path / "missing") is None
    vendor = device(tmp_path, "0000:18:00.0") / "vendor"
    vendor.unlink()
    vendor.mkdir()  # reading it fails for root too
    assert pci.gpus(tmp_path) is None
