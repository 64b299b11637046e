"""SHA-256 of files, in the form that `sha256sum --check` reads."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def sha256(path: Path) -> str:
    """Return the digest of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sums(paths: Iterable[Path]) -> str:
    """Return one line for each file, by name."""
    return "".join(f"{sha256(path)}  {path.name}\n" for path in sorted(paths))
