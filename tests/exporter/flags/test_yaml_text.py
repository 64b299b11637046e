"""YAML of strangers: what is read, and that whatever else comes is a sentence with its line."""

import contextlib
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.flags import yaml_text
from exporter.flags.yaml_text import Node, YamlError, read


def plain(node: Node) -> Any:
    """Return a document without its lines."""
    if isinstance(node.value, Mapping):
        return {name: plain(value) for name, value in node.value.items()}
    if node.value is None or isinstance(node.value, str):
        return node.value
    return [plain(entry) for entry in node.value]


def refused(text: str | bytes) -> YamlError:
    with pytest.raises(YamlError) as caught:
        read(text if isinstance(text, bytes) else text.encode())
    assert str(caught.value).startswith(f"line {caught.value.line}: ")
    return caught.value


def test_mappings_lists_and_scalars_are_read_with_their_lines() -> None:
    found = read(b'# a comment\na: 1\nb:\n  - "x y"\n  - null\n  - {c: ~, d: off}\n')
    assert plain(found) == {"a": "1", "b": ["x y", None, {"c": None, "d": "off"}]}
    assert isinstance(found.value, Mapping)
    assert [value.line for value in found.value.values()] == [2, 4]


def test_a_quoted_null_is_a_text() -> None:
    assert plain(read(b"a: 'null'\nb: ''\nc:\n")) == {"a": "null", "b": "", "c": None}


def test_anchors_and_merge_keys_are_followed() -> None:
    text = b"a: &a {b: 1, c: 2}\nd: {<<: *a, c: 3}\ne: *a\nf: {<<: [*a, {g: 4}]}\n"
    found = plain(read(text))
    assert found["d"] == {"b": "1", "c": "3"}
    assert found["e"] == {"b": "1", "c": "2"}
    assert found["f"] == {"b": "1", "c": "2", "g": "4"}


def test_a_byte_order_mark_and_windows_line_ends_change_nothing() -> None:
    assert plain(read(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")) == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "empty"),
        ("# a comment alone\n", 1, "empty"),
        ("a: 1\nb: [1\n", 3, "not YAML"),
        ("a: 1\n\tb: 2\n", 2, "not YAML"),
        ("a: 1\nb: @x\n", 2, "not YAML"),
        ("a: 1\nb: 2\na: 3\n", 3, "'a' comes twice; its first value is on line 1"),
        ("a: 1\n? [b]\n: c\n", 2, "a key must be a plain text"),
        ("a: 1\n---\nb: 2\n", 2, "a second document"),
        ("a: &a [*a]\n", 1, r"\*a has no complete anchor"),
        ("a: 1\nb: *c\n", 2, r"\*c has no complete anchor"),
        ("a: 1\nb: !!binary aGk=\n", 2, "binary is not read here"),
        ("a: !mine {}\n", 1, "!mine is not read here"),
        ("a: 1\n<<: 2\n", 2, "only mappings can be merged"),
        ('a: 1\nb: "\\ud800"\n', 2, r"U\+D800"),
        ('a: "\\0"\n', 1, r"U\+0000"),
        ('a: 1\nb: "\\U00110000"\n', 2, "not YAML"),
        ("a: 1\nb: \x01\n", 2, "not YAML"),
        ("%YAML 3.0\n---\na: 1\n", 1, "not YAML"),
    ],
)
def test_what_cannot_be_used_is_a_sentence_with_its_line(text: str, line: int, words: str) -> None:
    error = refused(text)
    assert error.line == line
    assert re.search(words, str(error))


def test_a_text_that_is_none_is_reported_with_the_line_of_its_first_bad_byte() -> None:
    assert refused(b"a: 1\nb: \xff\n").line == 2


def test_a_file_that_is_too_large_is_refused_unread() -> None:
    assert "larger than" in str(refused(b"#" * (yaml_text.MAX_BYTES + 1)))


def test_a_deep_document_is_refused_where_it_gets_too_deep() -> None:
    assert plain(read(b"[" * yaml_text.DEEPEST + b"]" * yaml_text.DEEPEST)) is not None
    assert "deeper" in str(refused(b"[" * (yaml_text.DEEPEST + 1)))
    assert "deeper" in str(refused(b"[" * 100_000))
    assert refused("".join(f"{' ' * depth}a:\n" for depth in range(50))).line > yaml_text.DEEPEST


def test_aliases_of_aliases_count_as_what_they_stand_for() -> None:
    """A billion laughs."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    error = refused("\n".join(lines))
    assert "expands to more than" in str(error)
    assert error.line == 5


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(YamlError):
        read(data)
