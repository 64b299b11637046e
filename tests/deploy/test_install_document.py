"""docs/install.md: what it tells to type is what there is."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy.program import NAMESPACE, run
from deploy.sources import ROOT
from draguard.commands.policy import main as policy_command
from tests.deploy.dockerfile import stages
from tests.deploy.rendered import LOCAL

PAGES = ROOT / "docs"
TEXT = (PAGES / "install.md").read_text(encoding="utf-8")


def tainted(kind: str) -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
    return [text for of, text in blocks if of == kind]


def commands(program: str) -> Iterator[list[str]]:
    """Give the words of each line that starts a program."""
    for block in (*tainted("sh"), *tainted("")):
        for line in block.splitlines():
            words = shlex.split(line.partition(" | ")[0])
            if words[:1] == [program]:
                yield words[1:]


def values_files() -> list[str]:
    return [block for block in tainted("yaml") if block.startswith("# values.yaml\n")]


@pytest.mark.usefixtures("helm_built")
@pytest.mark.parametrize("number", range(len(values_files())))
def test_every_values_file_in_it_renders(tmp_path: Path, number: int) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(values_files()[number], encoding="utf-8")

    chart = str(ROOT / "deploy/helm/draguard")
    assert run("template", "draguard", chart, "-f", str(file), "--set", LOCAL)


@pytest.mark.parametrize("page", ["README.md", "docs/install.md", "deploy/helm/draguard/README.md"])
def test_who_installs_by_a_page_labels_the_namespace_first(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    before, _, _ = text.partition("helm install draguard")

    label = "pod-security.kubernetes.io/enforce=privileged"
    assert before.rstrip().splitlines()[-1] == f"kubectl label namespace {NAMESPACE} {label}"
    assert "--create-namespace" not in text


@pytest.mark.usefixtures("helm_built")
def test_every_helm_command_in_it_is_one_that_helm_takes(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(values_files()[0], encoding="utf-8")
    seen: set[str] = set()
    for verb, *words in commands("helm"):
        seen.add(verb)
        if verb == "uninstall":
            assert {word for word in words if word.startswith("-")} <= {"-n", "--no-hooks"}
            continue
        here = [str(tmp_path / word) if word == "values.yaml" else word for word in words]
        assert run("template", *(str(ROOT / w) if w.startswith("deploy/") else w for w in here))

    assert seen == {"install", "upgrade", "uninstall"}


def test_every_file_that_it_names_is_there() -> None:
    named = {
        word
        for program in ("kubectl", "docker", "draguard")
        for words in commands(program)
        for word in words
        if word.startswith("deploy/")
    }
    named |= set(re.findall(r"`((?:deploy|alerts|docs)/[\w./-]+)`", TEXT))
    named |= {
        f"deploy/manifests/{file}" for file in re.findall(r"^\| `([\w-]+\.yaml)` \|", TEXT, re.M)
    }

    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_page_and_heading_that_it_links_to_is_there() -> None:
    for page, _, heading in (
        link.partition("#") for link in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in link
    ):
        text = (PAGES / page).read_text(encoding="utf-8") if page else TEXT
        titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert not heading or heading in anchors, f"{page}#{heading}"


def test_the_images_that_it_builds_are_targets_of_the_dockerfile() -> None:
    built = [words[words.index("--target") + 1] for words in commands("docker") if "build" in words]

    assert built == ["exporter", "controller"]
    assert set(built) <= stages().keys()


def test_the_policy_in_it_is_sound(tmp_path: Path) -> None:
    texts = [
        parsed["remediator"]["policy"]["text"]
        for block in values_files()
        if "remediator" in (parsed := yaml.safe_load(block))
    ]

    assert texts
    for number, text in enumerate(texts):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text, encoding="utf-8")
        assert policy_command(["check", str(file)]) == 0


def test_prometheus_takes_its_scrape_configuration(prometheus_built: Path, tmp_path: Path) -> None:
    (block,) = [
        candidate for candidate in tainted("yaml") if candidate.startswith("# prometheus.yml\n")
    ]
    file = tmp_path / "prometheus.yml"
    file.write_text(block, encoding="utf-8")
    check = [prometheus_built / "promtool", "check", "config", str(file)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = yaml.safe_load(block)["scrape_configs"]
    assert job["honor_labels"] is True
    labels = {step["target_label"] for step in job["relabel_configs"] if "target_label" in step}
    assert not labels & {"pod", "namespace", "container"}
