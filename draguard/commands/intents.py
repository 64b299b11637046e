"""`draguard hold`, `ignore` and `confirm-repaired`: three intents for a GPU, as one table.

Each is a field of the incident's spec that the remediator reads (`remediator.model.intent`).
"""

import argparse
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import msgspec

from draguard.cluster.decide import case_of
from draguard.cluster.incidents import NoIncidentError, find_incident
from draguard.cluster.intents import (
    FOREVER,
    IntentChange,
    WrongIntentError,
    before_in_words,
    callers_intent,
    change_of,
    check,
    confirmation_refusal,
    until_in_words,
    until_of,
    write,
)
from draguard.cluster.leader import leader_of
from draguard.cluster.reading import Reader, left_out
from draguard.connection.session import add_cluster_flags, confirmed, print_error, run_with_client
from draguard.exit_status import DONE, PROBLEM
from draguard.render.blocks import Cell, Facts
from draguard.render.consequences import QUESTION, consequences
from draguard.render.formats import add_output_flag, print_result
from draguard.render.help_text import Example, teaching
from kubeapi import clock
from kubeapi.client import ApiError, Client
from remediator.model.incident import Incident
from remediator.model.intent import FIELDS, Kind
from remediator.plan.case import Case


class IntentCommand(msgspec.Struct, frozen=True, kw_only=True):
    command: str
    kind: Kind
    description: str
    examples: tuple[Example, ...]
    endless: bool
    """Whether it may be without an end."""
    standard: str = ""
    """The end if the user gives none; "": one is required."""
    means: str
    untaints: bool = False
    """It removes existing taints, so the command shows the consequences and asks."""
    refusal: Callable[[Incident, Case | None], str] | None = None
    """Says why it would change nothing now, "" if it would."""


HOLD = IntentCommand(
    command="hold",
    kind="Hold",
    description="Pause Draguard on the GPU of an incident until the given time: no new taint, no\n"
    "stronger taint, no eviction. Existing taints stay, and recovery continues.",
    examples=(
        Example("draguard hold INCIDENT --until 4h --reason 'a run must end'", "for four hours"),
        Example("draguard hold GPU-2fa8... --until 2030-07-30T18:00:00Z --reason x", "by GPU UUID"),
        Example("draguard hold INCIDENT --remove", "remove the hold"),
    ),
    endless=False,
    means="no new taint and no eviction on this GPU until then; existing taints stay",
)
IGNORE = IntentCommand(
    command="ignore",
    kind="Ignore",
    description="Take no action on the fault of an incident until the given time. The remediator\n"
    "removes its taints from this GPU at once. After that time the fault counts again. If\n"
    "there are taints, the command asks for confirmation, as `draguard untaint` does.",
    examples=(
        Example("draguard ignore INCIDENT --until 2d --reason 'a test board'", "for two days"),
        Example("draguard ignore INCIDENT --forever --reason 'a test board'", "forever"),
        Example("draguard ignore INCIDENT --remove", "let the fault count again now"),
    ),
    endless=True,
    untaints=True,
    means="the remediator removes its taints from this GPU now; the fault counts again at the end",
)
CONFIRM_REPAIRED = IntentCommand(
    command="confirm-repaired",
    kind="RepairConfirmed",
    description="Confirm the repair of a GPU that Draguard does not untaint after recovery alone.\n"
    "The soak time still applies. A later signal overtakes the confirmation. Refused if it\n"
    "would change nothing: the GPU is still sick, or needs no confirmation.",
    examples=(
        Example(
            "draguard confirm-repaired INCIDENT --reason 'new board, ticket 47'",
            "the repair is done",
        ),
        Example("draguard confirm-repaired INCIDENT --remove", "remove the confirmation"),
    ),
    endless=True,
    standard=FOREVER,
    refusal=confirmation_refusal,
    means="the GPU is untainted after its soak time, unless a later signal arrives",
)


