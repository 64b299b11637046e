"""What the documents promise is there: tests, files, flags, and examples that are read."""

import ast
import re
from pathlib import Path
from typing import cast

import msgspec
import pytest
import yaml

from draguard.__main__ import USAGE
from draguard.commands.policy import main as policy_command
from remediator.model.incident import IncidentSpec
from remediator.model.intent import FIELDS
from remediator.policy.load import read
from remediator.settings import Settings, parse

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "deploy").rglob("*.md")])
REMEDIATION = (DOCS / "remediation.md").read_text(encoding="utf-8")
CHART = ROOT / "deploy" / "helm" / "draguard"
RUNBOOKS = sorted((ROOT / "alerts" / "runbooks").glob("*.md"))
TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+(?:::\w+)?)")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
HEADING = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")
TORN_LINK = re.compile(r"\][ \n]+\((?:#|https?:|[\w./-]+\.md\b)[^)]*\)")
PATH = re.compile(
    r"`((?:alerts|benchmarks|dashboards|deploy|docs|draguard|exporter|kubeapi|remediator|serving"
    r"|simulator|tests|tools)/[\w./*-]+)`"
)
POLICY = re.compile(r"```yaml\n(# policy\.yaml\n.*?)```", re.DOTALL)
PATCHED = re.compile(r"kubectl patch di NAME --type=merge -p '(\{\"spec\":.*\})'")


