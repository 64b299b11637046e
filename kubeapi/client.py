"""The API server's verbs: paths and JSON in, JSON out, every failure an `ApiError`.

No models and no retries: callers decode what they need with msgspec and decide what a repeated
write means. Safe to use from any thread.
"""

import contextlib
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from time import monotonic
from urllib.parse import urlencode

import msgspec

from kubeapi import nesting
from kubeapi.clock_offset import ServerClock
from kubeapi.endpoint import Credentials, Endpoint, EndpointError
from kubeapi.transport import Answer, Transport, TransportError

JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""What to accept where the metadata of one object, or of each watched one, is enough."""
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
"""Not for custom resources; they have no merge keys and answer 415."""
LONGEST_RETRY_AFTER = 60.0
"""Seconds of Retry-After that are heeded: a proxy before the server may request a day, and an agent
that waits so long counts as dead. A higher cap would be a way to switch us off."""
MAX_LINE = 16 << 20
"""Bytes of one watch event; etcd stores objects of 1.5 MB."""

UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
"""What decoding an answer may raise: it is no such JSON, no UTF-8, or nested too deep."""

OnAnswer = Callable[[str, int | None], None]
"""Called for each answer: the verb (GET, WATCH...) and the HTTP status, None when none came."""


_WARNING = re.compile(r'\b299 [^\s"]+ "((?:[^"\\]|\\.)*)"')
"""One value of a Warning header as API servers send it (RFC 7234, section 5.5)."""


class ApiError(Exception):
    """The API server refused, or did not answer (`status` None)."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        retry_after: float = 0.0,
        causes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        """`reason` of the Kubernetes Status, such as AlreadyExists; empty when there is none."""
        self.retry_after = retry_after
        """Seconds to wait as the server requested, LONGEST_ASKED at most; 0 when it did not."""
        self.causes = causes
        """`details.causes` in words: which PodDisruptionBudget refuses, which field is wrong."""


class NotFound(ApiError):  # noqa: N818 - the API's own name of the answer
    """404: no such object, or no such collection."""


class Conflict(ApiError):  # noqa: N818 - the API's own name of the answer
    """409: another client was first; `reason` distinguishes AlreadyExists from a stale write."""


class Gone(ApiError):  # noqa: N818 - the API's own name of the answer
    """410: the resource version is too old to go on from."""


_KINDS: dict[int, type[ApiError]] = {404: NotFound, 409: Conflict, 410: Gone}


class _Cause(msgspec.Struct, frozen=True):
    message: str = ""


class _Details(msgspec.Struct, frozen=True):
    causes: tuple[_Cause, ...] | None = None


class _Status(msgspec.Struct, frozen=True):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


_statuses = msgspec.json.Decoder(_Status)


def error_of(doing: str, status: int, body: bytes, retry_after: float = 0.0) -> ApiError:
    """Turn a refusal, a Kubernetes Status or anything else, into the error to raise."""
    try:
        status_ = _statuses.decode(body)
    except UNREADABLE:
        status_ = _Status(message=body[:200].decode(errors="replace").strip())
    message = (
        f"{doing}: {status} {status_.reason}".rstrip() + f": {status_.message or 'no reason given'}"
    )
    kind = _KINDS.get(status, ApiError)
    found = (status_.details.causes if status_.details else None) or ()
    causes = tuple(cause.message for cause in found if cause.message)
    return kind(
        message, status=status, reason=status_.reason, retry_after=retry_after, causes=causes
    )


