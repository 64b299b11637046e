"""What is known of an XID, for a person. Pure."""

from collections.abc import Iterator

from draguard.render.blocks import Block, Cell, Facts, Lines, Table, Text
from draguard.render.policy_page import courses, repair
from draguard.trial.xid import Knowledge

_OTHERWISE = "--lost, --recovery-action 1, --gi 3"


def xid_page(one: Knowledge) -> Iterator[Block]:
    yield Facts(
        (
            ("catalogue", f"{one.mnemonic}: {one.description}"),
            ("NVIDIA: immediate", one.immediate_action or "no guidance"),
            ("NVIDIA: investigatory", one.investigatory_action),
            ("kind", one.xid_class),
            ("class of fault", one.fault or "none by itself"),
            ("repair", repair(one.needs)),
            ("interpretation", one.read_as),
            ("reason", one.note),
        ),
        title=f"XID {one.code}",
    )
    yield Table(
        ("UNIT", "REASON", "ERROR STATUS", "ACTION", "SEVERITY", "ORIGIN", "EFFECT"),
        tuple(
            (
                sub.unit,
                sub.reason,
                sub.error_status,
                sub.action,
                sub.severity,
                sub.origin,
                sub.effect,
            )
            for sub in one.sub_codes
        ),
        title="NVLink5 sub-codes, by the hex words of the line",
    )
    yield Facts(tuple(_verdict(one)), title="Response of Draguard")
    yield from courses(one.course)
    yield Lines(
        (f"for other conditions ({_OTHERWISE}): draguard policy explain --xid {one.code} ...",)
    )


def _verdict(one: Knowledge) -> Iterator[tuple[str, Text]]:
    told = one.course
    yield "policy", one.policy
    yield "signal", f"{told.signal}, alone"
    yield "verdict", f"{told.verdict}{f': {told.why}' if told.why else ''}"
    for fault in told.faults:
        row = fault.row
        yield "class", f"{fault.fault_class} ({fault.cause})"
        yield "mode", f"{row.mode}, ceiling {row.ceiling} (row {row.name})"
        yield "evidence", "complete" if fault.certain else Cell(f"not complete: {fault.doubt}")
    if not told.faults:
        yield "action", "none: this signal alone is not a fault"
    for held in told.held:
        yield "deferred", Cell(held, "warn")
