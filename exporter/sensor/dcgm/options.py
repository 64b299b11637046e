"""What the DCGM child gets of the settings, and how. Pure."""

import msgspec

from exporter.model.device_option import Selection, parse_devices
from exporter.settings import Settings

EMBEDDED = "embedded"
UNIX = "unix://"
VARIABLE = "DRAGUARD_DCGM"
"""Environment variable of the child with `Options`, as JSON."""


class Chosen(msgspec.Struct, frozen=True):
    """Which parts of the node beside its GPUs are requested."""

    switches: Selection = Selection()
    cpus: Selection = Selection()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """One engine and what is requested of it."""

    address: str
    """`embedded`, `host:port` or `unix:///path`."""
    health: bool
    interval: float
    """Seconds between samples."""
    chosen: Chosen = Chosen()

    @property
    def embedded(self) -> bool:
        return self.address == EMBEDDED


def options_of(settings: Settings) -> Options:
    switches, cpus = parse_devices(settings.switch_devices), parse_devices(settings.cpu_devices)
    return Options(
        address=settings.dcgm,
        health=settings.dcgm_health,
        interval=settings.interval,
        chosen=Chosen(switches, cpus),
    )


def encode(options: Options) -> str:
    return msgspec.json.encode(options).decode()


def decode(text: str) -> Options:
    return msgspec.json.decode(text, type=Options)
