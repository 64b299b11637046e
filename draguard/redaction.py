"""What is secret in a text or in an object, masked: tokens, passwords, private keys. Pure.

Texts of others may hold a secret anywhere. Where it is unclear how far one goes, too much is
masked.
"""

import re
from collections.abc import Iterable
from typing import cast

MASK = "<redacted>"
_WORDS = (
    r"pass(?:word|wd|phrase)?|pwd|secret|tok(?:en|n)?s?|credentials?|authorization|cookie"
    r"|(?:api|access|private|integration|routing|service|account|shared)[-_. ]?key"
)
_BEGIN = r"(?<![\w.-])"
"""Where a word begins: to try each of its letters takes hours in a text of one long word."""
_NAME = rf"[\w.-]{{0,80}}(?:{_WORDS})(?:[-_.]?(?:id|key|value|data|header|text))?"
"""How a key is called whose value is a secret: `DB_PASSWORD`, `apiKey`, `x-auth-token`."""
_IS_KEY = r"(?=[\w.-]++(?: key)?+\\*+[\"']?\s*+[:=])"
"""Looks first whether a word is a key at all: few are, and the names of secrets are many."""
_PLAIN = r"(?!(?:true|false|null|none|~|\d{1,3})[\s}\]]*(?:,(?=[\s\"]|$)|$))"
"""Not before what is no secret, whatever it is called: `automountServiceAccountToken: false`."""
_SEPARATOR = r"\\*[\"']?\s*[:=]\s*"
_QUOTED = (
    r"(?P<escaped>\\+)\"(?:.*?)(?=(?<!\\)(?P=escaped)\"|$)",  # in a text of JSON in JSON
    r"(?P<double>\")(?:[^\"\\]|\\.)*",
    r"(?P<single>')(?:[^'\\]|\\.|'')*",
)
_TO_THE_END = r"(?<=: )[^\n]+"
"""A value of YAML, or of a header, may have spaces."""
_BARE = r"[^\s\"'\\]+"
_VALUE = "|".join((*_QUOTED, _TO_THE_END, _BARE))
_FLAGS = re.compile(rf"{_BEGIN}(--?{_NAME}[=\s]+)[^\s-]\S*", re.IGNORECASE)
_KEY = re.compile(_NAME, re.IGNORECASE)
_FLAG = re.compile(rf"--?{_NAME}", re.IGNORECASE)
_ANY = re.IGNORECASE | re.MULTILINE
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN[\w ]{0,40}PRIVATE KEY.*?(?:-----END[\w ]{0,60}-----|\Z)", re.DOTALL
        ),
        MASK,
    ),
    (re.compile(r"\beyJ[\w-]{8,}(?:\.[\w-]*)*"), MASK),
    (re.compile(r"(?<![\w+.-])(\w[\w+.-]{0,40}://)[^\s/\"'<>\\]*@"), rf"\1{MASK}@"),
    (re.compile(r"(https://hooks\.slack\.com/)[\w/-]+"), rf"\1{MASK}"),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\bxox[a-z]-[\w-]{8,}"), MASK),
    (re.compile(r"\bgh[a-z]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"), MASK),
    (
        re.compile(rf"^([ \t]*(?:- )?\"?{_NAME}\"?:[ \t]*[|>].*\n)(?:[ \t]+.*(?:\n|\Z))+", _ANY),
        rf"\1{MASK}\n",
    ),
    (re.compile(rf"(authorization{_SEPARATOR}(?:\\*[\"'])?)[^\"'\\\n]+", _ANY), rf"\1{MASK}"),
    (re.compile(r"\b((?:bearer|basic)\s+)[\w.~+/-]{8,}=*", _ANY), rf"\1{MASK}"),
    (_FLAGS, rf"\1{MASK}"),
)
_PAIR = re.compile(rf"{_BEGIN}{_IS_KEY}({_NAME}{_SEPARATOR}){_PLAIN}(?:{_VALUE})", _ANY)


_SHORTEST = 8
"""Characters of a known secret; a shorter one would be found in every word."""


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text without what looks like a secret, and without the given ones."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) < _SHORTEST:
            continue
        text = text.replace(secret, MASK)
    for pattern, mask in _RULES:
        text = pattern.sub(mask, text)
    return _PAIR.sub(_masked_pair, text)


def _masked_pair(found: re.Match[str]) -> str:
    escaped = found["escaped"]
    quote = f'{escaped}"' if escaped else found["double"] or found["single"] or ""
    return f"{found[1]}{quote}{MASK}"


def without_flag_values(text: str) -> str:
    """Return a line of usage without the values of flags that look like those of a secret."""
    return _FLAGS.sub(rf"\1{MASK}", text)


def redacted_object(content: object, secrets: Iterable[str] = ()) -> object:
    """Return decoded JSON without secrets: in texts, under keys called so, behind such flags."""
    known = tuple(secrets)
    if isinstance(content, str):
        return redacted(content, known)
    if isinstance(content, dict):
        return {
            redacted(key, known): MASK
            if isinstance(value, str) and value and _KEY.fullmatch(key)
            else redacted_object(value, known)
            for key, value in cast("dict[str, object]", content).items()
        }
    if isinstance(content, list):
        items = cast("list[object]", content)
        before = [None, *items]
        return [
            MASK
            if isinstance(last, str) and _FLAG.fullmatch(last) and isinstance(item, str)
            else redacted_object(item, known)
            for last, item in zip(before, items, strict=False)
        ]
    return content
