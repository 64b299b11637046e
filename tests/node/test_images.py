"""What is in the built images: the listed files and no others, small, enough to run."""

import json
import re
import sys
from pathlib import Path

import pytest

from deploy import locks
from deploy.image.contents import IMAGES, Debian, debian
from deploy.image.debian_files import matches
from deploy.image.python_files import SITE
from simulator.cluster.toolchain import Say
from tests.conftest import printer
from tests.lab.node import images
from tests.lab.node.release import Release
from tests.lab.node.unpacked import run, unpack

ROOT = Path(__file__).parents[2]
LIST = ROOT / "deploy" / "image" / "debian.txt"
LINUX = "x86_64"
MEGABYTES = {"exporter": 110, "controller": 200}
"""How much an image may be at most, unpacked."""
MADE = {
    *("etc/group", "etc/nsswitch.conf", "etc/passwd"),
    *("etc/ld.so.cache", "etc/ssl/certs/ca-certificates.crt"),
    *("bin", "lib", "lib64", "sbin"),  # links into usr
    "usr/local/bin/draguard",
}
"""What is of no package."""
OWN = ("allocation", "draguard", "exporter", "kubeapi", "remediator", "serving")
OTHERS = {"exporter": ("allocation", "remediator", "rich"), "controller": ("pynvml", "h2")}
"""What modules of ours import that only the other image has."""
WHOLE = {
    "exporter": ("exporter", "kubeapi", "serving"),
    "controller": ("allocation", "draguard", "kubeapi", "remediator", "serving"),
}
"""Packages of ours that an image uses all of."""
REFUSE = ("apscheduler.", "kubernetes.leaderelection.example", "rich._win")
"""Modules of others that refuse to load without a cluster, another package or Windows."""
LOADS = """\
import importlib, json, pkgutil, sys
failed = {}
def load(name):
    try:
        importlib.import_module(name)
    except BaseException as error:
        failed[name] = repr(error)
found = [module.name for module in pkgutil.walk_packages([sys.argv[1]], onerror=load)]
for name in found:
    if not name.endswith("__main__"):
        load(name)
print(json.dumps([len(found), failed]))
"""
STARTS = {
    "exporter": (("--help",), ("--version",), ("exporter", "--help"), ("exporter", "sensor", "-h")),
    "controller": (
        *(
            ("--help",),
            ("--version",),
            ("remediator", "--help"),
            ("explainer", "--help"),
            ("status", "--help"),
        ),
        *(("status", "--help"), ("policy", "explain", "--xid", "79"), ("why", "--help")),
    ),
}


