"""Who the caller is, as the API server knows them (SelfSubjectReview)."""

import msgspec

from kubeapi.client import UNREADABLE, ApiError, Client

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _User = _User()


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


def caller(client: Client) -> str:
    """Return the user name of whoever asks. Raises ApiError."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        found = msgspec.json.decode(client.create(REVIEW, body), type=_Review)
    except UNREADABLE as error:
        raise ApiError(f"POST {REVIEW}: the answer is no review ({error})") from error
    return found.status.user_info.username
