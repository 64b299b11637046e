"""What is known of an XID as a page. Pure."""

from collections.abc import Iterator

import msgspec

from draguard.render.blocks import Block, Cell, Facts, Lines, Table, Text
from draguard.render.policy_page import course_tables, repair
from draguard.trial.xid import Knowledge


def xid_page(found: Knowledge) -> Iterator[Block]:
    yield Facts(
        (
            ("catalogue", f"{found.mnemonic}: {found.description}"),
            ("NVIDIA: immediate", found.immediate_action or "no guidance"),
            ("NVIDIA: investigatory", found.investigatory_action),
            ("kind", found.xid_class),
            ("class of fault", found.fault or "none by itself"),
            ("repair", repair(found.needs)),
            ("interpretation", found.read_as),
            ("reason", found.note),
        ),
        title=f"XID {found.code}",
    )
    yield Table(
        ("UNIT", "REASON", "ERROR STATUS", "ACTION", "SEVERITY", "ORIGIN", "EFFECT"),
        tuple(msgspec.structs.astuple(sub_code) for sub_code in found.sub_codes),
        title="NVLink5 sub-codes, by the hex words of the line",
    )
    yield Facts(tuple(_response(found)), title="Response of Draguard")
    yield from course_tables(found.course)
    flags = "--lost, --recovery-action 1, --gi 3, --kernel-log syslog"
    alone = (f"the XID alone: draguard policy explain {found.alone}",) if found.alone else ()
    other = f"for other conditions ({flags}): draguard policy explain --xid {found.code} ..."
    yield Lines((*alone, other))


def _response(found: Knowledge) -> Iterator[tuple[str, Text]]:
    course = found.course
    yield "policy", found.policy
    yield "signal", course.signal
    yield "assumed", "the XID with what usually comes with it" if found.alone else "the XID alone"
    yield "kernel log", found.kernel_log
    yield "verdict", f"{course.verdict}{f': {course.why}' if course.why else ''}"
    for fault in course.faults:
        row = fault.row
        yield "class", f"{fault.fault_class} ({fault.cause})"
        yield "mode", f"{row.mode}, ceiling {row.ceiling} (row {row.name})"
        yield "evidence", "complete" if fault.certain else Cell(f"not complete: {fault.doubt}")
    if not course.faults:
        yield "action", "none: this signal alone is not a fault"
    if found.alert:
        page = f"alerts/runbooks/{found.alert}.md"
        ticket = f"{found.alert}, a ticket: Draguard does not know this code; runbook: {page}"
        yield "alert", Cell(ticket, "warn")
    for why in course.deferred:
        yield "deferred", Cell(why, "warn")