@pytest.fixture(scope="module")
def roots(
    real_node_built: None, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    say: Say = printer(pytestconfig)
    found = {"exporter": images.EXPORTER, "controller": images.CONTROLLER}
    return {
        image: unpack(archive, tmp_path_factory.mktemp(image))
        for image, name in found.items()
        for archive in images.archives(say)
        if f"-{name}-" in archive.parent.name
    }


@pytest.fixture(params=IMAGES)
def image(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def root(roots: dict[str, Path], image: str) -> Path:
    return roots[image]


@pytest.fixture
def files(root: Path) -> dict[str, Path]:
    """All but folders, by their path in the image."""
    return {
        path.relative_to(root).as_posix(): path
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }


def packages(image: str) -> list[Debian]:
    return debian(LIST.read_text("utf-8"), image, LINUX)


def test_an_image_has_the_listed_packages_of_debian_and_no_file_beside(
    image: str, root: Path, files: dict[str, Path]
) -> None:
    described = {path.name for path in (root / "var/lib/dpkg/status.d").iterdir()}
    patterns = [pattern for package in packages(image) for pattern in package.files]
    left_out = [pattern for package in packages(image) for pattern in package.left_out]

    beside = [
        name
        for name in files
        if name not in MADE
        and not name.startswith((f"{SITE}/", "usr/share/doc/", "var/lib/dpkg/status.d/"))
        and not any(matches(name, pattern) for pattern in patterns)
    ]

    assert described == {package.name for package in packages(image)}
    assert beside == []
    assert [name for name in files for out in left_out if matches(name, out)] == []


def test_an_image_has_the_licence_of_each_package(image: str, root: Path) -> None:
    doc = root / "usr/share/doc"

    for package in packages(image):
        assert (doc / package.name / "copyright").read_text("utf-8"), package.name


def test_an_image_has_the_pinned_python_packages(image: str, root: Path) -> None:
    pins = (locks.FOLDER / f"{image}.txt").read_text("utf-8")
    installed = {
        locks.normal(path.name.removesuffix(".dist-info").partition("-")[0])
        for path in (root / SITE).glob("*.dist-info")
    }

    assert installed == {*locks.pinned(pins), "draguard"}


def test_an_image_is_small(image: str, files: dict[str, Path]) -> None:
    assert sum(path.lstat().st_size for path in files.values()) < MEGABYTES[image] * 1_000_000


def test_no_file_can_be_written_by_others_or_changes_the_user(root: Path) -> None:
    found = [path for path in root.rglob("*") if not path.is_symlink() and path != root / "tmp"]

    assert {path.lstat().st_uid for path in found} == {0}
    assert [path for path in found if path.lstat().st_mode & 0o022] == []
    assert [path for path in found if path.lstat().st_mode & 0o6000] == []


def test_there_is_no_shell_and_no_package_manager(files: dict[str, Path]) -> None:
    programs = {name for name in files if "/bin/" in name or "/sbin/" in name}

    assert programs == {"usr/bin/python3.11", "usr/local/bin/draguard"}


def test_every_module_is_compiled_once_and_comes_without_tests_and_types(
    files: dict[str, Path],
) -> None:
    modules = {name for name in files if name.endswith(".py")}
    compiled = [name for name in files if name.endswith(".pyc")]

    assert {name.replace("__pycache__/", "").split(".cpython")[0] for name in compiled} == {
        name.removesuffix(".py") for name in modules
    }
    assert len(compiled) == len(modules)
    for name in files:
        assert not name.endswith((".pyi", "/RECORD")), name
        assert not {"test", "tests"} & {*name.split("/")}, name


def test_every_module_loads_but_for_what_needs_packages_that_no_image_has(
    image: str, root: Path
) -> None:
    status, text = run(root, "/usr/bin/python3.11", "-", f"/{SITE}", text=LOADS)
    found, failed = json.loads(next(line for line in text.splitlines() if line.startswith("[")))

    assert status == 0
    assert found > 300
    for module, error in failed.items():
        (missing,) = re.findall(r"No module named '(\w+)", error) or [""]
        if module.startswith(OWN):
            assert missing in OTHERS[image], (module, error)
        elif not module.startswith(REFUSE):
            assert missing, (module, error)
            assert missing not in sys.stdlib_module_names - {"winreg"}, (module, error)
    assert not [module for module in failed if module.startswith(WHOLE[image])]


def test_programs_start(image: str, root: Path) -> None:
    for arguments in STARTS[image]:
        status, text = run(root, "/usr/local/bin/draguard", *arguments)
        assert status == 0, text


def test_names_times_and_certificates_are_there(image: str, root: Path) -> None:
    script = (
        "import pwd, ssl, zoneinfo\n"
        "print(pwd.getpwuid(65522).pw_name, len(ssl.create_default_context().get_ca_certs()) > 99)"
    )
    zone = "; zoneinfo.ZoneInfo('Europe/Berlin')" if image == "controller" else ""

    assert run(root, "/usr/bin/python3.11", "-c", script + zone) == (0, "draguard True\n")


def test_kubectl_exec_runs_draguard_without_a_shell(release: Release) -> None:
    pod = release.pods("exporter")[0]["metadata"]["name"]

    text = release.exec(pod, "agent", "draguard", "exporter", "--version")

    assert text.startswith("draguard exporter ")
