"""A user's hold, ignore or confirmed repair, checked and written into the spec of an incident."""

from datetime import UTC, datetime, timedelta

import msgspec

from draguard.cluster.decide import verdict_in_words
from draguard.cluster.listing import listed
from draguard.connection.whoami import ahead_by, caller, now
from draguard.phrases import moment
from kubeapi.client import Client, Conflict, NotFound
from kubeapi.resources import INCIDENTS
from remediator.diagnose.fault import Healthy, Sick, Unknown
from remediator.model.incident import Incident
from remediator.model.intent import (
    BY_LIMIT,
    FIELDS,
    REASON_LIMIT,
    Intent,
    IntentRecord,
    Kind,
    in_words,
)
from remediator.plan import overrides, recovery
from remediator.plan.board import Board
from remediator.plan.status import NO_ANSWER, NO_SOURCE
from remediator.plan.words import need_of
from remediator.policy.duration import duration

LONGEST = timedelta(days=3660)
FOREVER = "forever"
TRIES = 5
"""How often a write is tried if other writes to the incident conflict with it."""


class WrongIntentError(ValueError):
    """The API server would refuse it, or it would change nothing; the message says what to do."""


class IntentChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is written to one incident, as the commands print it."""

    kind: Kind
    incident: str
    intent: Intent | None
    """As it is written; None: it is removed."""
    before: str = ""
    """What was there, in words; "" for nothing."""
    unapplied: str = msgspec.field(name="unheard", default="")
    """Why no remediator may act on it now; "" if one does, as far as can be seen."""


def until_of(text: str, now: datetime) -> datetime | None:
    """Return when an intent expires, None for `forever`.

    Takes a duration from now, a time with its zone, or `forever`. Raises WrongIntentError.
    """
    if text == FOREVER:
        return None
    try:
        at = msgspec.convert(text, datetime)
        end = at.astimezone(UTC) if at.tzinfo else None
    except (msgspec.ValidationError, OverflowError):
        end = None
    if end is None:
        try:
            end = now + duration(text, LONGEST)
        except ValueError as error:
            raise WrongIntentError(
                f"{error}; or give a time, such as 2030-07-30T18:00:00Z"
            ) from error
    end = end.replace(microsecond=0)
    if end <= now:
        raise WrongIntentError(f"{text} is in the past; give a future time")
    return end


def intent_of(until: datetime | None, by: str, reason: str) -> Intent:
    """Return an intent that the API server accepts. Raises WrongIntentError."""
    reason = reason.strip()
    if not by:
        raise WrongIntentError(
            "the API server did not return your user name, so nothing was written"
        )
    for name, text, most in (("your user name", by, BY_LIMIT), ("--reason", reason, REASON_LIMIT)):
        if len(text) > most:
            raise WrongIntentError(f"{name} is longer than {most} characters")
        if not text.isprintable():
            raise WrongIntentError(f"{name} contains characters that are not printable")
    return Intent(until=until, by=by, reason=reason)


def callers_intent(client: Client, ends: str, reason: str) -> Intent:
    """Return an intent by the caller, its end counted by the API server's clock.

    Raises WrongIntentError, ApiError.
    """
    who = caller(client)
    return intent_of(until_of(ends, now(ahead_by(who))), who.name, reason)


def until_in_words(intent: Intent, now: datetime) -> str:
    """Return the end of an intent and how far it is."""
    return moment(intent.until, now) or "no end time"


def before_in_words(kind: Kind, intent: Intent | None) -> str:
    return in_words(kind, intent) if intent else ""


def change_of(kind: Kind, incident: Incident, intent: Intent | None) -> IntentChange:
    before = before_in_words(kind, incident.spec.intents.get(kind))
    return IntentChange(kind=kind, incident=incident.name, intent=intent, before=before)


def check(change: IntentChange, incident: Incident, *, overwrite: bool) -> None:
    """Raise WrongIntentError if the change does not fit the incident."""
    existing = incident.spec.intents.get(change.kind)
    if not incident.open and change.intent:
        raise WrongIntentError(
            f"{incident.name} is closed ({incident.status.phase}); there is nothing to change"
        )
    if existing and change.intent and existing != change.intent and not overwrite:
        raise WrongIntentError(
            f"{incident.name} already has one: {change.before}; use --overwrite to replace it"
        )
    if change.intent is None and not existing:
        raise WrongIntentError(f"{incident.name} has no spec.{FIELDS[change.kind]} to remove")
    # The same, written again, changes nothing.
    if existing == change.intent and (record := overtaken_record(incident, change.kind)):
        raise WrongIntentError(f"{overrides.in_words(record)}; write it with another --reason")


def overtaken_record(incident: Incident, kind: Kind) -> IntentRecord | None:
    """Return what was read of an intent of the spec that was overtaken, None of any other."""
    written = incident.spec.intents.get(kind)
    ended = (record for record in incident.status.policy.intents if record.state == "Overtaken")
    return next(
        (each for each in ended if each.kind == kind and written and each.concerns(written)), None
    )


def patch(intent: Intent | None) -> dict[str, object] | None:
    """Return it as a merge patch: `until` is always named, so that an earlier end is removed."""
    if intent is None:
        return None
    return {"until": intent.until, "by": intent.by, "reason": intent.reason}


def write(client: Client, incident: Incident, change: IntentChange, *, overwrite: bool) -> None:
    """Write onto the version that was read; if that has changed, read and check again first.

    The remediator writes to an incident whenever something happens, and another user's intent
    must not be lost. Raises WrongIntentError, ApiError.
    """
    before = incident.spec.intents.get(change.kind)
    for left in reversed(range(TRIES)):
        check(change, incident, overwrite=overwrite)
        body = {
            "metadata": {
                "uid": incident.metadata.uid,
                "resourceVersion": incident.metadata.resource_version,
            },
            "spec": {FIELDS[change.kind]: patch(change.intent)},
        }
        try:
            client.merge_patch(f"{INCIDENTS}/{incident.name}", body)
        except (Conflict, NotFound):
            if not left:
                raise
        else:
            return
        # By a list: the right to list incidents does not include the right to get one.
        params = {"fieldSelector": f"metadata.name={incident.name}"}
        found, _ = listed(client, INCIDENTS, Incident, params)
        if not found or found[0].metadata.uid != incident.metadata.uid:
            raise WrongIntentError(f"{incident.name} was deleted in the meantime")
        incident = found[0]
        existing = incident.spec.intents.get(change.kind)
        if existing != before:
            raise WrongIntentError(
                f"another user has just changed {incident.name}: "
                f"{before_in_words(change.kind, existing) or 'it was removed'}"
            )


def confirmation_refusal(incident: Incident, board: Board | None) -> str:
    """Return why confirming the repair would change nothing, "" if it has an effect.

    `board` is the GPU's, with that confirmation. It has an effect if the board was taken out, or if
    the GPU is not sick and its recovery needs more than the soak time.
    """
    if board is not None and recovery.is_taken_out(board):
        return ""
    if board is not None and isinstance(board.verdict, Sick):
        return f"the GPU is still {verdict_in_words(board)}; repair it first"
    status = incident.status
    why = {c.reason for c in status.conditions if (c.type, c.status) == ("NeedsHuman", "True")}
    if (
        why
        and why <= {NO_SOURCE, NO_ANSWER}
        and board is not None
        and isinstance(board.verdict, Unknown)
    ):
        return f"the GPU would stay {verdict_in_words(board)}"
    needed = (
        status.recovery.untaint == "OnConfirmation"
        or status.phase == "NeedsHuman"
        or need_of(status.repair.needs) == "human"
        or bool(why)
    )
    if not needed and board is not None and isinstance(board.verdict, Healthy):
        # The GPU is healthy, but only a user can confirm that the fault is over.
        needed = recovery.is_word_needed(board, incident) or not board.machine.agent.confirmable
    if needed:
        return ""
    return (
        f"{incident.name} needs no confirmation (phase {status.phase}): "
        "the GPU is untainted automatically once it is healthy for the soak time"
    )
