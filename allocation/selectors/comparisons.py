"""Whether an expression compares a version or a quantity as Kubernetes does. Pure.

In Kubernetes they are equal to nothing of another type: `==` is an error, and in lists and maps it
is otherwise than here. So what is not one of their methods, or a comparison of two alike, is not
known. The expression is reduced step by step: what is left of a version or a quantity decides.
"""

import re
from functools import lru_cache

_TEXT = re.compile(r"""(["'])(?:\\.|(?!\1)[^\\])*\1""")
_VERSION, _QUANTITY, _MISSING, _PLAIN = "§v", "§q", "§m", "0"
_OPAQUE = f"(?:{_VERSION}|{_QUANTITY})"
_ARGUMENTS = r"\([^()]*\)"
_DEVICE = re.compile(
    r"""device\.(?:attributes|capacity)\[[^\[\]]*\](?:\.\??(\w+)\b(?!\()|\[\??["']([\w.-]+)["']\])"""
)
"""An attribute of a device, by its identifier."""
_STEPS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(rf"\bsemver{_ARGUMENTS}"), _VERSION),
    (re.compile(rf"\bquantity{_ARGUMENTS}"), _QUANTITY),
    (re.compile(rf"(?<![\w.])\(\s*({_OPAQUE}|{_PLAIN})\s*\)"), r"\1"),
    (re.compile(rf"({_OPAQUE})\.orValue\(\s*\1\s*\)"), r"\1"),
    (re.compile(rf"{_QUANTITY}\.(?:add|sub){_ARGUMENTS}"), _QUANTITY),
    (
        re.compile(
            rf"{_OPAQUE}\.(?:major|minor|patch|compareTo|isGreaterThan|isLessThan|sign|isInteger"
            rf"|asInteger|asApproximateFloat|hasValue){_ARGUMENTS}"
        ),
        _PLAIN,
    ),
    (
        re.compile(rf"({_OPAQUE})\s*[!=]=\s*(?:\1|{_MISSING})|{_MISSING}\s*[!=]=\s*{_OPAQUE}"),
        _PLAIN,
    ),
    # Of anything else it is an error, here as there.
    (re.compile(rf"(?<!§v|§q)\.(?:compareTo|isGreaterThan|isLessThan){_ARGUMENTS}"), ""),
    (re.compile(rf"{_MISSING}\.orValue\(\s*({_OPAQUE})\s*\)"), r"\1"),
    (re.compile(rf"\b(?:has|sign)\(\s*{_OPAQUE}\s*\)"), _PLAIN),
)
_COMPARES = re.compile(r"[!=]=|\bin\b|\bsets\.|\b(?:distinct|indexOf|lastIndexOf)\(")


@lru_cache(4096)
def compares_otherwise(
    expression: str,
    versions: tuple[str, ...],
    quantities: tuple[str, ...],
    others: tuple[str, ...],
) -> bool:
    """Return whether it may; the last three are the identifiers of all that a device has.

    What it lacks is an error in Kubernetes and here. It is no error to say so of an expression that
    compares something else.
    """
    found = expression
    for token, names in ((_VERSION, versions), (_QUANTITY, quantities)):
        every = "|".join(map(re.escape, names))
        if every:
            before = r"[\w.]*(?:\[[^\[\]]*\])*"
            access = rf"""{before}(?:\.\??(?:{every})\b(?!\()|\[\??["'](?:{every})["']\])"""
            found = re.sub(access, token, found)
    found = _DEVICE.sub(lambda each: each[0] if (each[1] or each[2]) in others else _MISSING, found)
    found = _TEXT.sub('""', found)
    before = ""
    while found != before:
        before = found
        for pattern, token in _STEPS:
            found = pattern.sub(token, found)
    return bool(re.search(_OPAQUE, found) and _COMPARES.search(found))
