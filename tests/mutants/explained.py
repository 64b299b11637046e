"""Mutants that no test sees, each with the reason why none can or need see it.

They are in `explained.txt`, by the function and the changed line: neither a line that moves nor a
module that is renamed makes an entry void.
"""

FILE = "tests/mutants/explained.txt"
"""From the root of the project."""


def explained(text: str) -> dict[str, str]:
    """Return the reason for each mutant that has one. Raises ValueError.

    An entry is a paragraph: the function, the line with "- " and with "+ ", the reason.
    """
    found: dict[str, str] = {}
    for entry in text.split("\n\n"):
        lines = [line for line in entry.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        signs = [line[:2] for line in lines[1:3]]
        if signs != ["- ", "+ "] or not " ".join(lines[3:]).strip():
            raise ValueError(f"no function, `- line`, `+ line` and reason: {entry!r}")
        found["\n".join(lines[:3])] = " ".join(lines[3:])
    return found
