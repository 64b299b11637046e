"""The HTTP front over real sockets, with clients that behave and clients that do not."""

import contextlib
import gzip
import http.client
import select
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from serving import connection
from serving.front import Front, FrontError, Request, Response, parse_listen
from serving.negotiation import exposition, wants_gzip

PAGE = b"up 1\n" * 1000


def metrics(request: Request) -> Response:
    body, encoding = PAGE, ""
    if wants_gzip(request.accept_encoding):
        body, encoding = gzip.compress(PAGE), "gzip"
    return Response(200, exposition(request.accept).value, body, encoding)


def echo(request: Request) -> Response:
    return Response(body=repr(sorted(request.query.items())).encode())


def broken(_request: Request) -> Response:
    raise RuntimeError("no page")


def healthy(_request: Request) -> Response:
    return Response(body=b"ok\n")


ROUTES = {"/metrics": metrics, "/healthz": healthy, "/broken": broken}


@pytest.fixture
def front() -> Iterator[Front]:
    served = Front("127.0.0.1:0", {**ROUTES, "/echo": echo}, connections=4)
    served.start()
    yield served
    served.stop()


@pytest.fixture
def http_client(front: Front) -> Iterator[http.client.HTTPConnection]:
    link = http.client.HTTPConnection("127.0.0.1", front.port, timeout=60)
    yield link
    link.close()


def raw(front: Front, sent: bytes = b"") -> socket.socket:
    link = socket.create_connection(("127.0.0.1", front.port), timeout=60)
    try:
        link.sendall(sent)
    except OSError:
        link.close()
        raise
    return link


