"""The workflows: they name no secret, have no more rights than they use, and run what exists."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.actionlint import faults

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".github" / "workflows"
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yml"))}
EACH = pytest.mark.parametrize("name", TEXTS)


def jobs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(TEXTS[name])["jobs"]
    return found


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in jobs(name).values() for step in job.get("steps", ())]


def test_there_is_one_for_each_purpose() -> None:
    assert {*TEXTS} == {"build", "publish", "scan", "test"}


@EACH
def test_a_workflow_names_no_secret_and_says_that_it_was_not_tried(name: str) -> None:
    assert "secrets" not in TEXTS[name]
    assert TEXTS[name].startswith("# Not tried on a runner yet.")


@EACH
def test_a_workflow_may_only_read_unless_it_publishes(name: str) -> None:
    assert yaml.safe_load(TEXTS[name])["permissions"] == {"contents": "read"}
    for job in jobs(name).values():
        if "uses" in job:
            continue  # the rights and the time of that workflow
        assert job["timeout-minutes"] <= 120
        assert ("permissions" in job) == (name == "publish")


@EACH
def test_a_checkout_keeps_no_token_and_an_action_has_a_version(name: str) -> None:
    actions = [step for step in steps(name) if "uses" in step]

    assert all(re.fullmatch(r"(actions|docker)/[a-z-]+@v\d+", step["uses"]) for step in actions)
    for step in actions:
        if step["uses"].startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}


@EACH
def test_commands_get_no_text_of_others_as_code(name: str) -> None:
    """A branch's name in `${{ }}` would be run by the shell: values come by the environment."""
    for step in steps(name):
        inside = re.findall(r"\$\{\{\s*(\S+)\s*\}\}", step.get("run", ""))
        assert set(inside) <= {"matrix.target"}


@EACH
def test_a_target_of_make_exists_and_programs_have_a_version(name: str) -> None:
    known = re.findall(r"^([a-z0-9.-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    text = TEXTS[name].replace("${{ matrix.target }}", "test")

    assert set(re.findall(r"run: make ([a-z-]+)", text)) <= set(known)
    for module in re.findall(r"go install (\S+)", text):
        assert re.search(r"@v\d+\.\d+\.\d+$", module), module


def test_nothing_is_published_before_the_tests_have_passed() -> None:
    published = jobs("publish")

    assert published["test"] == {"uses": "./.github/workflows/test.yml"}
    assert [job.get("needs") for name, job in published.items() if name != "test"] == ["test"]
    assert "\n  workflow_call:\n" in TEXTS["test"]


def test_the_chart_is_packed_once_the_images_have_digests_and_before_it_is_pushed() -> None:
    order = [step.get("name") for step in steps("publish")]

    pushed, packed, sent = map(
        order.index,
        ("Build for both architectures, push", "Write the files", "Push and sign the chart"),
    )
    assert pushed < packed < sent
    assert 'REGISTRY="$PREFIX" DIGESTS=' in steps("publish")[packed]["run"]


def test_what_is_published_is_what_a_release_has() -> None:
    text = TEXTS["publish"]

    for name in ("draguard-$target-$VERSION.cdx.json", "draguard-$VERSION.tgz", "SHA256SUMS"):
        assert f"dist/{name}" in text
    for word in ("VERSION", "REVISION", "CREATED", "SOURCE"):
        assert f"--build-arg {word}=" in text


def test_the_version_is_the_same_wherever_it_is_written() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    chart = yaml.safe_load((ROOT / "deploy/helm/draguard/Chart.yaml").read_text("utf-8"))
    dockerfile = (ROOT / "deploy/Dockerfile").read_text("utf-8")

    assert chart["version"] == chart["appVersion"] == project["version"]
    assert set(re.findall(r"\d+\.\d+\.\d+", dockerfile)) == {project["version"]}


def test_renovate_looks_at_files_that_exist() -> None:
    settings = json.loads((ROOT / "renovate.json").read_text("utf-8"))
    (custom,) = settings["customManagers"]
    found = [
        match
        for text in TEXTS.values()
        for match in re.findall(custom["matchStrings"][0].replace("?<", "?P<"), text)
    ]

    assert len(found) == 3
    for pattern in (
        *settings["pip_requirements"]["managerFilePatterns"],
        *custom["managerFilePatterns"],
    ):
        names = (
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / "constraints.txt", *FOLDER.iterdir())
        )
        assert any(re.search(pattern.strip("/"), name) for name in names)


@pytest.mark.verify
def test_actionlint_finds_no_fault_in_them(actionlint_built: Path) -> None:
    assert faults(actionlint_built, sorted(FOLDER.glob("*.yml"))) == ""


@pytest.mark.verify
def test_actionlint_finds_a_fault_that_is_there(actionlint_built: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(TEXTS["test"].replace("matrix.target", "matrix.tier"), encoding="utf-8")

    assert 'property "tier" is not defined' in faults(actionlint_built, [wrong])
