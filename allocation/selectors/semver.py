"""Semantic versions, read and ordered as by github.com/blang/semver/v4. Pure."""

import re
from typing import NamedTuple

_NUMBER = r"(0|[1-9][0-9]*)"
_FORM = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]*))?(?:\+([0-9A-Za-z.-]*))?", re.ASCII
)
_MOST = 2**64 - 1
LONGEST = 256
"""Characters of a version; an attribute has 64 at most."""


class SemverError(ValueError):
    """A text that is no semantic version."""


class Semver(NamedTuple):
    """A version without its build metadata, which counts for nothing."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()

    def __str__(self) -> str:
        version = f"{self.major}.{self.minor}.{self.patch}"
        return f"{version}-{'.'.join(self.pre)}" if self.pre else version

    @property
    def order(self) -> tuple[object, ...]:
        """Return what orders versions: a release comes after its pre-releases."""
        parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.pre)
        return self.major, self.minor, self.patch, not self.pre, parts


def parse(text: str, *, normalize: bool = False) -> Semver:
    """Return a version. Raises SemverError.

    `normalize` as in Kubernetes' CEL library: without a leading `v` and leading zeros, and with
    zeros for a minor and a patch that are missing.
    """
    found = (
        _FORM.fullmatch(_normalized(text) if normalize else text) if len(text) <= LONGEST else None
    )
    if found is None:
        raise SemverError(f"{text[:LONGEST]!r} is no semantic version such as 1.2.3")
    numbers = [int(found[part]) for part in (1, 2, 3)]
    pre = tuple(found[4].split(".")) if found[4] is not None else ()
    build = found[5].split(".") if found[5] is not None else []
    wrong = "" in pre or "" in build or max(numbers) > _MOST or any(map(_is_padded, pre))
    if wrong:
        raise SemverError(f"{text} is no semantic version such as 1.2.3")
    return Semver(numbers[0], numbers[1], numbers[2], pre)


def _is_padded(part: str) -> bool:
    """Whether a part is a number with leading zeros, or one that fits no uint64."""
    return part.isdigit() and ((len(part) > 1 and part[0] == "0") or int(part) > _MOST)


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for place, part in enumerate(parts):
        if len(part) > 1:
            bare = part.lstrip("0")
            parts[place] = bare if bare[:1].isdigit() else f"0{bare}"
    if len(parts) < 3 and set("+-") & set(parts[-1]):
        raise SemverError(f"{text} is too short for a pre-release or build metadata")
    return ".".join(parts + ["0"] * (3 - len(parts)))
