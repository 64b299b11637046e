"""`draguard untaint INCIDENT`: remove Draguard's taints of one GPU, against its verdict.

Where a remediator leads it does so, told by `spec.ignore` of the incident; where none
leads the rules are removed here, and a later remediator finds the same `spec.ignore`.
"""

import argparse
from collections.abc import Sequence
from datetime import datetime

import msgspec

from draguard.cluster.find_incident import NoIncidentError, meant
from draguard.cluster.intents import FOREVER, WrongIntentError, intent_of, until_in_words, until_of
from draguard.cluster.leader import leading
from draguard.cluster.objects import Objects
from draguard.cluster.one_gpu import judged
from draguard.cluster.reading import Reader, left_out
from draguard.cluster.removal import Found, Outcome, Remover
from draguard.cluster.removing import Rules, lines, removed
from draguard.commands.intents import said_of, write
from draguard.connection.consent import agreed
from draguard.connection.server_time import ahead_by, now
from draguard.connection.session import add_cluster_flags, asked, complain
from draguard.connection.whoami import caller
from draguard.exit_status import DONE, WRONG
from draguard.render.blocks import Block, Cell, Facts, Lines
from draguard.render.consequences import QUESTION, consequences
from draguard.render.formats import add_output_flag, give
from draguard.render.help_text import Example, teaching
from kubeapi import clock
from kubeapi.client import Client
from remediator.model.incident import Incident
from remediator.model.intent import Intent, counts

COMMAND = "untaint"
STANDARD = "4h"
EXAMPLES = (
    Example("draguard untaint INCIDENT --reason 'a false alarm'", "for four hours"),
    Example("draguard untaint GPU-2fa8... --reason 'a test board' --forever", "forever"),
    Example("draguard untaint INCIDENT --reason x --dry-run", "what would happen"),
    Example("draguard ignore INCIDENT --remove", "let the fault count again now"),
)
UNSEEN = "you may not read whether a remediator leads; the taints are removed once one leads"


class Untainted(msgspec.Struct, frozen=True, kw_only=True):
    incident: str
    gpu: str
    intent: Intent
    dry_run: bool
    by_remediator: bool
    """A remediator removes the rules; else they were removed here."""
    rules: tuple[Outcome, ...]
    """What became of the rules that were removed here."""
    remark: str = ""


class _Found(msgspec.Struct, frozen=True):
    incident: Incident
    rules: Rules
    remediator: bool
    """One leads, or whether one does cannot be seen."""
    remark: str
    at: datetime


def main(arguments: Sequence[str]) -> int:
    """Return 0 when it is done or asked of the remediator; 1 when not; 2 when nothing was asked."""
    parser = teaching(
        COMMAND,
        "Remove Draguard's taints from one GPU until the given time, although its fault remains.\n"
        "Shows the fault and the consequences, and asks for confirmation. After that time the\n"
        "fault counts again.",
        EXAMPLES,
        more="Writes spec.ignore of the incident, with your user name, for the remediator. If no\n"
        "remediator leads, this command removes the taints itself.",
    )
    parser.usage = f"{parser.prog} INCIDENT --reason TEXT [--until WHEN] [FLAGS]"
    parser.add_argument(
        "incident",
        metavar="INCIDENT",
        help="incident name, such as gpu-2fa81118-1, or UUID of its GPU",
    )
    parser.add_argument("--reason", required=True, metavar="TEXT", help="shown in the incident")
    times = parser.add_mutually_exclusive_group()
    times.add_argument(
        "--until",
        default=STANDARD,
        metavar="WHEN",
        help=f"a duration from now, or a time, such as 2030-07-30T18:00:00Z [{STANDARD}]",
    )
    times.add_argument("--forever", action="store_true", help="no end time")
    parser.add_argument(
        "--yes", action="store_true", help="do not ask; required without a terminal"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would happen, change nothing"
    )
    add_output_flag(parser)
    add_cluster_flags(parser)
    options = parser.parse_args(arguments)
    options.ends = FOREVER if options.forever else options.until
    if not options.reason.strip():
        parser.error("a reason is required: --reason TEXT")
    try:
        until_of(options.ends, clock.now())
    except WrongIntentError as error:
        parser.error(f"--until: {error}")
    return asked(COMMAND, options, lambda client: _untaint(client, options))


