"""Users and their passwords, without a socket: who is admitted, and what is hashed for it."""

import base64
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import bcrypt
import pytest

from serving.basic_auth import Users, matches

HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic !!!",
        "Bearer x",
        "Basic c2NyYXBlcg==",
        "Basic " + "A" * 5000,
        "Basic //8=",
    ],
)
def test_a_header_that_is_no_password_admits_nobody(header: str) -> None:
    assert not Users({"scraper": HASH}).admits(header)


def test_what_was_right_once_is_not_hashed_again() -> None:
    hashed: list[bytes] = []

    def check(password: bytes, known: str) -> bool:
        hashed.append(password)
        return matches(password, known)

    users = Users({"scraper": HASH}, check)
    for password in ("secret", "secret", "other", "other"):
        header = "Basic " + base64.b64encode(f"scraper:{password}".encode()).decode()
        assert users.admits(header) == (password == "secret")
    assert hashed == [b"secret", b"other", b"other"]


def test_who_is_known_does_not_wait_while_wrong_passwords_are_checked() -> None:
    checking, go = threading.Event(), threading.Event()

    def check(password: bytes, known: str) -> bool:
        if password == b"wrong":
            checking.set()
            assert go.wait(120)
        return matches(password, known)

    def admits(password: str) -> bool:
        return users.admits("Basic " + base64.b64encode(f"scraper:{password}".encode()).decode())

    users = Users({"scraper": HASH}, check)
    assert admits("secret")
    with ThreadPoolExecutor() as pool:
        intruder = pool.submit(admits, "wrong")
        assert checking.wait(60)
        scraper = pool.submit(admits, "secret")
        done, _ = wait([scraper], timeout=60)
        go.set()
        assert done
        assert (scraper.result(), intruder.result()) == (True, False)
