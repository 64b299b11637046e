"""Texts and objects into a tar archive: the one door, and nothing passes it with its secrets.

The archive says itself what is in it and what is missing: `manifest.txt`.
"""

import io
import json
import tarfile
from collections.abc import Iterable
from datetime import datetime
from typing import IO

import msgspec

from draguard.bundle.pseudonyms import Pseudonyms
from draguard.redaction import redacted, redacted_object
from draguard.render.blocks import Facts, Lines, Table
from draguard.render.plain import plain

LARGEST = 32 << 20
"""Bytes of one file; what is beyond them is left out, and the manifest says so."""
MANIFEST = "manifest.txt"
_MODE = 0o600


class Entry(msgspec.Struct, frozen=True):
    """A line of the manifest."""

    file: str
    size: int = 0
    note: str = ""
    """What is left out of the file, or why there is none."""
    missing: bool = False


class Archive:
    """Writes a gzipped tar. `secrets` are known ones, which are masked wherever they stand."""

    def __init__(
        self,
        file: IO[bytes],
        folder: str,
        at: datetime,
        *,
        secrets: Iterable[str] = (),
        pseudonyms: Pseudonyms | None = None,
    ) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w:gz")  # noqa: SIM115 - `close` ends it
        self._folder = folder
        self._at = at
        self._secrets = tuple(secrets)
        self._pseudonyms = pseudonyms
        self.entries: list[Entry] = []

    def text(self, file: str, text: str, note: str = "") -> None:
        """Add a text."""
        safe = redacted(text, self._secrets)
        if self._pseudonyms is not None:
            safe = self._pseudonyms.text(safe)
        self._add(file, safe, note)

    def object(self, file: str, content: object, note: str = "") -> None:
        """Add decoded JSON."""
        safe = redacted_object(content, self._secrets)
        if self._pseudonyms is not None:
            safe = self._pseudonyms.object(safe)
        self._add(file, json.dumps(safe, indent=1, ensure_ascii=False) + "\n", note)

    def lacks(self, file: str, why: str) -> None:
        """Say that a part could not be read."""
        why = redacted(why, self._secrets)
        if self._pseudonyms is not None:
            why = self._pseudonyms.text(why)
        self.entries.append(Entry(file, note=why, missing=True))

    def close(self, facts: Iterable[tuple[str, str]]) -> None:
        """Add the manifest, with facts at its top, and end the archive."""
        rows = tuple(
            (
                "missing" if entry.missing else "ok",
                entry.file,
                "" if entry.missing else str(entry.size),
                entry.note,
            )
            for entry in self.entries
        )
        blocks = (
            Facts(tuple(facts)),
            Table(("STATE", "FILE", "BYTES", "NOTE"), rows),
            Lines(("values of secrets, of environment variables and of Secrets are left out",)),
        )
        self.text(MANIFEST, plain(blocks))
        self._tar.close()

    def _add(self, file: str, text: str, note: str) -> None:
        content = text.encode("utf-8", "backslashreplace")
        if len(content) > LARGEST:
            content = content[:LARGEST]
            cut = f"cut after {LARGEST >> 20} MiB"
            note = f"{note}; {cut}" if note else cut
        info = tarfile.TarInfo(f"{self._folder}/{file}")
        info.size, info.mode, info.mtime = len(content), _MODE, int(self._at.timestamp())
        self._tar.addfile(info, io.BytesIO(content))
        self.entries.append(Entry(file, len(content), note))
