"""The commit that a release is made of: what its files say of their origin instead of the clock."""

import subprocess
from datetime import UTC, datetime
from typing import NamedTuple, Self

from deploy.sources import ROOT
from simulator.compiler import BuildError

_ALWAYS = 315532800
"""1980-01-01, the first day that a ZIP file can name."""


class Commit(NamedTuple):
    """A commit's name, and its time in seconds since 1970."""

    revision: str
    """With `-dirty` behind it if files differ; "" outside of a checkout of git."""
    seconds: int

    @property
    def when(self) -> datetime:
        """Return the time."""
        return datetime.fromtimestamp(self.seconds, UTC)

    @classmethod
    def here(cls) -> Self:
        """Return the commit of this checkout; without one, a time that is always the same.

        Raises BuildError where git cannot read the checkout, such as another user's.
        """
        if not (ROOT / ".git").exists():
            return cls("", _ALWAYS)
        name = _git("describe", "--always", "--abbrev=40", "--exclude=*", "--dirty")
        return cls(name, int(_git("log", "-1", "--format=%ct")))


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
        )
    except OSError as error:
        raise BuildError(f"git did not run: {error}") from error
    if done.returncode:
        raise BuildError(f"git cannot read this checkout: {done.stderr.strip()}")
    return done.stdout.strip()
