"""docs/alerts.md: its commands run, its page is the recorded one, its inhibition is complete."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import yaml

from tests.lab.paging import CONFIG
from tools.generated_docs.table import marks, replaced

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "alerts.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
GOLDEN = ROOT / "tests" / "golden" / "alerts" / "page-xid-79.txt"
PAGE = marks("page", f"`UPDATE_GOLDEN=1 .venv/bin/pytest {Path(__file__).relative_to(ROOT)}`")
COMMANDS = [
    shlex.split(line)
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
]


def shown() -> str:
    """Return the recorded page as the document shows it: without links."""
    recorded = GOLDEN.read_text(encoding="utf-8")
    title = recorded.partition("== draguard.title\n")[2].partition("\n")[0]
    text = recorded.partition("== draguard.slack.text\n")[2].partition("\n<")[0]
    return f"```text\n{title}\n{text}\n```\n"


def test_the_page_of_the_document_is_the_recorded_one() -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        DOCUMENT.write_text(replaced(TEXT, PAGE, shown()), encoding="utf-8")
    text = DOCUMENT.read_text(encoding="utf-8")

    assert replaced(text, PAGE, shown()) == text


def test_every_command_of_amtool_does_what_the_document_says(alertmanager_built: Path) -> None:
    requested = [words for words in COMMANDS if words[0] == "amtool"]

    assert len(requested) > 4
    for words in requested:
        done = subprocess.run(
            [alertmanager_built / "amtool", *words[1:]],
            cwd=CONFIG.parent,
            capture_output=True,
            check=False,
            text=True,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"


def test_rules_are_written_with_the_addresses_of_an_installation(tmp_path: Path) -> None:
    (words,) = [command for command in COMMANDS if command[0] == "python"]

    subprocess.run(
        [sys.executable, *words[1:]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    rule = yaml.safe_load((tmp_path / "rules" / "prometheusrule.yaml").read_text(encoding="utf-8"))
    pages = [
        entry for group in rule["spec"]["groups"] for entry in group["rules"] if "alert" in entry
    ]
    assert rule["metadata"]["labels"]["release"] == "monitoring"
    assert {page["annotations"]["runbook_url"].rpartition("/")[0] for page in pages} == {
        "https://wiki.example.com/gpu"
    }


def test_the_document_names_who_inhibits_whom() -> None:
    section = TEXT.partition("### Inhibition")[2].partition("Reasons for these rules")[0]
    rules = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["inhibit_rules"]
    sources = {
        name
        for rule in rules
        for name in re.findall(r"[A-Z][A-Za-z]{7,}(?!\.)", rule["source_matchers"][0])
    }

    assert {source for source in sources if f"`{source}`" not in section} - {"Draguard"} == set()
