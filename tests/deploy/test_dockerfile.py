"""The images: what goes in, who runs them, and that what is installed starts on this machine.

No image is built here: tests/node/test_images.py looks into built ones.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from deploy import locks
from deploy.image import python_files
from deploy.image.contents import IMAGES
from tests.deploy import rendered
from tests.deploy.dockerfile import DOCKERFILE, ROOT, lineage, stages

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("helm_built"), pytest.mark.verify]
STAGES = stages()
IGNORED = DOCKERFILE.with_name("Dockerfile.dockerignore")


def copied() -> list[str]:
    return [
        source
        for stage in ("build", "wheel")
        for line in STAGES[stage].all("COPY")
        for source in line.split()[:-1]
    ]


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


@pytest.mark.parametrize("target", IMAGES)
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


@pytest.mark.parametrize("target", IMAGES)
def test_an_image_is_one_layer_on_nothing(target: str) -> None:
    before, last = lineage(STAGES, target)

    assert before.base == "scratch"
    assert before.all("COPY") == []
    assert last.all("COPY") == [f"--from=root-{target} /root-{target} /"]
    assert [*before.all("RUN"), *last.all("RUN")] == []


def test_the_chart_asks_for_the_images_that_the_file_makes() -> None:
    images = {
        found["image"].partition(":")[0]
        for manifest in rendered.objects()
        if "template" in manifest.get("spec", {})
        for found in manifest["spec"]["template"]["spec"]["containers"]
    }

    assert images == {f"draguard-{target}" for target in IMAGES}


def test_nothing_is_fetched_without_a_version_and_a_hash() -> None:
    base = re.search(r"^ARG PYTHON=(\S+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    pinned = [
        (stage.name, *re.findall(r"(?<=deploy/locked/)\S+", command))
        for stage in STAGES.values()
        for command in stage.all("RUN")
        if "deploy/locked" in command
    ]

    assert base
    assert re.fullmatch(r"python:3\.\d+(\.\d+)?-slim-[a-z]+(@sha256:[0-9a-f]{64})?", base[1])
    assert pinned == [
        ("build", "build.txt"),
        *((f"packages-{target}", f"{target}.txt") for target in IMAGES),
    ]
    (tools,) = STAGES["build"].all("RUN")
    assert "--require-hashes -r deploy/locked/build.txt" in tools
    assert "--require-hashes" in python_files.arguments("x86_64", Path("list"), Path("site"))


def test_beside_the_pinned_packages_only_our_own_wheel_is_installed() -> None:
    """It is built with the pinned tools, without a download in between."""
    assert STAGES["wheel"].all("RUN") == ["python -m hatchling build -t wheel -d /wheel"]
    for target in IMAGES:
        assert STAGES[f"root-{target}"].all("RUN") == [
            f"python -m deploy.image {target} --into=/root-{target} --wheel=/wheel"
        ]


@pytest.mark.parametrize("target", IMAGES)
def test_what_is_staged_is_of_the_architecture_that_is_requested(target: str) -> None:
    """By programs of the builder's own: nothing of the other one runs."""
    packages = STAGES[f"packages-{target}"]

    assert packages.all("ARG") == ["TARGETARCH"]
    assert "--arch=$TARGETARCH" in packages.all("RUN")[0]
    assert "FROM --platform=$BUILDPLATFORM ${PYTHON} AS build" in DOCKERFILE.read_text("utf-8")


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
    for target in IMAGES:
        assert f'title="draguard-{target}"' in " ".join(STAGES[target].all("LABEL"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our wheel, built from what the Dockerfile copies and nothing else."""
    source = tmp_path_factory.mktemp("source")
    for name in copied():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name)
        else:
            shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=240)
    (built,) = (source / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module", params=IMAGES)
def installed(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """An image's Python packages below a folder."""
    target: str = request.param
    root = tmp_path_factory.mktemp(target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_SYSTEM_CERTS", "1")
        python_files.lay_out(target, os.uname().machine, locks.FOLDER / f"{target}.txt", root)
    python_files.lay_out_own(target, wheel, root)
    return target, root


def printed(root: Path, *arguments: str | Path) -> tuple[int, str]:
    # Without site (-S), and outside of the virtual environment: nothing of the checkout may help.
    done = subprocess.run(
        [Path(sys.base_prefix) / "bin" / "python3", "-S", *arguments],
        env={"PATH": "/usr/bin:/bin", "HOME": "/", "PYTHONPATH": f"{root / python_files.SITE}"},
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
        ("explainer", "--help"),
        ("cleanup", "--help"),
        ("policy", "explain", "--xid", "79"),
    ),
}
LACKS = {
    "exporter": ("kubernetes", "rich", "grpc", "remediator", "simulator"),
    "controller": ("pynvml", "grpc", "grafanalib", "simulator", "kubernetes.aio", "aiohttp"),
}


def test_what_is_installed_starts_and_carries_nothing_of_the_other(
    installed: tuple[str, Path],
) -> None:
    target, root = installed
    for arguments in RUNS[target]:
        status, text = printed(root, root / "usr/local/bin/draguard", *arguments)
        assert status == 0, text
    # Both serve metrics with passwords where a web configuration names some.
    assert printed(root, "-c", "import serving.basic_auth") == (0, "")
    for module in LACKS[target]:
        status, text = printed(root, "-c", f"import {module}")
        assert "ModuleNotFoundError" in text, f"{target} carries {module}"


def test_it_is_installed_as_pinned(installed: tuple[str, Path]) -> None:
    target, root = installed
    script = (
        "from importlib.metadata import distributions\n"
        "for one in distributions(): print(one.name.lower().replace('_', '-') + '==' + one.version)"
    )
    status, text = printed(root, "-c", script)
    pinned = {
        line.partition(" ")[0]
        for line in (locks.FOLDER / f"{target}.txt").read_text(encoding="utf-8").splitlines()
    }

    assert status == 0, text
    assert {word for word in text.split() if not word.startswith("draguard==")} <= pinned
