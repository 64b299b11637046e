"""`draguard hold`, `ignore` and `confirm-repaired`: three intents for a GPU, as one table.

Each is a field of the incident's spec that the remediator reads (`remediator.model.intent`).
"""

import argparse
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import msgspec

from draguard.cluster.decide import case_of
from draguard.cluster.incidents import NAMES, NoIncidentError, find_incidents
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
from draguard.cluster.stored_incidents import incident_names
from draguard.connection.cluster_flags import add_cluster_flags
from draguard.connection.errors import sentence
from draguard.connection.session import confirmed, print_error, run_with_client
from draguard.exit_status import DONE, PROBLEM
from draguard.render.blocks import Cell, Facts
from draguard.render.consequences import consequences, questions
from draguard.render.formats import add_output_flag, print_result
from draguard.render.help_text import Example, teaching
from kubeapi import clock
from kubeapi.client import ApiError, Client
from remediator.model.incident import Incident, with_intent
from remediator.model.intent import FIELDS, Kind
from remediator.plan.board import Board


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
    refusal: Callable[[Incident, Board | None], str] | None = None
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
    "removes its taints from this GPU at once. After that time the fault counts again; a\n"
    "fault of a worse class counts at once. If there are taints, the command\n"
    "asks for confirmation, as `draguard untaint` does.",
    examples=(
        Example("draguard ignore INCIDENT --until 2d --reason 'a test board'", "for two days"),
        Example("draguard ignore INCIDENT --forever --reason 'a test board'", "forever"),
        Example("draguard ignore INCIDENT --remove", "let the fault count again now"),
    ),
    endless=True,
    untaints=True,
    means="the remediator removes its taints from this GPU now; the fault counts again at the end, "
    "and a worse one at once",
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
    """Return 0 if all is written; 1 if it does not fit an incident; 2 without access."""
    flags = _parser(row)
    options = flags.parse_args(arguments)
    given = (FOREVER if options.forever else None, options.until, options.length)
    ends = next((end for end in given if end is not None), row.standard)
    if not (ends or options.remove):
        endless = ", or --forever" if row.endless else ""
        flags.error(f"an end time is required: --until 4h, --until 2030-07-30T18:00:00Z{endless}")
    if not (options.reason.strip() or options.remove):
        flags.error("a reason is required: --reason TEXT")
    try:
        until_of(ends, clock.now()) if ends else None
    except WrongIntentError as error:
        flags.error(f"{'--until' if options.until else '--for'}: {error}")
    options.ends = "" if options.remove else ends
    return run_with_client(row.command, options, lambda client: _change(row, client, options))


def _parser(row: IntentCommand) -> argparse.ArgumentParser:
    taught = teaching(
        row.command,
        row.description,
        row.examples,
        more="The command writes it to the incident's spec, with your user name.",
    )
    until = "" if row.standard else f"--until WHEN{'|--forever' if row.endless else ''} "
    taught.usage = (
        f"{taught.prog} INCIDENT... {until}--reason TEXT [FLAGS]\n"
        f"       {taught.prog} INCIDENT... --remove [FLAGS]"
    )
    taught.add_argument(
        "incidents",
        nargs="+",
        metavar="INCIDENT",
        help=NAMES,
    )
    taught.add_argument(
        "--reason",
        default="",
        metavar="TEXT",
        help="required, except with --remove; shown in the incident",
    )
    times = taught.add_mutually_exclusive_group()
    times.add_argument(
        "--until",
        metavar="WHEN",
        help="a duration from now, such as 4h, or a time, such as 2030-07-30T18:00:00Z",
    )
    times.add_argument("--for", dest="length", metavar="WHEN", help="same as --until")
    if row.endless:
        standard = " (the default)" if row.standard == FOREVER else ""
        times.add_argument("--forever", action="store_true", help=f"no end time{standard}")
    times.add_argument("--remove", action="store_true", help="end the existing one")
    taught.set_defaults(forever=False, yes=False)
    taught.add_argument("--overwrite", action="store_true", help="replace the existing one")
    if row.untaints:
        taught.add_argument("--yes", action="store_true", help="do not ask before removing taints")
    add_output_flag(taught, names=True)
    add_cluster_flags(taught)
    return taught


hold, hold_parser = partial(run, HOLD), partial(_parser, HOLD)
ignore, ignore_parser = partial(run, IGNORE), partial(_parser, IGNORE)
confirm_repaired = partial(run, CONFIRM_REPAIRED)
confirm_repaired_parser = partial(_parser, CONFIRM_REPAIRED)


def _change(row: IntentCommand, client: Client, options: argparse.Namespace) -> int:
    reader = Reader(client, options.namespace)
    objects = reader.objects("incidents")
    try:
        incidents = find_incidents(options.incidents, objects.incidents)
        intent = callers_intent(client, options.ends, options.reason) if options.ends else None
        changes = [(each, change_of(row.kind, each, intent)) for each in incidents]
        facts = _checked(row, reader, changes, objects.at, options)
        question = questions(len(facts))
        shown = [line for about in facts for line in about]
        if shown and not options.yes and not confirmed(row.command, shown, question, yes=False):
            return PROBLEM
    except (NoIncidentError, WrongIntentError) as error:
        print_error(row.command, f"{error}{left_out(objects)}")
        return PROBLEM
    written, failed = _written(row.command, client, changes, options)
    note = _not_applied_yet(reader) if intent and written else ""
    done = tuple(msgspec.structs.replace(change, unapplied=note) for change in written)
    print_result(
        done,
        options.output,
        lambda: (_facts(row, change, objects.at) for change in done),
        "IntentList",
        incident_names(change.incident for change in done),
    )
    return PROBLEM if failed else DONE


def _checked(
    row: IntentCommand,
    reader: Reader,
    changes: Sequence[tuple[Incident, IntentChange]],
    at: datetime,
    options: argparse.Namespace,
) -> list[list[str]]:
    """Return, for each incident with taints to remove, what the user must know before that.

    Raises WrongIntentError, with all problems: then nothing was written to any of them.
    """
    problems, facts = list[str](), list[list[str]]()
    for incident, change in changes:
        try:
            check(change, incident, overwrite=options.overwrite)
            intent = change.intent
            desired = with_intent(incident, change.kind, intent)
            if row.refusal and intent and (why := row.refusal(incident, case_of(reader, desired))):
                raise WrongIntentError(why)
        except WrongIntentError as error:
            problems.append(str(error))
            continue
        taints = [f"{rule.effect} on {rule.device}" for rule in incident.status.scope.rules]
        if row.untaints and intent and taints and not options.yes:
            board = case_of(reader, incident)
            facts.append([*consequences(incident, board, taints, intent.until, at)])
    if problems:
        raise WrongIntentError("; ".join(problems))
    return facts


def _written(
    command: str,
    client: Client,
    changes: Sequence[tuple[Incident, IntentChange]],
    options: argparse.Namespace,
) -> tuple[list[IntentChange], bool]:
    """Write to one incident after the other; what another user has just changed is left out."""
    written, failed = list[IntentChange](), False
    for incident, change in changes:
        try:
            write(client, incident, change, overwrite=options.overwrite)
        except WrongIntentError as error:
            print_error(command, str(error))
            failed = True
        except ApiError as error:
            if not written:
                raise
            print_error(command, f"{incident.name}: {sentence(error, client.endpoint.server)}")
            failed = True
        else:
            written.append(change)
    return written, failed


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
            ("note", Cell(change.unapplied, "warn")),
        )
    )
