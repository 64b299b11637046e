"""What is secret in a text or in an object, masked: tokens, passwords, private keys. Pure.

Texts of others may hold a secret anywhere. Where it is unclear how far one goes, too much is
masked.
"""

import re
from collections.abc import Iterable
from typing import cast

from draguard.logins import without_login, without_logins

MASK = "<redacted>"
_WORDS = (
    r"pass(?:word|wd|phrase)?|pwd|secret|tok(?:en|n)?s?|credentials?|authorization|cookie"
    r"|auth|(?:api|access|private|integration|routing|service|account|shared|encryption|signing"
    r"|master|tls|ssl)[-_. ]?key"
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
    # A backslash is one of the value's in YAML, and an escape in Python.
    r"(?P<single>')(?:[^'\\]|\\(?:''|.)|'')*",
)
_TO_THE_END = r"(?<=: )[^\n]+"
"""A value of YAML, or of a header, may have spaces."""
_BARE = r"[^\s\"'\\]+"
_VALUE = "|".join((*_QUOTED, _TO_THE_END, _BARE))
_FLAGS = re.compile(rf"{_BEGIN}(--?{_NAME}[=\s]+)[^\s-]\S*", re.IGNORECASE)
_KEY = re.compile(_NAME, re.IGNORECASE)
_FLAG = re.compile(rf"--?{_NAME}", re.IGNORECASE)
_TYPED = re.compile(r"(?<![^\s'\"])(-[\w-]*=)[^\s'\"]+")
_NAMES_OF_SECRETS = frozenset({"name", "secretName"})
"""Keys below `secret` in a volume: which Secret it is."""
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
    (re.compile(r"\bgh[a-z]_\w{20,}|\bgithub_pat_\w{20,}"), MASK),
    (re.compile(r"\bgl(?:pat|rt|ptt|dt|cbt|ft|imt|agent|soat|oas)-[\w-]{16,}"), MASK),
    (re.compile(rf"{_BEGIN}sha256~[\w-]{{43}}"), MASK),
    (re.compile(r"\bdckr_[po]at_[\w-]{20,}|\bgl(?:sa|c)_\w{20,}|\bxapp-\d-[\w-]{8,}"), MASK),
    (re.compile(r"\b(?:hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|nvapi-[\w-]{20,})"), MASK),
    (re.compile(r"\bhv[sbr]\.[\w-]{20,}"), MASK),
    # A digit tells a key of OpenAI and others from a long name, such as `sk-learn-contrib-...`.
    (re.compile(rf"{_BEGIN}sk-(?=[A-Za-z_-]*\d)[\w-]{{20,}}"), MASK),
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
    text = without_logins(text, MASK)
    for pattern, mask in _RULES:
        text = pattern.sub(mask, text)
    return _PAIR.sub(_masked_pair, text)


def _masked_pair(found: re.Match[str]) -> str:
    escaped = found["escaped"]
    quote = f'{escaped}"' if escaped else found["double"] or found["single"] or ""
    return f"{found[1]}{quote}{MASK}"


def without_flag_values(text: str) -> str:
    """Return a usage error without the values of flags: a mistyped one may be that of a token."""
    return _TYPED.sub(rf"\1{MASK}", _FLAGS.sub(rf"\1{MASK}", text))


def without_value(word: str) -> str:
    """Return a word of a command line; of a flag with a value, the flag."""
    name, equals, _ = word.partition("=")
    return f"{name}={MASK}" if equals and name.startswith("-") else word


def redacted_object(content: object, secrets: Iterable[str] = ()) -> object:
    """Return decoded JSON without secrets: in texts, under keys called so, behind such flags."""
    return _masked(content, tuple(secrets), secret=False)


def _masked(content: object, known: tuple[str, ...], *, secret: bool) -> object:
    """`secret`: it stands below a key that is called so, and every text is masked."""
    if isinstance(content, str):
        return MASK if secret and content else redacted(content, known)
    if isinstance(content, dict):
        found = cast("dict[str, object]", content)
        called = found.get("name")
        is_named = isinstance(called, str) and _KEY.fullmatch(called)

        def hides(key: str) -> bool:
            below = secret and key not in _NAMES_OF_SECRETS
            return bool(below or (is_named and key == "value") or _KEY.fullmatch(key))

        return {
            redacted(key, known): _masked(value, known, secret=hides(key))
            for key, value in found.items()
        }
    if isinstance(content, list):
        items = cast("list[object]", content)
        before = [None, *items]
        return [
            MASK
            if isinstance(last, str) and _FLAG.fullmatch(last) and isinstance(item, str)
            else _masked(without_login(item, last, MASK), known, secret=secret)
            for last, item in zip(before, items, strict=False)
        ]
    return content
