"""Values as a bad world sends them: texts, numbers and JSON, and mutations of good bytes."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any, cast

TEXTS = (
    "",
    " ",
    "\0",
    '"',
    "\\",
    "\\n",
    "\n",
    "\r\n",
    "\t",
    "\x1b[31m",
    "\x7f",
    "\x85",
    "\u2028",
    "\u202e",
    "\ufeff",
    "\ufffd",
    "é",
    "中文",
    "\U0001f4a5",
    "e\u0301",
    "٣",
    "²",
    "a,b",
    "a=b",
    'x",pod="evil',
    'x"} 1\n# EOF\n',
    "# EOF",
    "{}",
    "#",
    "%s%n",
    "../../etc/passwd",
    "NaN",
    "-1",
    "0x10",
    "1e400",
    "null",
    "__name__",
    "le",
    "GPU-1",
    "nvidia.com/gpu",
    "x" * 300,
    "中" * 200,
)
WHOLE = (
    *(0, 1, 2, 7, 79, 94, 255, 256, 1023, 1024, 65535),
    *(2**31 - 16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**53 + 1),
    *(0x7FFF_FFFF_FFFF_FFEF, 0x7FFF_FFFF_FFFF_FFF0, 2**63 - 1, 2**63, 2**64 - 1),
    *(-1, -(2**31), -(2**63)),
)
REAL = (
    *(0.0, -0.0, 0.5, 1.0, 99.9, 1e-320, 1e18, 140737488355328.0, 1e308),
    *(float("nan"), float("inf"), float("-inf"), -1.5),
)
_DIGITS = b"0123456789"


def text(random: Random) -> str:
    """Return a text: often a trap, else a few traps or marks in a row."""
    kind = random.randrange(4)
    if kind == 0:
        return random.choice(TEXTS)
    if kind == 1:
        return random.choice(TEXTS) + random.choice(TEXTS)
    marks = "abcXYZ019-_./:= " if kind == 2 else 'aé中"\\\n{},=\u2028\x00\U0001f4a5'
    return "".join(random.choices(marks, k=random.randrange(12)))


def name(random: Random, *usual: str) -> str:
    """Return one of the usual names, or now and then a text that is no name."""
    return text(random) if random.randrange(5) == 0 else random.choice(usual)


def whole(random: Random) -> int:
    return random.choice(WHOLE) if random.randrange(3) else random.randrange(200)


def number(random: Random) -> int | float:
    return random.choice(REAL) if random.randrange(3) == 0 else whole(random)


def value(random: Random, depth: int = 2) -> Any:
    """Return any JSON value."""
    kind = random.randrange(8 if depth else 5)
    if kind < 5:
        real = random.choice((0.5, -1.5, 1e300))
        return (None, True, _json_text(random), whole(random), real)[kind]
    if kind == 5:
        return [value(random, depth - 1) for _ in range(random.randrange(3))]
    return {text(random): value(random, depth - 1) for _ in range(random.randrange(3))}


def _json_text(random: Random) -> str:
    """JSON can spell half of a surrogate pair, which is no text."""
    return "\ud800" if random.randrange(20) == 0 else text(random)


def json_of(random: Random, good: Any, times: int) -> bytes:
    """Return a document as JSON after some changes, and now and then its bytes changed as well."""
    changed = json.loads(json.dumps(good))
    for _ in range(random.randrange(times + 1)):
        changed = _altered(random, changed)
    # Escapes keep lone surrogates, which no UTF-8 can say, away from the encoder.
    raw = json.dumps(changed, ensure_ascii=True).encode()
    if random.randrange(100) == 0:
        deep = 50_000
        return b'{"deep":' + b"[" * deep + b"]" * deep + b"," + raw[1:]
    return mutated(random, raw, 2) if random.randrange(6) == 0 else raw


def _altered(random: Random, document: Any) -> Any:
    """Return a document with one value in it, somewhere, replaced, repeated or gone."""
    if not document or not isinstance(document, dict | list) or random.randrange(8) == 0:
        return value(random)
    is_map = isinstance(document, dict)
    held: Any = cast("Any", document)
    key: Any = random.choice(list(held if is_map else range(len(held))))
    kind = random.randrange(12)
    if kind == 0:
        del held[key]
    elif kind == 1 and is_map:
        held[text(random)] = value(random)
    elif kind == 1:
        held.append(held[key])
    else:
        held[key] = _altered(random, held[key])
    return held


def mutated(random: Random, good: bytes, times: int, others: Sequence[bytes] = ()) -> bytes:
    """Return bytes after up to so many changes; `others` are what parts are taken over from."""
    raw = bytearray(good)
    for _ in range(random.randrange(times + 1)):
        _MUTATIONS[random.randrange(len(_MUTATIONS))](random, raw, others)
    return bytes(raw)


def _place(random: Random, raw: bytearray) -> int:
    return random.randrange(len(raw) + 1)


def _flip(random: Random, raw: bytearray, _others: Sequence[bytes]) -> None:
    if raw:
        raw[random.randrange(len(raw))] ^= 1 << random.randrange(8)


def _overwrite(random: Random, raw: bytearray, _others: Sequence[bytes]) -> None:
    if raw:
        raw[random.randrange(len(raw))] = random.choice(b"\0\xff\n\"\\;,=:(){}[] \x1b\x80'0A")


def _cut(random: Random, raw: bytearray, _others: Sequence[bytes]) -> None:
    begin = _place(random, raw)
    del raw[begin : begin + random.randrange(1, 12)]


def _truncate(random: Random, raw: bytearray, _others: Sequence[bytes]) -> None:
    del raw[_place(random, raw) :]


def _insert(random: Random, raw: bytearray, _others: Sequence[bytes]) -> None:
    at = _place(random, raw)
    raw[at:at] = text(random).encode()


def _repeat(random: Random, raw: bytearray, _others: Sequence[bytes]) -> None:
    begin = _place(random, raw)
    part = bytes(raw[begin : begin + random.randrange(1, 40)])
    raw[begin:begin] = part * random.choice((1, 1, 2, 30))


def _number(random: Random, raw: bytearray, _others: Sequence[bytes]) -> None:
    """Put another number in the place of one."""
    places = [at for at, byte in enumerate(raw) if byte in _DIGITS]
    if places:
        begin = end = random.choice(places)
        while end < len(raw) and raw[end] in _DIGITS:
            end += 1
        raw[begin:end] = str(whole(random)).encode()


def _splice(random: Random, raw: bytearray, others: Sequence[bytes]) -> None:
    if others:
        other = random.choice(others)
        begin = random.randrange(len(other) + 1)
        at = _place(random, raw)
        raw[at:at] = other[begin : begin + random.randrange(1, 60)]


_MUTATIONS = (_flip, _overwrite, _cut, _truncate, _insert, _repeat, _number, _splice)
