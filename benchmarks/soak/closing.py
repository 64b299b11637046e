"""The output of a part into its closing figures in short, "" when it did not close. Pure."""

import re

_ENDED = re.compile(r"^=+ (.*?\d+ (?:passed|failed|errors?).*?) in [\d.]+s.*=+$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (passed|failed|error)")
_EXAMPLES = re.compile(r"^ +- (\d+) passing\b.*?, (\d+) failing\b", re.MULTILINE)
_CHAOS = re.compile(
    r"^seed \d+, \d+ replicas: .*, (\d+) faults under a name, "
    r"(\d+) rules written, (\d+) pods evicted",
    re.MULTILINE,
)
_FUZZ = re.compile(r"^([\d,]+ inputs) in .*: (\d+ findings)$", re.MULTILINE)
_DRAWN = re.compile(r"^([\d,]+ fleets: .*)\n([\d,]+ passed, [\d,]+ failed)$", re.MULTILINE)
_FLEET = {
    "cold start to a correct plan": "cold start",
    "until the last NoSchedule is stored": "storm tainted in",
    "memory (PSS)": "memory",
}
_FIGURE = r"^ +{} +1 +([\d.,]+) +(\w+)"


def histories(output: str) -> str:
    """Return how many histories were played."""
    tests, (passing, failing) = _tests(output), _examples(output)
    played = passing + failing
    return f"{played:,} histories, {failing:,} failed ({tests})" if tests and played else ""


def properties(output: str) -> str:
    """Return how many properties were tried with how many examples."""
    tests, (passing, failing) = _tests(output), _examples(output)
    tried = passing + failing
    return f"{tests}; {tried:,} examples, {failing:,} failed" if tests and tried else ""


def chaos(output: str) -> str:
    """Return what happened in all runs."""
    tests, runs = _tests(output), _CHAOS.findall(output)
    if not tests or not runs:
        return ""
    faults, rules, evicted = (sum(map(int, counts)) for counts in zip(*runs, strict=True))
    return f"{len(runs)} runs, {faults} faults, {rules} rules, {evicted} evictions ({tests})"


def fuzz(output: str) -> str:
    found = _FUZZ.search(output)
    return ", ".join(found.groups()) if found else ""


def drawn(output: str) -> str:
    found = _DRAWN.search(output)
    return f"{found[2]}; {found[1]}" if found else ""


def fleet(output: str) -> str:
    """Return the figures that have a budget, and nothing when one was not measured."""
    found = {
        name: re.search(_FIGURE.format(re.escape(label)), output, re.MULTILINE)
        for label, name in _FLEET.items()
    }
    parts = [f"{name} {figure[1]} {figure[2]}" for name, figure in found.items() if figure]
    return ", ".join(parts) if len(parts) == len(_FLEET) else ""


def last_line(output: str) -> str:
    """Return the last line that is not empty."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _tests(output: str) -> str:
    """Return pytest's own closing figures, "" when it did not close."""
    ended = _ENDED.findall(output)
    counts = {word: int(count) for count, word in _COUNT.findall(ended[-1])} if ended else {}
    bad = counts.get("failed", 0) + counts.get("error", 0)
    return f"{counts.get('passed', 0):,} tests passed, {bad:,} failed" if counts else ""


def _examples(output: str) -> tuple[int, int]:
    found = _EXAMPLES.findall(output)
    return sum(int(passing) for passing, _ in found), sum(int(failing) for _, failing in found)