def run(row: IntentCommand, arguments: Sequence[str]) -> int:
    """Return 0 if it is written; 1 if it does not fit the incident; 2 without access."""
    parser = _parser(row)
    options = parser.parse_args(arguments)
    given = (FOREVER if options.forever else None, options.until, options.length)
    ends = next((end for end in given if end is not None), row.standard)
    if not (ends or options.remove):
        endless = ", or --forever" if row.endless else ""
        parser.error(f"an end time is required: --until 4h, --until 2030-07-30T18:00:00Z{endless}")
    if not (options.reason.strip() or options.remove):
        parser.error("a reason is required: --reason TEXT")
    try:
        until_of(ends, clock.now()) if ends else None
    except WrongIntentError as error:
        parser.error(f"{'--until' if options.until else '--for'}: {error}")
    options.ends = "" if options.remove else ends
    return run_with_client(row.command, options, lambda client: _change(row, client, options))


hold = partial(run, HOLD)
ignore = partial(run, IGNORE)
confirm_repaired = partial(run, CONFIRM_REPAIRED)


def _parser(row: IntentCommand) -> argparse.ArgumentParser:
    parser = teaching(
        row.command,
        row.description,
        row.examples,
        more="The command writes it to the incident's spec, with your user name.",
    )
    until = "[--until WHEN]" if row.standard else "--until WHEN"
    parser.usage = f"{parser.prog} INCIDENT {until} --reason TEXT [FLAGS]"
    parser.add_argument(
        "incident",
        metavar="INCIDENT",
        help="incident name, such as gpu-2fa81118-1, or UUID of its GPU",
    )
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="required; shown in the incident"
    )
    times = parser.add_mutually_exclusive_group()
    times.add_argument(
        "--until",
        metavar="WHEN",
        help="a duration from now, such as 4h, or a time, such as 2030-07-30T18:00:00Z",
    )
    times.add_argument("--for", dest="length", metavar="WHEN", help="same as --until")
    if row.endless:
        standard = " (the default)" if row.standard == FOREVER else ""
        times.add_argument("--forever", action="store_true", help=f"no end time{standard}")
    times.add_argument("--remove", action="store_true", help="remove it")
    parser.set_defaults(forever=False)
    parser.add_argument("--overwrite", action="store_true", help="replace the existing one")
    if row.untaints:
        parser.add_argument("--yes", action="store_true", help="do not ask before removing taints")
    add_output_flag(parser)
    add_cluster_flags(parser)
    return parser


def _change(row: IntentCommand, client: Client, options: argparse.Namespace) -> int:
    reader = Reader(client, options.namespace)
    objects = reader.objects("incidents")
    try:
        incident = find_incident(options.incident, objects.incidents)
        intent = callers_intent(client, options.ends, options.reason) if options.ends else None
        change = change_of(row.kind, incident, intent)
        check(change, incident, overwrite=options.overwrite)
        if row.refusal and intent and (why := row.refusal(incident, case_of(reader, incident))):
            raise WrongIntentError(why)
        taints = [f"{rule.effect} on {rule.device}" for rule in incident.status.rules]
        if row.untaints and intent and taints and not options.yes:
            case = case_of(reader, incident)
            facts = consequences(incident, case, taints, intent.until, objects.at)
            if not confirmed(row.command, facts, QUESTION, yes=False):
                return PROBLEM
        write(client, incident, change, overwrite=options.overwrite)
    except (NoIncidentError, WrongIntentError) as error:
        print_error(row.command, f"{error}{left_out(objects)}")
        return PROBLEM
    change = msgspec.structs.replace(change, unheard=_not_applied_yet(reader) if intent else "")
    print_result(change, options.output, lambda: (_facts(row, change, objects.at),))
    return DONE


def _not_applied_yet(reader: Reader) -> str:
    """Say why no remediator applies it now, "" if one leads or that cannot be seen."""
    try:
        objects = reader.objects("leases")
    except ApiError:
        return ""
    problem = leader_of(objects.leases, objects.at).problem
    return f"{problem}; takes effect once a remediator runs" if problem else ""


def _facts(row: IntentCommand, change: IntentChange, now: datetime) -> Facts:
    if change.intent is None:
        return Facts((("incident", change.incident), ("removed", change.before)))
    intent = change.intent
    same = change.before == before_in_words(change.kind, intent)
    return Facts(
        (
            ("incident", change.incident),
            ("wrote", f"spec.{FIELDS[change.kind]}"),
            ("until", until_in_words(intent, now)),
            ("by", f"{intent.by} (your user name)"),
            ("reason", intent.reason),
            ("replaces", "" if same else change.before),
            ("effect", row.means),
            ("note", Cell(change.unheard, "warn")),
        )
    )
