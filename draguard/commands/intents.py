"""What a user wants for a GPU, written into the spec of its incident for the remediator."""

import argparse
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from draguard.cluster.find_incident import NoIncidentError, meant
from draguard.cluster.intents import (
    FOREVER,
    Said,
    WrongIntentError,
    before_in_words,
    intent_of,
    patch,
    until_in_words,
    until_of,
)
from draguard.cluster.listing import listed
from draguard.cluster.one_gpu import judged
from draguard.cluster.reading import Reader, left_out
from draguard.cluster.unheard import unheard
from draguard.connection.consent import agreed
from draguard.connection.server_time import ahead_by, now
from draguard.connection.session import add_cluster_flags, asked, complain
from draguard.connection.whoami import caller
from draguard.exit_status import DONE, WRONG
from draguard.render.blocks import Cell, Facts
from draguard.render.consequences import QUESTION, consequences
from draguard.render.formats import add_output_flag, give
from draguard.render.help_text import Example, teaching
from kubeapi import clock
from kubeapi.client import Client, Conflict, NotFound
from remediator.controller.writes import INCIDENTS
from remediator.model.incident import Incident
from remediator.model.intent import FIELDS, Intent, Kind
from remediator.plan.case import Case

TRIES = 5
"""How often an intent is written that another write to the incident comes before."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One of the three intents, as a command."""

    command: str
    kind: Kind
    description: str
    examples: tuple[Example, ...]
    endless: bool
    """Whether it may be without an end."""
    standard: str = ""
    """How long it counts when the user does not say; "" makes it be said."""
    means: str
    untaints: bool = False
    """It removes taints that stand: the user is shown what follows, and asked."""
    refusal: Callable[[Incident, Case | None], str] | None = None
    """Says why it would change nothing now, "" when it would."""


def run(question: Question, arguments: Sequence[str]) -> int:
    """Return 0 when it is written; 1 when it cannot be meant; 2 when nothing could be asked."""
    parser = _parser(question)
    options = parser.parse_args(arguments)
    times = (FOREVER if options.forever else None, options.until, options.length)
    said = next((one for one in times if one is not None), question.standard)
    if not (said or options.remove):
        endless = ", or --forever" if question.endless else ""
        parser.error(f"an end time is required: --until 4h, --until 2030-07-30T18:00:00Z{endless}")
    if not (options.reason.strip() or options.remove):
        parser.error("a reason is required: --reason TEXT")
    try:
        until_of(said, clock.now()) if said else None
    except WrongIntentError as error:
        parser.error(f"{'--until' if options.until else '--for'}: {error}")
    ends = "" if options.remove else said
    return asked(question.command, options, lambda client: _answer(question, client, options, ends))


def _parser(question: Question) -> argparse.ArgumentParser:
    parser = teaching(
        question.command,
        question.description,
        question.examples,
        more="The command writes it to the incident's spec, with your user name.",
    )
    until = "[--until WHEN]" if question.standard else "--until WHEN"
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
    if question.endless:
        standard = " (the default)" if question.standard == FOREVER else ""
        times.add_argument("--forever", action="store_true", help=f"no end time{standard}")
    times.add_argument("--remove", action="store_true", help="remove it")
    parser.set_defaults(forever=False)
    parser.add_argument("--overwrite", action="store_true", help="replace the existing one")
    if question.untaints:
        parser.add_argument("--yes", action="store_true", help="do not ask before removing taints")
    add_output_flag(parser)
    add_cluster_flags(parser)
    return parser


def _answer(question: Question, client: Client, options: argparse.Namespace, ends: str) -> int:
    reader = Reader(client, options.namespace)
    objects = reader.objects("incidents")
    try:
        incident = meant(options.incident, objects.incidents)
        said = said_of(question.kind, incident, _intent(client, options.reason, ends))
        if not _meant_so(question, reader, incident, said, at=objects.at, options=options):
            return WRONG
        write(client, incident, said, overwrite=options.overwrite)
    except (NoIncidentError, WrongIntentError) as error:
        complain(question.command, f"{error}{left_out(objects)}")
        return WRONG
    heard = msgspec.structs.replace(said, unheard="" if options.remove else unheard(reader))
    give(heard, options.output, lambda: (_facts(question, heard, objects.at),))
    return DONE


