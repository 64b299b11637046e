"""Text that somebody else wrote, made fit for a terminal. Pure.

Names, messages and annotations of Kubernetes objects may hold escape sequences,
line breaks and marks that turn the direction of writing. A terminal obeys them;
who reads an incident must not be lied to by what it quotes.
"""

LIMIT = 4096
"""Characters shown of one value; the whole of it is in `-o json`."""


def shown(text: str, limit: int = LIMIT) -> str:
    r"""Return a text on one line with nothing in it that a terminal obeys.

    Line breaks become spaces; any other character that is not printable is
    spelled as Python spells it, such as `\x1b`.
    """
    line = " ".join(text[: limit + 1].splitlines())
    plain = "".join(char if char.isprintable() else _spelled(char) for char in line[:limit])
    return plain + ("..." if len(text) > limit else "")


def _spelled(char: str) -> str:
    return " " if char == "\t" else char.encode("unicode_escape").decode("ascii")