def _untaint(client: Client, options: argparse.Namespace) -> int:
    reader, releaser = Reader(client, options.namespace), Remover(client)
    objects = reader.objects("incidents", "leases", spared=("leases",))
    try:
        found = _found(releaser, objects, options.incident)
        who = caller(client)
        intent = intent_of(until_of(options.ends, now(ahead_by(who))), who.name, options.reason)
        if not _agreed(reader, found, intent, options):
            return WRONG
        done = _done(client, releaser, found, intent, options)
    except (NoIncidentError, WrongIntentError) as error:
        complain(COMMAND, f"{error}{left_out(objects)}")
        return WRONG
    give(done, options.output, lambda: _sheet(done, found.at))
    return WRONG if any(one.error for one in done.rules) else DONE


def _found(releaser: Remover, objects: Objects, word: str) -> _Found:
    """Look what there is to untaint. Raises NoIncidentError, WrongIntentError, ApiError."""
    incident = meant(word, objects.incidents)
    rules = [one for one in releaser.rules() if _is_of(one[0], incident)]
    unseen = "leases" in objects.missing
    why = "" if unseen else leading(objects.leases, objects.at).why
    if not (incident.open or rules):
        raise WrongIntentError(f"{incident.name} is closed and has no taints")
    if not incident.open and not why:
        raise WrongIntentError(
            f"{incident.name} is closed; the remediator removes its remaining taints"
        )
    remark = UNSEEN if unseen else why
    return _Found(incident, rules, not why, remark, objects.at)


def _is_of(rule: Found, incident: Incident) -> bool:
    return rule.incident == incident.name or rule.gpu == incident.spec.uuid


def _agreed(reader: Reader, found: _Found, intent: Intent, options: argparse.Namespace) -> bool:
    case = judged(reader, found.incident)
    taints = [one.what for one, _ in found.rules]
    facts = consequences(found.incident, case, taints, intent.until, found.at)
    return agreed(COMMAND, facts, QUESTION, yes=options.yes or options.dry_run)


def _done(
    client: Client, releaser: Remover, found: _Found, intent: Intent, options: argparse.Namespace
) -> Untainted:
    incident = found.incident
    outcomes: list[Outcome] = []
    if not options.dry_run:
        if incident.open:
            before = incident.spec.intents.get("Ignore")
            expired = before is not None and not counts(before, found.at)
            said = said_of("Ignore", incident, intent)
            write(client, incident, said, overwrite=expired or not found.remediator)
        if not found.remediator:
            outcomes = removed(releaser, found.rules, [], lambda: _left(releaser, incident))
    return Untainted(
        incident=incident.name,
        gpu=incident.spec.uuid,
        intent=intent,
        dry_run=options.dry_run,
        by_remediator=found.remediator,
        rules=tuple(outcomes),
        remark=found.remark,
    )


def _left(releaser: Remover, incident: Incident) -> list[Found]:
    return [one for one, _ in releaser.rules() if _is_of(one, incident)]


def _sheet(done: Untainted, at: datetime) -> tuple[Block, ...]:
    if done.dry_run:
        return (Lines(("nothing was changed (--dry-run)",)),)
    by = "the remediator removes the taints now" if done.by_remediator else "the taints are removed"
    failed = any(one.error for one in done.rules)
    facts = Facts(
        (
            ("incident", done.incident),
            ("until", until_in_words(done.intent, at)),
            ("by", f"{done.intent.by} (your user name)"),
            ("reason", done.intent.reason),
            ("effect", Cell("some taints are not removed", "bad") if failed else by),
            ("note", Cell(done.remark, "warn")),
            ("undo", f"draguard ignore {done.incident} --remove"),
        )
    )
    return facts, Lines(tuple(lines(list(done.rules), "removed")))
