"""A person's answer to an incident, written as the annotation that the remediator reads."""

import argparse
from collections.abc import Sequence
from datetime import datetime

import msgspec

from draguard.answers.value import (
    Said,
    WrongAnswerError,
    until_in_words,
    until_of,
    value_of,
)
from draguard.cluster.reading import Reader
from draguard.connection.help_text import Example, teaching
from draguard.connection.session import add_cluster_flags, asked, complain
from draguard.connection.who import caller
from draguard.exit_status import DONE, WRONG
from draguard.incidents.finding import NoIncidentError, meant
from draguard.output.formats import add_output_flag, give
from draguard.output.sheet import Facts
from kubeapi import clock
from kubeapi.client import Client, Conflict
from remediator.hands.writes import INCIDENTS
from remediator.objects.answers import FOREVER, Kind, annotation
from remediator.objects.incident import Incident


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
    timed = options.length or options.until or options.forever
    if not (timed or question.standard or options.remove):
        parser.error("say until when: --for 4h, --until 2026-07-30T18:00:00Z, or --forever")
    if not (options.why or options.remove):
        parser.error("say why: --why TEXT")
    until = "" if options.remove else _until(parser, options, question.standard)
    return asked(
        question.command, options, lambda client: _answer(question, client, options, until)
    )


def _until(parser: argparse.ArgumentParser, options: argparse.Namespace, standard: str) -> str:
    """Return until when it counts; ends the program where that is no time to come."""
    text = FOREVER if options.forever else options.until or options.length or standard
    try:
        return until_of(text, clock.now())
    except WrongAnswerError as error:
        parser.error(f"{'--until' if options.until else '--for'}: {error}")


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
        "--until", metavar="WHEN", help="a moment, such as 2026-07-30T18:00:00Z; either takes both"
    )
    times.add_argument("--forever", action="store_true", help="without an end")
    times.add_argument("--remove", action="store_true", help="take the answer back")
    parser.add_argument("--overwrite", action="store_true", help="replace one that is there")
    add_output_flag(parser)
    add_cluster_flags(parser)
    return parser


def _answer(question: Question, client: Client, options: argparse.Namespace, until: str) -> int:
    objects = Reader(client, options.namespace).objects("incidents")
    try:
        incident = meant(options.incident, objects.incidents)
        said = _said(question, client, options, incident, until)
        _fits(said, incident, options)
    except (NoIncidentError, WrongAnswerError) as error:
        complain(question.command, str(error))
        return WRONG
    try:
        _write(client, incident, said)
    except Conflict:
        complain(question.command, f"{incident.name} was written to just now; try again")
        return WRONG
    give(said, options.output, lambda: (_facts(question, said, clock.now()),))
    return DONE


def _said(
    question: Question,
    client: Client,
    options: argparse.Namespace,
    incident: Incident,
    until: str,
) -> Said:
    before = incident.metadata.annotations.get(annotation(question.kind), "")
    nothing = Said(
        kind=question.kind, incident=incident.name, until="", by="", why="", value="", before=before
    )
    if options.remove:
        return nothing
    by = options.by or caller(client) or "unknown"
    value = value_of(question.kind, until, by, options.why)
    return msgspec.structs.replace(nothing, until=until, by=by, why=options.why, value=value)


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


def _write(client: Client, incident: Incident, said: Said) -> None:
    """Write exactly onto what was read, so that nobody's answer is lost."""
    metadata = {
        "resourceVersion": incident.metadata.resource_version,
        "annotations": {annotation(said.kind): said.value or None},
    }
    client.merge_patch(f"{INCIDENTS}/{incident.name}", {"metadata": metadata})


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
        )
    )
