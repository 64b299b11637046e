"""The policy file: read again when it changed; while it is bad, the last good policy stays.

An exemption that expires changes the policy in force, as a new file does. `load` reports both as a
change, so that every node is decided again.
"""

import errno
import logging
import os
import stat
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from kubeapi import clock
from remediator.policy.error import PolicyError
from remediator.policy.limits import describe_limits
from remediator.policy.load import LARGEST, read
from remediator.policy.table import Policy

_log = logging.getLogger(__name__)
UNSETTLED = 10
"""Looks in a row with another text each: writing a file takes fewer, so these are an error."""


def _ignore(policy: Policy) -> None:
    """Ignore a change of the policy."""


class PolicyFile:
    """The policy in force. A file that turns bad changes nothing but `error`.

    A text counts once two looks in a row found it. One that is still being written may be a valid
    policy already, and a milder one.

    `before_change` is called with each changed policy before it is in force, because others may act
    on it from then on. A file that was never good gives no policy at all (`ready` is False): the
    shipped policy would remove every rule that an earlier good file led to.
    """

    def __init__(
        self,
        path: Path | None,
        now: Callable[[], datetime] = clock.now,
        before_change: Callable[[Policy], None] = _ignore,
    ) -> None:
        self._path = path
        self._now = now
        self._before_change = before_change
        self._seen: bytes | None = None
        """What the last look found."""
        self._differed = 0
        """How many looks in a row found another text than the one before."""
        self._text: bytes | None = None
        """What was last judged, good or bad."""
        self._good: Policy | None = None
        """The policy of the file when it was last good, with exemptions that expired since."""
        self.policy: Policy = Policy()
        self.ready = path is None
        self.error = ""

    def load(self) -> bool:
        """Read the file if it changed; return whether the policy in force changed."""
        if self._path is None:
            return False
        try:
            self._look(self._path)
        except (OSError, PolicyError) as error:
            self._keep(f"policy {self._path}: {error}", gone=isinstance(error, OSError))
        if self._good is None:
            return False
        lasting = self._good.at(self._now())
        changed = lasting != self.policy or not self.ready
        if changed:
            self._before_change(lasting)
        self.policy, self.ready = lasting, True
        return changed

    def _look(self, path: Path) -> None:
        # Compare the text, not the date: two versions of the same length may be written within one
        # tick of the kernel's clock.
        # Without waiting: a FIFO would stop the loop until something writes into it.
        with open(path, "rb", opener=lambda at, how: os.open(at, how | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "no regular file", str(path))
            text = file.read(LARGEST + 1)  # one byte too many tells that it is too long
        again, self._seen = text == self._seen, text
        self._differed = 0 if again else self._differed + 1
        if self._differed >= UNSETTLED:
            self._text = None  # when one text stays, it is read, even if it was read before
            raise PolicyError(f"it changes at each look, {UNSETTLED} times in a row or more")
        if not again or text == self._text:
            return
        self._text = text
        self._good = read(text)
        self.error = ""
        _log.info("policy %s: %s", path, describe_policy(self._good))

    def _keep(self, error: str, *, gone: bool) -> None:
        if gone:
            self._seen = self._text = None  # the same file may come back
        goes_on = (
            "the last good policy stays in force"
            if self.ready
            else "nothing is done until it can be read"
        )
        if error != self.error:
            _log.error("%s; %s", error, goes_on)
        self.error = error


def describe_policy(policy: Policy) -> str:
    """Return the policy as one line for the log."""
    parts = [
        ", ".join(f"{row.fault_class} {row.mode} up to {row.highest}" for row in policy.rows),
        ", ".join(f"{name}={value}" for name, value, _ in describe_limits(policy.limits)),
    ]
    parts += [
        f"{len(several)} {what}"
        for several, what in (
            (policy.overrides, "overrides"),
            (policy.maintenance, "maintenance windows"),
            (policy.exempt, "exemptions"),
        )
        if several
    ]
    return "; ".join([*parts, *([f"emergency stop: {policy.stopped}"] if policy.stopped else [])])
