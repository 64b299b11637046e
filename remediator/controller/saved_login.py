"""Saves a renewed OIDC login in its kubeconfig, which other programs may change meanwhile."""

import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp
from time import monotonic, sleep

import yaml

_LONGEST_LOCK = 2.0
"""Seconds that another program may need to write the file."""


def save_login(file: Path, user: str, keys: Mapping[str, str], used: str) -> None:
    """Put keys of the provider's answer into a user's entry; the rest stays as it is now.

    An entry that is gone, or no longer has the refresh token that was used, stays as well: the user
    has logged out, or another program has renewed the login. Raises OSError with the reason.
    """
    with _lock(file):
        try:
            content = yaml.safe_load(file.read_bytes())
            for entry in content["users"]:
                if entry["name"] != user:
                    continue
                config = entry["user"]["auth-provider"]["config"]
                if config["refresh-token"] == used:
                    config.update(keys)
                    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
                    _write_whole(Path(os.path.realpath(file)), text)
                return
        except (yaml.YAMLError, AttributeError, LookupError, TypeError, ValueError):
            raise OSError(f"{file} no longer has a login of this form") from None


@contextmanager
def _lock(file: Path) -> Generator[None]:
    """Hold the file that kubectl creates while it writes a kubeconfig."""
    lock, deadline = Path(f"{file}.lock"), monotonic() + _LONGEST_LOCK
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            break
        except FileExistsError:
            if monotonic() > deadline:
                why = f"another program holds {lock}; remove it if none does"
                raise OSError(why) from None
            sleep(0.05)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _write_whole(file: Path, text: str) -> None:
    """Replace a file at once, so that a full disk leaves the old one."""
    old = file.stat()
    descriptor, name = mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as new:
            os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
            new.write(text)
            new.flush()
            os.fsync(descriptor)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink()
        raise
