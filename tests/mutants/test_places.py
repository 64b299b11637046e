"""Where operators are changed, and to what: one place of one line at a time, and never a text."""

import pytest

from tests.mutants.places import Place, places


def mutations(source: str) -> set[str]:
    """Return what becomes of a source at each of its places."""
    return {place.changed(source) for place in places(source)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", {"a <= b"}),
        ("a >= b", {"a > b"}),
        ("a == b", {"a != b"}),
        ("a in b", {"a not in b"}),
        ("a not in b", {"a in b"}),
        ("a is None", {"a is not None"}),
        ("a is not None", {"a is None"}),
        ("a < b <= c", {"a <= b <= c", "a < b < c"}),
        ("(a) < (b)", {"(a) <= (b)"}),
        ("a and b", {"a or b"}),
        ("a or b or c", {"a and b or c", "a or b and c"}),
        ("not a", {"a"}),
        ("a + b", {"a - b"}),
        ("a * b", {"a / b"}),
        ("max(a, b)", {"min(a, b)"}),
        ("any(a)", {"all(a)"}),
        ("a[7]", {"a[8]"}),
        ("a = 0x10", {"a = 17"}),
        ("a = 1_000", {"a = 1001"}),
        ("a = True", {"a = False"}),
        ("b if a else c", {"b if not (a) else c"}),
        ("if a:\n    b", {"if not (a):\n    b"}),
        ("if not a:\n    b", {"if a:\n    b"}),
        ("def f(a: int = 3) -> bool:\n    return a", {
            "def f(a: int = 4) -> bool:\n    return a",
            "def f(a: int = 3) -> bool:\n    return not (a)",
        }),
        ("def f() -> int:\n    return a", set[str]()),
        ("'é…' in b and c", {"'é…' not in b and c", "'é…' in b or c"}),
        ("if 'é' in b:\n    c", {"if 'é' not in b:\n    c", "if not ('é' in b):\n    c"}),
        ("(a\n  and\n  b)", {"(a\n  or\n  b)"}),
    ],
)  # fmt: skip
def test_an_operator_becomes_another(source: str, expected: set[str]) -> None:
    assert mutations(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""a < b and not 3"""',
        "'a + b'",
        "f'{a + 1:04d}'",
        "'a' + b",
        "a: Literal[1] = b",
        "def f(a: Literal[1]) -> Literal[2]: ...",
        "class A(Struct, frozen=True, tag=3): ...",
        "@lru_cache(4096)\ndef f(): ...",
        "_log.info('%d', a + 1)",
        "if TYPE_CHECKING:\n    b = 1",
        "a = None",
        "a = 1.5",
        "a | b",
    ],
)
def test_texts_types_options_and_logs_are_left_alone(source: str) -> None:
    assert mutations(source) == set()


def test_a_place_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="line 1 has no '<'"):
        Place(line=1, column=2, old="<", new="<=").changed("a > b")


@pytest.mark.parametrize(
    ("source", "within"),
    [
        ("A = 3", ""),
        ("def f(a=3):\n    def g():\n        return 0", "f"),
        ("class A:\n    b = 3\n    def f():\n        pass", "A"),
        ("class A:\n    def f():\n        return 3", "A.f"),
        ("class A:\n    def f():\n        return b\ndef g():\n    return 3", "g"),
    ],
)
def test_a_place_knows_its_function(source: str, within: str) -> None:
    assert places(source)[0].within == within
