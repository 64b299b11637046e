"""The images: what goes in, who runs them, and that their install steps work on this machine.

There is no container engine here: no image was built by this test.
"""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from deploy import locks
from tests.deploy import rendered
from tests.deploy.dockerfile import DOCKERFILE, ROOT, Replay, lineage, stages

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("helm_built"), pytest.mark.verify]
STAGES = stages()
TARGETS = ("exporter", "controller")
IGNORED = DOCKERFILE.with_name("Dockerfile.dockerignore")


def copied() -> list[str]:
    return [source for line in STAGES["build"].all("COPY") for source in line.split()[:-1]]


def test_every_file_that_is_copied_is_there_and_not_ignored() -> None:
    let_in = {
        line.removeprefix("!")
        for line in IGNORED.read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }

    assert [path for path in copied() if not (ROOT / path).exists()] == []
    assert set(copied()) == let_in


def test_every_package_of_the_wheel_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]

    assert set(packages) <= set(copied())


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_draguard_as_the_user_that_the_chart_names(target: str) -> None:
    steps = [step for stage in lineage(STAGES, target) for step in stage.steps]
    users = [step.rest for step in steps if step.word == "USER"]
    (entry,) = [json.loads(step.rest) for step in steps if step.word == "ENTRYPOINT"]
    pods = [
        manifest["spec"]["template"]["spec"]
        for manifest in rendered.objects()
        if "template" in manifest.get("spec", {})
    ]
    uids = {
        (found["securityContext"]["runAsUser"], found["securityContext"]["runAsGroup"])
        for pod in pods
        for found in pod["containers"]
        if found["name"] != "sensor"
    }

    assert [tuple(map(int, user.split(":"))) for user in users] == list(uids)
    assert entry == ["draguard"]


@pytest.mark.parametrize(
    ("target", "words"), [("exporter", ["exporter"]), ("controller", ["--help"])]
)
def test_an_image_without_arguments_is_what_one_would_expect(target: str, words: list[str]) -> None:
    """dcgm-exporter's runs, configured by its environment; of our two parts nobody can guess."""
    steps = [step for stage in lineage(STAGES, target) for step in stage.steps]
    *_, last = [json.loads(step.rest) for step in steps if step.word == "CMD"]

    assert last == words


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_carries_what_was_installed_and_nothing_of_the_building(target: str) -> None:
    bases = {stage.name for stage in lineage(STAGES, target)}

    assert bases == {"runtime", target}
    assert STAGES[target].all("COPY") == [f"--from=build-{target} /opt/draguard /opt/draguard"]


def test_the_chart_asks_for_the_images_that_the_file_makes() -> None:
    images = {
        found["image"].partition(":")[0]
        for manifest in rendered.objects()
        if "template" in manifest.get("spec", {})
        for found in manifest["spec"]["template"]["spec"]["containers"]
    }

    assert images == {f"draguard-{target}" for target in TARGETS}


def test_nothing_is_fetched_without_a_version_and_a_hash() -> None:
    base = re.search(r"^ARG PYTHON=(\S+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    installs = [
        (stage.name, command)
        for stage in STAGES.values()
        for command in stage.all("RUN")
        if "pip install" in command and "--no-deps" not in command
    ]

    assert base
    assert re.fullmatch(r"python:3\.\d+(\.\d+)?-slim-[a-z]+(@sha256:[0-9a-f]{64})?", base[1])
    assert [name for name, _ in installs] == ["build", *(f"build-{target}" for target in TARGETS)]
    for name, command in installs:
        assert f"--require-hashes -r locked/{name.removeprefix('build-')}.txt" in command


def test_beside_the_pinned_packages_only_our_own_wheel_is_installed() -> None:
    """It is built with the pinned tools, without a download in between."""
    own = [
        command.split()[-1]
        for stage in STAGES.values()
        for command in stage.all("RUN")
        if "pip install" in command and "--no-deps" in command
    ]

    assert own == ["/opt/wheel/*.whl"] * len(TARGETS)
    assert "python -m hatchling build -t wheel -d /opt/wheel" in STAGES["build"].all("RUN")


def test_the_labels_say_what_an_image_is() -> None:
    labels = {
        label.removeprefix("org.opencontainers.image.").partition("=")[0]
        for stage in lineage(STAGES, "exporter")
        for step in stage.steps
        if step.word == "LABEL"
        for label in re.findall(r"org[.a-z]+=", step.rest)
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert labels == {
        "title",
        "description",
        "licenses",
        "version",
        "revision",
        "created",
        "source",
    }
    assert f"ARG VERSION={project['version']}\n" in DOCKERFILE.read_text(encoding="utf-8")
    for target in TARGETS:
        assert f'title="draguard-{target}"' in " ".join(STAGES[target].all("LABEL"))


def test_building_and_running_share_one_interpreter() -> None:
    """A virtual environment works with the interpreter that it was made by, at the same path."""
    assert STAGES["build"].base == STAGES["runtime"].base == "${PYTHON}"


@pytest.fixture(scope="module", params=TARGETS)
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """What the install steps of one target leave in /opt/draguard."""
    target: str = request.param
    replay = Replay(tmp_path_factory.mktemp(target))
    for stage in lineage(STAGES, f"build-{target}"):
        replay.play(stage)
    return target, replay.at(Path("/opt/draguard/bin"))


def said(programs: Path, *arguments: str) -> tuple[int, str]:
    # Nothing of the checkout may help.
    environ = {"PATH": os.fspath(programs), "HOME": "/"}
    done = subprocess.run(
        [programs / arguments[0], *arguments[1:]],
        env=environ,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


RUNS = {
    "exporter": (("exporter", "--version"), ("exporter", "sensor", "--help")),
    "controller": (
        ("remediator", "--help"),
        ("cleanup", "--help"),
        ("policy", "explain", "--xid", "79"),
    ),
}
LACKS = {"exporter": ("kubernetes", "rich", "grpc"), "controller": ("pynvml", "grpc", "grafanalib")}


def test_what_is_installed_starts_and_carries_nothing_of_the_other(
    installed: tuple[str, Path],
) -> None:
    target, programs = installed
    for arguments in RUNS[target]:
        status, text = said(programs, "draguard", *arguments)
        assert status == 0, text
    # Both serve metrics with passwords where a web configuration names some.
    assert said(programs, "python", "-c", "import serving.basic_auth") == (0, "")
    for module in LACKS[target]:
        status, text = said(programs, "python", "-c", f"import {module}")
        assert "ModuleNotFoundError" in text, f"{target} carries {module}"


def test_it_is_installed_as_pinned(installed: tuple[str, Path]) -> None:
    target, programs = installed
    script = (
        "from importlib.metadata import distributions\n"
        "for one in distributions(): print(one.name.lower().replace('_', '-') + '==' + one.version)"
    )
    status, text = said(programs, "python", "-c", script)
    pinned = {
        line.partition(" ")[0]
        for line in (locks.FOLDER / f"{target}.txt").read_text(encoding="utf-8").splitlines()
    }

    assert status == 0, text
    assert {word for word in text.split() if not word.startswith("draguard==")} <= pinned
