"""One thing, one word: what a reader meets is named as the field names it (docs/concepts.md)."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "allocation",
    "kubeapi",
    "serving",
    "exporter",
    "remediator",
    "draguard",
    "simulator",
    "dashboards",
)
CODE = (*PACKAGES, "alerts", "deploy", "benchmarks", "tools", "tests")
OF_THE_DEMO = re.compile(r"(tools/demo|dashboards|tests/(dashboards|draguard|lab|tools))/")
"""A demo has a story, and so have its pictures and the trial of a policy."""
MARKDOWN = "tests/docs/"
"""There a fenced block is one of code."""

IDENTIFIERS = {
    "appetite": "resource limits",
    "asked": "requested, queried",
    "casefile": "incident",
    "emptiness": "drain",
    "fence": "taint",
    "fenced": "tainted",
    "fences": "taints",
    "heard": "received, reported",
    "herald": "event recorder",
    "ladder": "escalation",
    "lifeline": "pdeathsig",
    "pairing": "dedup",
    "rulebook": "rule index",
    "said": "reported, logged, stated",
    "stories": "incidents",
    "story": "incident",
    "survey": "cluster metrics",
    "told": "reported",
    "unasked": "not requested",
    "unfence": "untaint",
    "unheard": "stale",
    "unsaid": "not reported",
    "untold": "not reported",
    "whereabouts": "device resolution",
    "wanted": "requested, desired",
    "wish": "desired",
    "wishes": "desired",
    "witness": "source",
    "witnesses": "sources",
}
"""Parts of names in code, and what to write."""

PHRASES = {
    r"fenc(e|ed|es|ing)": "taint; for maintenance by hand: cordon",
    r"witness(es)?": "source",
    r"case files?": "incident",
    r"(un)?heard of": "reported; stale or unknown",
    r"lets? go of": "releases, closes",
    r"gives? back": "untaints",
    r"held back": "deferred",
    r"who is hit": "affected pods",
}
"""In texts for users, and what to write."""

TEXTS = {
    r"held: ": "deferred",
    r"new harm": "new actions",
    r"a person": "a user",
    r"(some|no)body": "a pod, a user, another agent",
    r"asks for(?! confirmation)": "requests",
    r"(un)?heard": "reported; stale",
    r"spoken": "supported",
    r"(?<!be )told": "reported",
}
"""In texts of the programs, besides: logs, errors, help, metrics, conditions."""
NAMES = {"nobody", "unheard"}
"""Of objects that are never stored, and a field of `-o json` in 0.1.0."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Return line and text of each string that is no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield node.lineno, text
            case _:
                pass


def sources() -> Iterator[Path]:
    for package in CODE:
        yield from sorted((ROOT / package).rglob("*.py"))


def parts(name: str) -> set[str]:
    """Return the words of an identifier: `_FencedGpu` has `fenced` and `gpu`."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


@pytest.mark.parametrize("package", [*PACKAGES, "alerts", "deploy"])
def test_texts_of_programs_have_the_field_s_words(package: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}: {match.group(0)}: write {word}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, text in texts(path)
        if text not in NAMES
        for phrase, word in {**PHRASES, **TEXTS}.items()
        for match in re.finditer(rf"\b{phrase}", text, re.IGNORECASE)
    }

    assert found == set()


CHART = ROOT / "deploy" / "helm" / "draguard"
SHOWN = (
    *sorted((ROOT / "deploy" / "crds").glob("*.yaml")),
    *(CHART / name for name in ("values.yaml", "values.schema.json", "README.md")),
    *sorted((CHART / "templates").iterdir()),
)


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.name)
def test_resources_and_the_chart_have_the_field_s_words(path: Path) -> None:
    found = {
        f"{match.group(0)}: write {word}"
        for phrase, word in {**PHRASES, **TEXTS}.items()
        for match in re.finditer(rf"\b{phrase}", path.read_text(encoding="utf-8"), re.IGNORECASE)
    }

    assert found == set()


def test_identifiers_have_the_field_s_words() -> None:
    found: set[tuple[str, str]] = set()
    for path in sources():
        place = path.relative_to(ROOT).as_posix()
        spared = {"story", "stories"} if OF_THE_DEMO.match(place) else set[str]()
        spared |= {"fence", "fenced", "fences"} if place.startswith(MARKDOWN) else set[str]()
        with tokenize.open(path) as file:
            names = {
                token.string for token in tokenize.generate_tokens(file.readline) if token.type == 1
            }
        old = {word for name in names for word in parts(name)} & IDENTIFIERS.keys()
        found |= {(place, f"{word}: write {IDENTIFIERS[word]}") for word in old - spared}

    assert sorted(found) == []


DOCUMENTS = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "alerts" / "runbooks").glob("*.md")),
)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_have_the_field_s_words(path: Path) -> None:
    prose = path.read_text(encoding="utf-8").replace("fenced command", "")  # Markdown's word
    text = re.sub(r"```.*?```|`[^`\n]+`", "", prose, flags=re.DOTALL)

    found = {
        f"{match.group(0)}: write {word}"
        for phrase, word in PHRASES.items()
        for match in re.finditer(rf"\b{phrase}\b", text, re.IGNORECASE)
    }

    assert found == set()
