"""`draguard untaint INCIDENT...`: remove Draguard's taints of GPUs, against their verdicts.

A leading remediator does it, by `spec.ignore` of the incident. If none leads, the rules are
removed here, and a later remediator finds the same `spec.ignore`.
"""

import argparse
from collections.abc import Sequence
from datetime import datetime

import msgspec

from draguard.cluster.decide import case_of
from draguard.cluster.incidents import NAMES, NoIncidentError, find_incidents
from draguard.cluster.intents import (
    FOREVER,
    WrongIntentError,
    callers_intent,
    change_of,
    overtaken_record,
    until_in_words,
    until_of,
    write,
)
from draguard.cluster.leader import leader_of
from draguard.cluster.objects import Objects
from draguard.cluster.reading import Reader, left_out
from draguard.cluster.removal import Found, Outcome, Remover, Rules, outcome_lines, remove_all
from draguard.cluster.stored_incidents import incident_names
from draguard.connection.cluster_flags import add_cluster_flags
from draguard.connection.session import confirmed, print_error, run_with_client
from draguard.exit_status import DONE, PROBLEM
from draguard.render.blocks import Block, Cell, Facts, Lines
from draguard.render.consequences import consequences, questions
from draguard.render.formats import add_output_flag, print_result
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
    """The outcome of each rule that was removed here."""
    remark: str = ""


class _Found(msgspec.Struct, frozen=True):
    incident: Incident
    rules: Rules
    remediator: bool
    """One leads, or whether one does cannot be seen."""
    remark: str
    at: datetime


def parser() -> argparse.ArgumentParser:
    taught = teaching(
        COMMAND,
        "Keep GPUs free of Draguard's taints until the given time, although their faults remain.\n"
        "Shows the faults and the consequences, and asks for confirmation. After that time the\n"
        "faults count again; a fault of a worse class counts at once.",
        EXAMPLES,
        more="Writes spec.ignore of the incident, with your user name, for the remediator. If no\n"
        "remediator leads, this command removes the taints itself.",
    )
    taught.usage = f"{taught.prog} INCIDENT... --reason TEXT [--until WHEN] [FLAGS]"
    taught.add_argument("incidents", nargs="+", metavar="INCIDENT", help=NAMES)
    taught.add_argument("--reason", required=True, metavar="TEXT", help="shown in the incident")
    times = taught.add_mutually_exclusive_group()
    times.add_argument(
        "--until",
        default=STANDARD,
        metavar="WHEN",
        help=f"a duration from now, or a time, such as 2030-07-30T18:00:00Z [{STANDARD}]",
    )
    times.add_argument("--forever", action="store_true", help="no end time")
    taught.add_argument(
        "--yes", action="store_true", help="do not ask; required without a terminal"
    )
    taught.add_argument(
        "--dry-run", action="store_true", help="show what would happen, change nothing"
    )
    add_output_flag(taught, names=True)
    add_cluster_flags(taught)
    return taught


def main(arguments: Sequence[str]) -> int:
    """Return 0 if it is done or requested of the remediator; 1 if not; 2 without access."""
    flags = parser()
    options = flags.parse_args(arguments)
    options.ends = FOREVER if options.forever else options.until
    if not options.reason.strip():
        flags.error("a reason is required: --reason TEXT")
    try:
        until_of(options.ends, clock.now())
    except WrongIntentError as error:
        flags.error(f"--until: {error}")
    return run_with_client(COMMAND, options, lambda client: _untaint(client, options))


