"""Who asks, as the API server knows them, and what time it is there (SelfSubjectReview)."""

from datetime import datetime

import msgspec

from exporter.model.node_health import Moment
from kubeapi.client import UNREADABLE, ApiError, Client

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


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
    """The server's clock when it was asked, in whole seconds; None where it does not say."""


def caller(client: Client) -> Caller:
    """Ask who is asking. Raises ApiError."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        found = msgspec.json.decode(client.create(REVIEW, body), type=_Review)
    except UNREADABLE as error:
        raise ApiError(f"POST {REVIEW}: the response is not a review ({error})") from error
    return Caller(found.status.user_info.username, found.metadata.creation_timestamp)