def _meant_so(
    question: Question,
    reader: Reader,
    incident: Incident,
    said: Said,
    *,
    at: datetime,
    options: argparse.Namespace,
) -> bool:
    """Whether the user agrees to what follows. Raises WrongIntentError where nothing would."""
    fits(said, incident, overwrite=options.overwrite)
    if said.intent is None:
        return True
    if question.refusal and (why := question.refusal(incident, judged(reader, incident))):
        raise WrongIntentError(why)
    taints = [f"{one.effect} on {one.device}" for one in incident.status.rules]
    if not (question.untaints and taints) or options.yes:
        return True
    facts = consequences(incident, judged(reader, incident), taints, said.intent.until, at)
    return agreed(question.command, facts, QUESTION, yes=False)


def _intent(client: Client, reason: str, ends: str) -> Intent | None:
    """Return what is wanted: until when by the server's clock, and by whom; None removes it."""
    if not ends:
        return None
    who = caller(client)
    return intent_of(until_of(ends, now(ahead_by(who))), who.name, reason)


def said_of(kind: Kind, incident: Incident, intent: Intent | None) -> Said:
    before = before_in_words(kind, incident.spec.intents.get(kind))
    return Said(kind=kind, incident=incident.name, intent=intent, before=before)


def write(client: Client, incident: Incident, said: Said, *, overwrite: bool) -> None:
    """Write exactly onto what was read; where that has changed, look again before it is repeated.

    The remediator writes to an incident as often as something happens, and another
    user's intent must not be lost. Raises WrongIntentError, ApiError.
    """
    before = incident.spec.intents.get(said.kind)
    for left in reversed(range(TRIES)):
        fits(said, incident, overwrite=overwrite)
        body = {
            "metadata": {
                "uid": incident.metadata.uid,
                "resourceVersion": incident.metadata.resource_version,
            },
            "spec": {FIELDS[said.kind]: patch(said.intent)},
        }
        try:
            client.merge_patch(f"{INCIDENTS}/{incident.name}", body)
        except (Conflict, NotFound):
            if not left:
                raise
            incident = _again(client, incident)
            there = incident.spec.intents.get(said.kind)
            if there != before:
                raise WrongIntentError(
                    f"another user has just changed {incident.name}: "
                    f"{before_in_words(said.kind, there) or 'it was removed'}"
                ) from None
        else:
            return


def _again(client: Client, incident: Incident) -> Incident:
    """Return the incident as it is now; who may list incidents need not be allowed to get one."""
    params = {"fieldSelector": f"metadata.name={incident.name}"}
    found, _ = listed(client, INCIDENTS, Incident, params)
    if not found or found[0].metadata.uid != incident.metadata.uid:
        raise WrongIntentError(f"{incident.name} was deleted in the meantime")
    return found[0]


def fits(said: Said, incident: Incident, *, overwrite: bool) -> None:
    """Raise WrongIntentError where it does not fit what is there."""
    there = incident.spec.intents.get(said.kind)
    if not incident.open and said.intent:
        raise WrongIntentError(
            f"{incident.name} is closed ({incident.status.phase}); there is nothing to change"
        )
    if there and said.intent and there != said.intent and not overwrite:
        raise WrongIntentError(
            f"{incident.name} already has one: {said.before}; use --overwrite to replace it"
        )
    if there == said.intent and _overtaken(said, incident):
        raise WrongIntentError(
            f"{said.before} was overtaken by a later signal; confirm again with another --reason"
        )
    if said.intent is None and not there:
        raise WrongIntentError(f"{incident.name} has no spec.{FIELDS[said.kind]} to remove")


def _overtaken(said: Said, incident: Incident) -> bool:
    """Whether the same words have been overtaken: written once more they change nothing."""
    return any(
        (one.kind, one.state) == (said.kind, "Overtaken") and said.intent is not None
        for one in incident.status.intents
    )


def _facts(question: Question, said: Said, now: datetime) -> Facts:
    field = f"spec.{FIELDS[said.kind]}"
    if said.intent is None:
        return Facts((("incident", said.incident), ("removed", said.before)))
    intent = said.intent
    return Facts(
        (
            ("incident", said.incident),
            ("wrote", field),
            ("until", until_in_words(intent, now)),
            ("by", f"{intent.by} (your user name)"),
            ("reason", intent.reason),
            (
                "replaces",
                said.before if said.before != before_in_words(said.kind, intent) else "",
            ),
            ("effect", question.means),
            ("note", Cell(said.unheard, "warn")),
        )
    )
