"""A SelfSubjectReview into the caller's user name and the time by the API server's clock.

The cluster's clocks decide whether an agent is alive and when an intent ends. A user's clock may be
hours off: a laptop that has slept would report every agent as stale.
"""

from datetime import datetime, timedelta

import msgspec

from kubeapi import clock
from kubeapi.client import UNREADABLE, ApiError, Client
from kubeapi.types import Moment

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_EXACT = timedelta(seconds=3)
"""A smaller difference counts as none: the time is in whole seconds and arrives with a delay."""


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _User = _User()


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    creation_timestamp: Moment | None = None


class _Review(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    status: _Status = _Status()


class Caller(msgspec.Struct, frozen=True):
    name: str
    """User name; "" where the server does not say."""
    at: datetime | None
    """The server's clock at the request, in whole seconds; None where it does not say."""


def caller(client: Client) -> Caller:
    """Return the caller's user name and the server's time. Raises ApiError."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        found = msgspec.json.decode(client.create(REVIEW, body), type=_Review)
    except UNREADABLE as error:
        raise ApiError(f"POST {REVIEW}: the response is not a review ({error})") from error
    return Caller(found.status.user_info.username, found.metadata.creation_timestamp)


def ahead(client: Client) -> timedelta:
    """Return how far the server's clock is ahead of ours; 0 if it does not say."""
    try:
        return ahead_by(caller(client))
    except ApiError:
        return timedelta()


def ahead_by(who: Caller) -> timedelta:
    """Return the same from an answer that has just arrived."""
    if who.at is None:
        return timedelta()
    difference = who.at - clock.now()
    return difference if abs(difference) > _EXACT else timedelta()


def now(difference: timedelta) -> datetime:
    """Return the server's time."""
    return clock.now() + difference