def everything(link: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    with link:
        return b"".join(iter(lambda: link.recv(65536), b""))


def test_one_connection_serves_scrape_after_scrape(http_client: http.client.HTTPConnection) -> None:
    sockets: set[int] = set()
    for _ in range(3):
        http_client.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text"})
        answer = http_client.getresponse()
        assert answer.read() == PAGE
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        assert http_client.sock is not None
        sockets.add(id(http_client.sock))
    assert len(sockets) == 1


def test_a_compressed_page_is_marked_as_such(http_client: http.client.HTTPConnection) -> None:
    http_client.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
    answer = http_client.getresponse()
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert gzip.decompress(answer.read()) == PAGE


def test_head_has_the_headers_of_get_and_no_body(http_client: http.client.HTTPConnection) -> None:
    http_client.request("HEAD", "/metrics")
    answer = http_client.getresponse()
    assert answer.read() == b""
    assert answer.headers["content-length"] == str(len(PAGE))
    http_client.request("GET", "/healthz")
    assert http_client.getresponse().read() == b"ok\n"


def test_an_unknown_path_gets_a_list_of_what_there_is(
    http_client: http.client.HTTPConnection,
) -> None:
    http_client.request("GET", "/nothing")
    answer = http_client.getresponse()
    assert answer.status == 404
    assert answer.read() == b"/nothing is not here. There is:\n/broken\n/echo\n/healthz\n/metrics\n"


def test_the_query_reaches_the_handler(http_client: http.client.HTTPConnection) -> None:
    http_client.request("GET", "/echo?a=1&b=2&a=3")
    assert http_client.getresponse().read() == b"[('a', '3'), ('b', '2')]"


def test_a_handler_that_fails_costs_a_500_and_no_more(
    http_client: http.client.HTTPConnection, caplog: pytest.LogCaptureFixture
) -> None:
    http_client.request("GET", "/broken")
    answer = http_client.getresponse()
    assert (answer.status, answer.read()) == (500, b"this page failed; the log says why\n")
    assert "no page" in caplog.text
    http_client.request("GET", "/healthz")
    assert http_client.getresponse().status == 200


def test_other_methods_are_refused(http_client: http.client.HTTPConnection) -> None:
    http_client.request("POST", "/metrics", body=b"x" * 100)
    answer = http_client.getresponse()
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_what_is_no_request_ends_the_connection_and_nothing_else(front: Front, sent: bytes) -> None:
    got = b""
    with contextlib.suppress(ConnectionError):  # it closed with unread bytes of ours
        got = everything(raw(front, sent))
    assert not got or b" 400 " in got or b" 50" in got or b" 431 " in got
    assert everything(raw(front, b"GET /healthz HTTP/1.0\r\n\r\n")).endswith(b"ok\n")


def test_requests_that_come_in_one_piece_are_answered_in_order(front: Front) -> None:
    first = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"
    last = b"GET /echo?n=2 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    got = everything(raw(front, first + last))
    assert got.count(b"HTTP/1.1 200") == 2
    assert got.index(b"ok\n") < got.index(b"[('n', '2')]")


def test_a_request_with_a_body_does_not_smuggle_a_second_one(front: Front) -> None:
    inner = b"GET /metrics HTTP/1.1\r\n\r\n"
    head = b"GET /healthz HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(inner)
    got = everything(raw(front, head + inner))
    assert got.count(b"HTTP/1.1 ") == 1


def test_clients_that_never_finish_their_request_are_put_out(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.3)
    with raw(front, b"GET /metrics HTTP/1.1\r\nx: ") as link, pytest.raises(ConnectionError):
        _dawdle(link)


def _dawdle(link: socket.socket) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        link.sendall(b"y")
        time.sleep(0.05)


def test_clients_that_take_all_places_and_say_nothing_keep_nobody_out(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fixture has four places; whoever idles longest has to go, and not by a deadline."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 300.0)
    idle = [raw(front, b"GET /metrics HTTP/1.1\r\nslow: ") for _ in range(20)]
    for _ in range(3):
        got = everything(raw(front, b"GET /healthz HTTP/1.0\r\n\r\n"))
        assert got.endswith(b"ok\n")
    end = time.monotonic() + 60
    while len(select.select(idle, [], [], 0)[0]) < 16:  # an end can be read
        assert time.monotonic() < end
        time.sleep(0.02)
    for link in idle:
        link.close()


def test_a_client_that_does_not_read_its_answer_holds_up_nobody(front: Front) -> None:
    request = b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n"
    deaf = raw(front)
    deaf.settimeout(0)
    try:
        for _ in range(20000):
            deaf.send(request)
    except BlockingIOError:
        pass
    assert everything(raw(front, b"GET /healthz HTTP/1.0\r\n\r\n")).endswith(b"ok\n")
    deaf.close()


def test_where_no_thread_can_be_started_the_front_goes_on(front: Front) -> None:
    threading.stack_size(1 << 60)  # beyond every address space, however memory is lent
    try:
        assert everything(raw(front)) == b""
    finally:
        threading.stack_size(0)
    assert everything(raw(front, b"GET /healthz HTTP/1.0\r\n\r\n")).endswith(b"ok\n")


def test_stopping_ends_open_connections_at_once(front: Front) -> None:
    links = [raw(front), raw(front, b"GET /healthz HTTP/1.1\r\n\r\n")]
    assert links[1].recv(1000)
    began = time.monotonic()
    front.stop()
    assert time.monotonic() - began < 60.0  # of two minutes that an idle one may stay
    assert links[0].recv(1) == b""
    for link in links:
        link.close()
    with pytest.raises(FrontError):
        _ = front.port


def test_an_address_in_use_is_reported_with_what_to_do(front: Front) -> None:
    second = Front(f"127.0.0.1:{front.port}", ROUTES)
    with pytest.raises(FrontError, match=r"cannot listen on .*in use.*choose another"):
        second.start()


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("127.0.0.1:9400", ("127.0.0.1", 9400)),
        (":9400", ("", 9400)),
        ("[::1]:0", ("::1", 0)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),  # noqa: S104 - text to parse
    ],
)
def test_addresses_are_read_with_and_without_host(listen: str, expected: tuple[str, int]) -> None:
    assert parse_listen(listen) == expected


@pytest.mark.parametrize("listen", ["", "9400", "host:", "host:x", "host:70000", "host:-1"])
def test_an_address_that_is_none_is_refused(listen: str) -> None:
    with pytest.raises(FrontError, match="write host:port"):
        parse_listen(listen)


def test_all_addresses_are_those_of_both_families() -> None:
    wide = Front(":0", ROUTES)
    wide.start()
    try:
        requested = b"GET /healthz HTTP/1.0\r\n\r\n"
        assert everything(raw(wide, requested)).endswith(b"ok\n")
        with contextlib.suppress(OSError):  # a machine without IPv6
            link = socket.create_connection(("::1", wide.port), timeout=60)
            link.sendall(requested)
            assert everything(link).endswith(b"ok\n")
    finally:
        wide.stop()
