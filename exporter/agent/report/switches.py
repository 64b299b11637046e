"""One more SXid into the records of the node's NVSwitches.

Only the kernel log tells of them. Bounded in switches, codes and links, so that a
hostile log cannot fill the report. Pure: signals carry their time.
"""

import msgspec

from exporter.model.node_health import SwitchHealth, SxidRecord
from exporter.model.node_health_words import SxidSeverity
from exporter.model.signals import Signal

MAX_SWITCHES = 12
"""Switches kept; an HGX board has four or six, a DGX-2 twelve."""
MAX_CODES = 16
"""Codes kept per switch; beyond, those that are not fatal and rare go first."""
MAX_LINKS = 64
"""Links kept per code; an NVSwitch of the third generation has 64."""
MAX_MESSAGE = 80
"""Characters kept of a line."""


def counted(
    switches: tuple[SwitchHealth, ...], signal: Signal
) -> tuple[tuple[SwitchHealth, ...], int]:
    """Return the switches after a signal of kind `sxid`, and how many records that cost."""
    by_bus = {switch.pci_bus_id: switch for switch in switches}
    old = by_bus.get(signal.bus_id)
    if old is None and len(by_bus) >= MAX_SWITCHES:
        return switches, 1
    by_code = {record.code: record for record in (old.sxids if old else ())}
    by_code[signal.code] = _once_more(by_code.get(signal.code), signal)
    least = sorted(
        by_code.values(),
        key=lambda record: (bool(record.fatal), record.count, record.last_seen.timestamp()),
    )
    going = least[: max(0, len(by_code) - MAX_CODES)]
    kept = tuple(
        by_code[code] for code in sorted(by_code.keys() - {record.code for record in going})
    )
    by_bus[signal.bus_id] = SwitchHealth(pci_bus_id=signal.bus_id, sxids=kept)
    return tuple(by_bus[bus] for bus in sorted(by_bus)), len(by_code) - len(kept)


def worst(switch: SwitchHealth) -> SxidRecord | None:
    """Return the newest fatal record of a switch, None when there is none."""
    fatal = [record for record in switch.sxids if record.fatal]
    return max(fatal, key=lambda record: record.last_seen, default=None)


def _once_more(old: SxidRecord | None, signal: Signal) -> SxidRecord:
    links = () if signal.link is None else (signal.link,)
    if old is None:
        return SxidRecord(
            code=signal.code,
            count=signal.times,
            first_seen=signal.at,
            last_seen=signal.at,
            severity=_severity(signal.fatal),
            links=links,
            message=signal.message[:MAX_MESSAGE],
            sources=(signal.source,),
        )
    return msgspec.structs.replace(
        old,
        count=old.count + signal.times,
        first_seen=min(old.first_seen, signal.at),
        last_seen=max(old.last_seen, signal.at),
        severity=old.severity if old.fatal or signal.fatal is None else _severity(signal.fatal),
        links=tuple(sorted({*old.links, *links})[:MAX_LINKS]),
        message=signal.message[:MAX_MESSAGE] or old.message,
        sources=tuple(sorted({*old.sources, signal.source})),
    )


def _severity(fatal: bool | None) -> SxidSeverity:  # noqa: FBT001 - the value itself
    return "Unknown" if fatal is None else "Fatal" if fatal else "NonFatal"
