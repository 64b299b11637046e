"""The state of this node into checks: `draguard exporter --check`, with remedies."""

import logging
import socket
from collections.abc import Sequence
from pathlib import Path

from draguard.doctor.check import Check, bad, ok, warn
from exporter.flags.parser import parse
from exporter.metrics.counters import CountersError
from exporter.node.capabilities import CAPABILITIES, Capability
from exporter.node.check import check
from exporter.node.own_flags import completed
from exporter.node.surroundings import missing
from exporter.settings import Settings, SettingsError

_WITHOUT_IT = frozenset({"gpu-devices", "pod-resources"})
"""Needs without which there is no data, or no pod to assign it to."""
_PATIENCE = 2.0
"""Seconds for the sensor to take a connection."""


def node_local(flags: Sequence[str], proc: Path = Path("/proc")) -> tuple[Check, ...]:
    """Look at this node, as the exporter of this container does, and with these flags."""
    try:
        settings, _ = parse(completed(["--check", *flags], proc))
    except SettingsError as error:
        return (bad("settings", str(error), "use the flags of the exporter on this node"),)
    logging.disable()  # failures are in the result
    try:
        needs = (_need(row, settings) for row in CAPABILITIES if settings.role in {"run", row.of})
        return (_nvml(settings), _sensor(settings), *needs)
    finally:
        logging.disable(logging.NOTSET)


def _nvml(settings: Settings) -> Check:
    try:
        able, text = check(settings)
    except CountersError as error:
        return bad("counters file", str(error), "correct the file given by --collectors")
    line = next(
        (each for each in text.splitlines() if each.startswith("NVML: ")), "NVML: no output"
    )
    says = line.removeprefix("NVML: ")
    if able:
        return ok("NVML", says)
    return bad(
        "NVML", says, "check that NVIDIA's driver is loaded, and its library in this container"
    )


def _sensor(settings: Settings) -> Check:
    place = str(settings.sensor_socket)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
            tried.settimeout(_PATIENCE)
            tried.connect(place)
    except OSError as error:
        remedy = "check that the sensor container runs; without it the agent has no data"
        return bad("sensor socket", f"{place}: {error.strerror or error}", remedy)
    return ok("sensor socket", place)


def _need(row: Capability, settings: Settings) -> Check:
    about, lacking = f"{row.of}: {row.need}", missing(row.need, settings)
    if not lacking:
        return ok(about, "available")
    says = f"{lacking}; without it these are missing: {row.shows}"
    return (bad if row.need in _WITHOUT_IT else warn)(about, says, row.remedy)