class Client:
    """One identity at one API server. `timeout` bounds each request as a whole, in seconds.

    `agent` is what the server's audit log and metrics call this client.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout: float = 10.0,
        agent: str = "draguard",
        on_answer: OnAnswer = lambda _verb, _status: None,
        server_clock: ServerClock | None = None,
    ) -> None:
        nesting.allow()
        self.server_clock = server_clock or ServerClock()
        """Shared with every sibling."""
        self.endpoint = endpoint
        self._timeout = timeout
        self._agent = agent
        self._on_answer = on_answer
        self._transport = Transport(endpoint)
        self._credentials = Credentials(endpoint)

    def sibling(self, timeout: float | None = None) -> "Client":
        """Open a client with the same identity and connections of its own."""
        return Client(
            self.endpoint,
            timeout=self._timeout if timeout is None else timeout,
            agent=self._agent,
            on_answer=self._on_answer,
            server_clock=self.server_clock,
        )

    def get(
        self, path: str, params: Mapping[str, str] | None = None, *, accept: str = JSON
    ) -> bytes:
        return self._ask("GET", path, params, accept=accept)

    def create(self, path: str, body: object, params: Mapping[str, str] | None = None) -> bytes:
        return self._ask("POST", path, params, body)

    def replace(
        self,
        path: str,
        body: object,
        params: Mapping[str, str] | None = None,
        *,
        accept: str = JSON,
        on_warning: Callable[[str], None] | None = None,
    ) -> bytes:
        """Put an object in the place of the stored one.

        `on_warning` gets each sentence that the server sent beside an accepted write, such as
        `unknown field "status.x"` for a field that it did not store.
        """
        return self._ask("PUT", path, params, body, accept=accept, on_warning=on_warning)

    def merge_patch(
        self,
        path: str,
        body: object,
        params: Mapping[str, str] | None = None,
    ) -> bytes:
        """Patch by RFC 7396: what is not named stays, lists are replaced whole."""
        return self._ask("PATCH", path, params, body, MERGE_PATCH)

    def strategic_merge_patch(self, path: str, body: object) -> bytes:
        """Patch a built-in object by its merge keys: of a list only the named entries change."""
        return self._ask("PATCH", path, None, body, STRATEGIC_MERGE_PATCH)

    def delete(
        self, path: str, body: object = None, params: Mapping[str, str] | None = None
    ) -> bytes:
        """Delete; `body` is a DeleteOptions, for preconditions or a grace period."""
        return self._ask("DELETE", path, params, body)

    @contextlib.contextmanager
    def stream(
        self, path: str, params: Mapping[str, str], *, idle_timeout: float, accept: str = JSON
    ) -> Generator[Iterator[bytes]]:
        """Open a watch; gives its lines. ApiError when no line came for `idle_timeout` seconds."""
        doing = f"WATCH {path}"
        headers = {"accept": accept}
        answer = self._send(
            doing, _with(path, params), body=None, headers=headers, timeout=idle_timeout
        )
        try:
            if answer.status != 200:
                raise self._refusal(doing, answer)
            yield _lines(doing, answer, idle_timeout)
        finally:
            answer.close()

    def abort(self) -> None:
        """Make requests under way in other threads fail at once, and all later ones."""
        self._transport.abort()

    def close(self) -> None:
        self._transport.close()

    def _ask(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: object = None,
        content_type: str = JSON,
        *,
        accept: str = JSON,
        on_warning: Callable[[str], None] | None = None,
    ) -> bytes:
        doing = f"{method} {path}"
        deadline = monotonic() + self._timeout
        payload = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        headers = {"accept": accept}
        headers |= {"content-type": content_type} if payload is not None else {}
        answer = self._send(
            doing, _with(path, params), body=payload, headers=headers, timeout=self._timeout
        )
        try:
            if not 200 <= answer.status < 300:
                raise self._refusal(doing, answer)
            content = answer.body(deadline)
        except TransportError as error:
            raise ApiError(f"{doing}: {error}") from error
        finally:
            answer.close()
        if on_warning is not None:
            for sentence in warnings(answer.headers.get("warning")):
                on_warning(sentence)
        return content

    def _send(
        self,
        doing: str,
        path: str,
        *,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> Answer:
        verb = doing.split(" ", 1)[0]
        method = "GET" if verb == "WATCH" else verb
        try:
            known = {"accept-encoding": "gzip", "user-agent": self._agent}
            identity = self._credentials.headers()
            answer = self._transport.send(
                method, path, body=body, headers=known | identity | dict(headers), timeout=timeout
            )
        except (TransportError, EndpointError) as error:
            self._on_answer(verb, None)
            raise ApiError(f"{doing}: {error}") from error
        self._on_answer(verb, answer.status)
        if answer.status == 401:
            self._credentials.refused(identity)
        self.server_clock.dated(answer.headers.get("date"))
        return answer

    def _refusal(self, doing: str, answer: Answer) -> ApiError:
        try:
            body = answer.body(monotonic() + self._timeout)
        except TransportError:
            body = b""
        # A Retry-After with a date is none, as servers send none.
        text = answer.headers.get("retry-after")
        seconds = float(text) if text and text.isascii() and text.isdigit() else 0.0
        return error_of(doing, answer.status, body, min(seconds, LONGEST_RETRY_AFTER))


def warnings(header: str | None) -> list[str]:
    """Return the sentences in a Warning header, several of which may be joined by commas."""
    texts = _WARNING.findall(header or "")
    return [re.sub(r"\\(.)", r"\1", text) for text in texts]


def _with(path: str, params: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(params)}" if params else path


def _lines(doing: str, answer: Answer, idle_timeout: float) -> Iterator[bytes]:
    """Cut the body into lines; a last line without its end is dropped, as it may be half."""
    rest = bytearray()
    last_read = monotonic()
    try:
        for piece in answer.chunks():
            rest += piece
            *lines, rest = rest.split(b"\n") if b"\n" in piece else [rest]
            if lines:
                last_read = monotonic()
                yield from (bytes(line) for line in lines if line.strip())
            elif monotonic() - last_read > idle_timeout:
                raise TransportError("no complete event in time")
            if len(rest) > MAX_LINE:
                raise TransportError(f"an event is larger than {MAX_LINE >> 20} MiB")
    except TransportError as error:
        raise ApiError(f"{doing}: {error}") from error
