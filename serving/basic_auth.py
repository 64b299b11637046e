"""Basic auth with bcrypt hashes: the one door to bcrypt.

A bcrypt check is slow on purpose (60 ms and more), and a scraper sends its
password each time: what was right once is remembered under a key that lives as
long as the process.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Mapping

import bcrypt

_REMEMBERED = 64
_LONGEST = 1024
"""Bytes of an Authorization header that are looked at."""
_NOBODY = bcrypt.hashpw(secrets.token_bytes(16), bcrypt.gensalt(10)).decode()
"""Checked for users that do not exist, so that the time tells nothing."""


def matches(password: bytes, known: str) -> bool:
    """Say whether a password has this bcrypt hash; slow on purpose."""
    try:
        # bcrypt reads 72 bytes; exporters written in Go refuse longer ones, and so do we.
        return len(password) <= 72 and bcrypt.checkpw(password, known.encode())
    except ValueError:
        return False


class Users:
    """Names with bcrypt hashes."""

    def __init__(
        self, hashes: Mapping[str, str], check: Callable[[bytes, str], bool] = matches
    ) -> None:
        self._hashes = dict(hashes)
        self._check = check
        self._key = secrets.token_bytes(32)
        self._right: dict[bytes, None] = {}
        self._lock = threading.Lock()

    def admits(self, authorization: str) -> bool:
        """Say whether a header `Basic …` names a user with the right password."""
        user, password = _credentials(authorization)
        if user is None:
            return False
        known = self._hashes.get(user, _NOBODY)
        token = hmac.digest(self._key, f"{user}\0{known}\0".encode() + password, hashlib.sha256)
        # Before the lock: who is known does not wait until the passwords of others are checked.
        if token in self._right:
            return True
        with self._lock:
            if token in self._right:
                return True
            # One at a time: a flood of wrong passwords takes one core, not all.
            right = self._check(password, known) and user in self._hashes
            if right:
                while len(self._right) >= _REMEMBERED:
                    del self._right[next(iter(self._right))]
                self._right[token] = None
        return right


def _credentials(authorization: str) -> tuple[str | None, bytes]:
    scheme, _, encoded = authorization[:_LONGEST].partition(" ")
    if scheme.lower() != "basic":
        return None, b""
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode() if colon else None), password
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None, b""