def _untaint(client: Client, options: argparse.Namespace) -> int:
    reader, remover = Reader(client, options.namespace), Remover(client, options.namespace)
    objects = reader.objects("incidents", "leases", spared=("leases",))
    try:
        found = _all_found(remover, objects, options.incidents)
        intent = callers_intent(client, options.ends, options.reason)
        facts: list[str] = []
        for each in found:
            taints = [rule.what for rule, _ in each.rules]
            case = case_of(reader, each.incident)
            facts += consequences(each.incident, case, taints, intent.until, each.at)
        question = questions(len(found))
        if not confirmed(COMMAND, facts, question, yes=options.yes or options.dry_run):
            return PROBLEM
    except (NoIncidentError, WrongIntentError) as error:
        print_error(COMMAND, f"{error}{left_out(objects)}")
        return PROBLEM
    results = [_result(client, remover, each, intent, options) for each in found]
    done = tuple(result for result in results if result is not None)
    print_result(
        done,
        options.output,
        lambda: (block for result in done for block in _page(result, objects.at)),
        "UntaintList",
        incident_names(result.incident for result in done),
    )
    failed = len(done) < len(found) or any(rule.error for result in done for rule in result.rules)
    return PROBLEM if failed else DONE


def _result(
    client: Client, remover: Remover, found: _Found, intent: Intent, options: argparse.Namespace
) -> Untainted | None:
    """Carry it out; None, and a line on stderr, if another user has just changed the incident."""
    try:
        outcomes = [] if options.dry_run else _carry_out(client, remover, found, intent)
    except WrongIntentError as error:
        print_error(COMMAND, str(error))
        return None
    return Untainted(
        incident=found.incident.name,
        gpu=found.incident.spec.uuid,
        intent=intent,
        dry_run=options.dry_run,
        by_remediator=found.remediator,
        rules=tuple(outcomes),
        remark=found.remark,
    )


def _all_found(remover: Remover, objects: Objects, words: Sequence[str]) -> list[_Found]:
    """Find what there is to untaint. Raises NoIncidentError, WrongIntentError, ApiError."""
    found, problems = list[_Found](), list[str]()
    for incident in find_incidents(words, objects.incidents):
        try:
            found.append(_found(remover, objects, incident))
        except WrongIntentError as error:
            problems.append(str(error))
    if problems:
        raise WrongIntentError("; ".join(problems))
    return found


def _found(remover: Remover, objects: Objects, incident: Incident) -> _Found:
    rules = [rule for rule in remover.rules() if _is_of(rule[0], incident)]
    unseen = "leases" in objects.missing
    problem = "" if unseen else leader_of(objects.leases, objects.at).problem
    if not (incident.open or rules):
        raise WrongIntentError(f"{incident.name} is closed and has no taints")
    if not incident.open and not problem:
        raise WrongIntentError(
            f"{incident.name} is closed; the remediator removes its remaining taints"
        )
    remark = UNSEEN if unseen else problem
    return _Found(incident, rules, not problem, remark, objects.at)


def _is_of(rule: Found, incident: Incident) -> bool:
    return rule.incident == incident.name or rule.gpu == incident.spec.uuid


def _carry_out(client: Client, remover: Remover, found: _Found, intent: Intent) -> list[Outcome]:
    """Write `spec.ignore`; without a leader, remove the rules, too, and return their outcomes."""
    incident = found.incident
    if incident.open:
        before = incident.spec.intents.get("Ignore")
        ended = before is not None and not counts(before, found.at)
        ended |= overtaken_record(incident, "Ignore") is not None
        change = change_of("Ignore", incident, intent)
        write(client, incident, change, overwrite=ended or not found.remediator)
    if found.remediator:
        return []

    def left() -> list[Found]:
        return [rule for rule, _ in remover.rules() if _is_of(rule, incident)]

    return remove_all(remover.removals(found.rules), left)


def _page(result: Untainted, at: datetime) -> tuple[Block, ...]:
    if result.dry_run:
        return (Lines(("nothing was changed (--dry-run)",)),)
    by = (
        "the remediator removes the taints now"
        if result.by_remediator
        else "the taints are removed"
    )
    failed = any(outcome.error for outcome in result.rules)
    facts = Facts(
        (
            ("incident", result.incident),
            ("until", until_in_words(result.intent, at)),
            ("by", f"{result.intent.by} (your user name)"),
            ("reason", result.intent.reason),
            ("effect", Cell("some taints are not removed", "bad") if failed else by),
            ("note", Cell(result.remark, "warn")),
            ("undo", f"draguard ignore {result.incident} --remove"),
        )
    )
    return facts, Lines(tuple(outcome_lines(list(result.rules), "removed")))
