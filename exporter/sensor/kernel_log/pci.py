"""Which NVIDIA GPUs the kernel lists on the PCI bus, whether or not a driver has them.

The count that NVML's is held against: a GPU that the kernel lists and NVML does
not is missing without a word in any log.
"""

from pathlib import Path

from exporter.model.device import normal_bus_id

_NVIDIA = "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302")
"""VGA controller and 3D controller (PCI base class 3); the last byte is the interface."""
_LONGEST = 64
"""Characters of a sysfs value that are looked at."""


def gpus(folder: Path) -> tuple[str, ...] | None:
    """Return the bus ids of NVIDIA's GPUs in a folder like /sys/bus/pci/devices, sorted.

    None when it cannot be read or lists nothing at all. SR-IOV virtual functions are not
    counted; a device that goes while it is looked at is not either.
    """
    try:
        devices = list(folder.iterdir())
        found = [normal_bus_id(device.name) for device in devices if _is_gpu(device)]
    except OSError:
        return None
    if not devices:
        return None
    return tuple(sorted({bus for bus in found if bus is not None}))


def unbound(folder: Path) -> dict[str, str]:
    """Return those of them that NVIDIA's driver does not have, with the driver that has ("": none).

    Drivers such as vfio-pci and nouveau.
    """
    found = {bus: _driver(folder / bus) for bus in gpus(folder) or ()}
    return {bus: driver for bus, driver in found.items() if driver != "nvidia"}


def held(folder: Path) -> tuple[str, ...]:
    """Return those of them that NVIDIA's driver has."""
    return tuple(bus for bus in gpus(folder) or () if _driver(folder / bus) == "nvidia")


def _driver(device: Path) -> str:
    try:
        return (device / "driver").readlink().name[:_LONGEST]
    except OSError:
        return ""


def _is_gpu(device: Path) -> bool:
    try:
        return (
            _value(device / "vendor") == _NVIDIA
            and _value(device / "class").startswith(_GPU_CLASSES)
            and not (device / "physfn").is_symlink()
        )
    except (FileNotFoundError, NotADirectoryError):
        return False


def _value(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(_LONGEST).decode("ascii", "replace").strip().lower()
