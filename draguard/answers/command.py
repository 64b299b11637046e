"""A person's answer to an incident, written as the annotation that the remediator reads."""

import argparse
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from draguard.answers.unheard import unheard
from draguard.answers.value import (
    Said,
    WrongAnswerError,
    until_in_words,
    until_of,
    value_of,
)
from draguard.cluster.listing import listed
from draguard.cluster.reading import Reader, left_out
from draguard.connection.help_text import Example, teaching
from draguard.connection.server_time import ahead_by, now
from draguard.connection.session import add_cluster_flags, asked, complain
from draguard.connection.who import caller
from draguard.exit_status import DONE, WRONG
from draguard.incidents.finding import NoIncidentError, meant
from draguard.output.formats import add_output_flag, give
from draguard.output.sheet import Cell, Facts
from kubeapi import clock
from kubeapi.client import Client, Conflict, NotFound
from remediator.hands.writes import INCIDENTS
from remediator.objects.answers import FOREVER, Kind, annotation
from remediator.objects.incident import Incident

TRIES = 5
"""How often an answer is written that somebody else's write comes before."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One of the three answers, as a command."""

    command: str
    kind: Kind
    description: str
    examples: tuple[Example, ...]
    standard: str
    """How long it counts when nobody says; "" makes it be said."""
    means: str


def run(question: Question, arguments: Sequence[str]) -> int:
    """Return 0 when it is written; 1 when it cannot be meant; 2 when nothing could be asked."""
    parser = _parser(question)
    options = parser.parse_args(arguments)
    times = (FOREVER if options.forever else None, options.until, options.length)
    said = next((one for one in times if one is not None), question.standard)
    if not (said or options.remove):
        parser.error("say until when: --for 4h, --until 2030-07-30T18:00:00Z, or --forever")
    if not (options.why.strip() or options.remove):
        parser.error("say why: --why TEXT")
    try:
        until_of(said, clock.now()) if said else None
    except WrongAnswerError as error:
        parser.error(f"{'--until' if options.until else '--for'}: {error}")
    ends = "" if options.remove else said
    return asked(question.command, options, lambda client: _answer(question, client, options, ends))


def _parser(question: Question) -> argparse.ArgumentParser:
    parser = teaching(question.command, question.description, question.examples)
    until = "[--for TIME]" if question.standard else "--for TIME"
    parser.usage = f"{parser.prog} INCIDENT {until} --why TEXT [FLAGS]"
    parser.add_argument(
        "incident",
        metavar="INCIDENT",
        help="its name, such as gpu-2fa81118-1, or the UUID of its GPU",
    )
    parser.add_argument("--why", default="", metavar="TEXT", help="is asked for, and is shown")
    parser.add_argument("--by", default="", metavar="WHO", help="instead of your user name there")
    times = parser.add_mutually_exclusive_group()
    standard = f" [{question.standard}]" if question.standard else ""
    times.add_argument(
        "--for", dest="length", metavar="TIME", help=f"from now: 30m, 4h, 2d{standard}"
    )
    times.add_argument(
        "--until", metavar="WHEN", help="a moment, such as 2030-07-30T18:00:00Z; either takes both"
    )
    times.add_argument("--forever", action="store_true", help="without an end")
    times.add_argument("--remove", action="store_true", help="take the answer back")
    parser.add_argument("--overwrite", action="store_true", help="replace one that is there")
    add_output_flag(parser)
    add_cluster_flags(parser)
    return parser


def _answer(question: Question, client: Client, options: argparse.Namespace, ends: str) -> int:
    reader = Reader(client, options.namespace)
    objects = reader.objects("incidents")
    try:
        incident = meant(options.incident, objects.incidents)
        said = _said(question, incident, _values(question, client, options, ends))
        _give(client, incident, said, options)
    except (NoIncidentError, WrongAnswerError) as error:
        complain(question.command, f"{error}{left_out(objects)}")
        return WRONG
    heard = msgspec.structs.replace(said, unheard="" if options.remove else unheard(reader))
    give(heard, options.output, lambda: (_facts(question, heard, objects.at),))
    return DONE


def _values(
    question: Question, client: Client, options: argparse.Namespace, ends: str
) -> Mapping[str, str]:
    """Return what the answer says: until when by the server's clock, who, why; {} takes it back."""
    if options.remove:
        return {}
    who = caller(client)
    until = until_of(ends, now(ahead_by(who)))
    by = options.by or who.name or "unknown"
    value = value_of(question.kind, until, by, options.why)
    return {"until": until, "by": by, "why": options.why, "value": value}


def _said(question: Question, incident: Incident, values: Mapping[str, str]) -> Said:
    before = incident.metadata.annotations.get(annotation(question.kind), "")
    nothing = {"until": "", "by": "", "why": "", "value": ""}
    return Said(kind=question.kind, incident=incident.name, before=before, **{**nothing, **values})


def _give(client: Client, incident: Incident, said: Said, options: argparse.Namespace) -> None:
    """Write exactly onto what was read; where that has changed, look again before it is repeated.

    The remediator writes to an incident as often as something happens, and another
    person's answer must not be lost. Raises WrongAnswerError, ApiError.
    """
    key = annotation(said.kind)
    for left in reversed(range(TRIES)):
        _fits(said, incident, options)
        metadata = {
            "uid": incident.metadata.uid,
            "resourceVersion": incident.metadata.resource_version,
            "annotations": {key: said.value or None},
        }
        try:
            client.merge_patch(f"{INCIDENTS}/{incident.name}", {"metadata": metadata})
        except (Conflict, NotFound):
            if not left:
                raise
            incident = _again(client, incident)
            if incident.metadata.annotations.get(key, "") != said.before:
                raise WrongAnswerError(
                    f"somebody else has answered {incident.name} just now: "
                    f"{incident.metadata.annotations.get(key) or 'the answer is taken back'}"
                ) from None
        else:
            return


def _again(client: Client, incident: Incident) -> Incident:
    """Return the incident as it is now; who may list incidents need not be allowed to get one."""
    params = {"fieldSelector": f"metadata.name={incident.name}"}
    found, _ = listed(client, INCIDENTS, Incident, params)
    if not found or found[0].metadata.uid != incident.metadata.uid:
        raise WrongAnswerError(f"{incident.name} is gone since it was looked at")
    return found[0]


def _fits(said: Said, incident: Incident, options: argparse.Namespace) -> None:
    if not incident.open and said.value:
        raise WrongAnswerError(
            f"{incident.name} is closed ({incident.status.phase}); there is nothing to answer"
        )
    if said.before and said.value and said.before != said.value and not options.overwrite:
        raise WrongAnswerError(
            f"{incident.name} has that answer already: {said.before}; give --overwrite"
        )
    if options.remove and not said.before:
        raise WrongAnswerError(f"{incident.name} has no such answer to take back")


def _facts(question: Question, said: Said, now: datetime) -> Facts:
    if not said.value:
        return Facts((("incident", said.incident), ("taken back", said.before)))
    return Facts(
        (
            ("incident", said.incident),
            ("answer", said.kind),
            ("until", until_in_words(said.until, now)),
            ("by", said.by),
            ("why", said.why),
            ("instead of", said.before if said.before != said.value else ""),
            ("so", question.means),
            ("but", Cell(said.unheard, "warn")),
        )
    )