def text(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def names(path: Path) -> set[str]:
    """Return the tests of a file, those in a class as `Class::test`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
            inner = (statement for statement in node.body if isinstance(statement, ast.FunctionDef))
            found |= {f"{node.name}::{function.name}" for function in inner}
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_test_that_a_document_names_exists(document: Path) -> None:
    for file, name in TEST.findall(text(document)):
        assert (ROOT / file).is_file(), f"{document.name} names {file}, which is not there"
        assert name in names(ROOT / file), f"{document.name} names {file}::{name}"


def test_every_promise_of_the_remediator_names_its_test() -> None:
    section = REMEDIATION.partition("## What happens if")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]

    assert len(rows) > 20
    assert [row for row in rows if not TEST.search(row)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_to_a_file(document: Path) -> None:
    missing = [
        link for link in LINK.findall(text(document)) if not (document.parent / link).exists()
    ]

    assert missing == []


@pytest.mark.parametrize("document", [*DOCUMENTS, *RUNBOOKS], ids=lambda path: path.name)
def test_no_link_has_space_between_its_words_and_its_page(document: Path) -> None:
    """Markdown then shows both as they are written."""
    assert TORN_LINK.findall(text(document)) == []


def test_the_readme_leads_to_every_document() -> None:
    linked = {(ROOT / link).resolve() for link in LINK.findall(text(ROOT / "README.md"))}

    assert [path.name for path in DOCS.rglob("*.md") if path not in linked] == []


@pytest.mark.parametrize("document", [*DOCUMENTS, *RUNBOOKS], ids=lambda path: path.name)
def test_every_link_to_a_heading_finds_it(document: Path) -> None:
    for page, heading in HEADING.findall(text(document)):
        target = document.parent / page if page else document
        assert heading in anchors(target), f"{document.name} links to {page}#{heading}"


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    bare = re.sub(r"^```.*?^```$", "", text(document), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", bare, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_in_a_document_is_there(document: Path) -> None:
    missing = [
        path for path in PATH.findall(text(document)) if not list(ROOT.glob(path.rstrip("/")))
    ]

    assert missing == []


@pytest.mark.parametrize(
    "package", ["remediator", "dashboards", "alerts", "deploy", "tools/generated_docs"]
)
def test_the_architecture_names_every_module(package: str) -> None:
    architecture = text(DOCS / "architecture.md")
    modules = [path for path in (ROOT / package).rglob("*.py") if path.stem[0] != "_"]
    missing = [path.stem for path in modules if f"`{path.stem}`" not in architecture]

    assert modules
    assert missing == []


def test_the_architecture_names_every_folder_of_the_command_line() -> None:
    architecture = text(DOCS / "architecture.md")
    folders = {path.parent.name for path in (ROOT / "draguard").glob("*/__init__.py")}

    assert "commands" in folders
    assert {folder for folder in folders if f"`{folder}/`" not in architecture} == set()


def test_every_command_of_make_that_a_document_names_is_a_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9.-]+):", makefile, re.MULTILINE))
    named = {
        (document.name, target)
        for document in DOCUMENTS
        for target in re.findall(r"`(?:[A-Z]+=\S+ )*make ([a-z0-9.-]+)", text(document))
    }

    assert {mention for mention in named if mention[1] not in targets} == set()


def test_every_command_that_a_sentence_names_exists() -> None:
    named = {
        (document.name, command)
        for document in (*DOCUMENTS, *RUNBOOKS)
        for command in re.findall(r"`(?:kubectl )?draguard ([a-z][a-z-]*)", text(document))
    }

    assert {
        mention for mention in named if not re.search(rf"^  {mention[1]}\b", USAGE, re.MULTILINE)
    } == set()


def test_every_hold_and_ignore_that_is_shown_has_an_end() -> None:
    """The command refuses one without."""
    shown = [
        (document.name, command)
        for document in (*DOCUMENTS, *RUNBOOKS)
        for command in re.findall(
            r"draguard (?:hold|ignore) [^`\n]*--reason[^`\n]*", text(document)
        )
    ]

    assert len(shown) > 3
    ends = ("--until", "--forever", "--remove")
    assert [each for each in shown if not any(end in each[1] for end in ends)] == []


def test_every_chart_value_that_a_sentence_names_exists() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    one_of_them = re.compile(rf"`((?:{'|'.join(values)})\.\w+(?:\.\w+)*)[`:]")
    named = {
        (document.name, value)
        for document in (*DOCUMENTS, *RUNBOOKS)
        for value in one_of_them.findall(text(document))
        if not (value.endswith(".yaml") or (ROOT / f"{value.replace('.', '/')}.py").is_file())
    }

    assert len(named) > 30
    assert {mention for mention in named if not has(values, mention[1].split("."))} == set()


def has(values: object, path: list[str]) -> bool:
    """Say whether there is a value at a path, whatever it is."""
    for key in path:
        if not isinstance(values, dict) or key not in values:
            return False
        values = cast("dict[str, object]", values)[key]
    return True


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_policy_in_a_document_is_sound(document: Path) -> None:
    for policy in POLICY.findall(text(document)):
        assert read(policy)


def test_every_intent_in_a_document_is_read() -> None:
    found = [patch for document in DOCUMENTS for patch in PATCHED.findall(text(document))]
    specs = [cast("dict[str, object]", msgspec.json.decode(patch)["spec"]) for patch in found]
    named = {
        field: stated for spec in specs for field, stated in spec.items() if stated is not None
    }

    assert set(named) == set(FIELDS.values())
    whole = msgspec.convert({"node": "a", "uuid": "b", "fault": "gpu", **named}, IncidentSpec)
    assert set(whole.intents) == set(FIELDS)


def test_the_commands_about_a_policy_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^\$? ?draguard policy ([^#\n]+)", REMEDIATION, re.MULTILINE)

    assert commands
    for policy in POLICY.findall(REMEDIATION):
        (tmp_path / "policy.yaml").write_text(policy, encoding="utf-8")
        for command in commands:
            assert policy_command(command.split()) == 0, capsys.readouterr()


def test_every_flag_of_the_remediator_is_reported_with_its_default() -> None:
    standard = parse([])
    for field in msgspec.structs.fields(Settings):
        flag = field.name.replace("_", "-")
        rows = re.findall(rf"^\| `--(?:\[no-\])?{flag}` \| ([^|]*) \|", REMEDIATION, re.MULTILINE)
        value = getattr(standard, field.name)
        reported = {True: "on", False: "off", None: "", "": ""}.get(value, f"`{value}`")
        assert rows == [reported], f"--{flag}: its default is {reported!r}"
