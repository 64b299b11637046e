"""`make release`: the files are whole, say what they are, and the program runs on bare Python."""

import json
import os
import subprocess
import sys
import tarfile
import time
import venv
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deploy import licences
from deploy.image.contents import IMAGES, MACHINES
from deploy.locks import LISTS, needed
from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from tests.chain.conftest import install
from tools.release import chart, checksums, images, krew, sbom, single_file
from tools.release.__main__ import main
from tools.release.commit import Commit
from tools.release.images import DebianPackage

pytestmark = [pytest.mark.verify, pytest.mark.timeout(900)]
VERSION = version("draguard")
URL = "https://files.example.com/v1"
HERE = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


@pytest.fixture(scope="module")
def folder(helm_built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("release") / "dist"
    assert main(["--into", os.fspath(into), "--url", URL, "--no-images"]) == 0
    return into


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a Python that has nothing but its standard library, not even pip."""
    made = tmp_path_factory.mktemp("bare") / "python"
    venv.create(made, with_pip=False, symlinks=True)
    return made / "bin"


def program(folder: Path, machine: str) -> Path:
    return folder / f"draguard-{VERSION}-linux-{machine}.pyz"


def stated(started: Path, bare: Path, home: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [started, *words],
        env={"PATH": f"{bare}:/usr/bin:/bin", "HOME": os.fspath(home)},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_release_has_these_files_and_their_checksums(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}

    assert {path.name for path in (program(folder, machine) for machine in MACHINES)} <= names
    assert {f"draguard-{VERSION}.tgz", "krew-draguard.yaml", "SHA256SUMS"} <= names
    checked = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(checked.stdout.splitlines()) == len(names) - 1


def test_the_program_runs_on_a_python_that_has_nothing_else(
    folder: Path, bare: Path, tmp_path: Path
) -> None:
    assert stated(bare / "python3", bare, tmp_path, "-c", "import yaml")[0]

    status, text = stated(program(folder, HERE), bare, tmp_path, "--version")

    assert (status, text) == (0, f"draguard {VERSION}\n")


def test_the_program_reads_incidents_from_a_real_api_server(
    folder: Path, bare: Path, tmp_path: Path, control_plane: ControlPlane, client: Client
) -> None:
    install(control_plane, client)
    config = f"--kubeconfig={control_plane.kubeconfig}"

    status, text = stated(program(folder, HERE), bare, tmp_path, "incidents", config)

    assert (status, text.strip()) == (0, "no open incidents")


def test_krew_gets_the_program_and_its_licence_with_the_right_checksum(
    folder: Path, bare: Path, tmp_path: Path
) -> None:
    plugin: dict[str, Any] = yaml.safe_load((folder / "krew-draguard.yaml").read_text("utf-8"))

    assert [one["selector"]["matchLabels"] for one in plugin["spec"]["platforms"]] == [
        {"os": "linux", "arch": machine} for machine in MACHINES
    ]
    for platform in plugin["spec"]["platforms"]:
        where, _, name = platform["uri"].rpartition("/")
        assert where == URL
        assert platform["sha256"] == checksums.sha256(folder / name)
        with tarfile.open(folder / name) as packed:
            assert {entry["from"] for entry in platform["files"]} == set(packed.getnames())
            assert {"LICENSE", "THIRD_PARTY.md"} < set(packed.getnames())
            if platform["selector"]["matchLabels"]["arch"] == HERE:
                packed.extract(platform["bin"], tmp_path, filter="data")
    assert stated(tmp_path / "draguard", bare, tmp_path, "--version")[0] == 0


def test_each_program_has_the_compiled_modules_of_its_own_platform(
    folder: Path, tmp_path: Path
) -> None:
    for machine, linux in MACHINES.items():
        listed = subprocess.run(
            [sys.executable, "-m", "zipfile", "--list", program(folder, machine)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for python in ("311", "312", "313", "314"):
            assert f"msgspec/_core.cpython-{python}-{linux}-linux-gnu.so" in listed
        (other,) = set(MACHINES.values()) - {linux}
        assert f"-{other}-linux" not in listed


@pytest.mark.parametrize("image", IMAGES)
def test_what_is_in_an_image_is_listed_as_cyclonedx_defines_it(folder: Path, image: str) -> None:
    text = (folder / f"draguard-{image}-{VERSION}.cdx.json").read_text(encoding="utf-8")
    listed: dict[str, Any] = json.loads(text)

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert {one["name"] for one in listed["components"]} == needed(LISTS[f"{image}.txt"])
    assert all(one["hashes"] and one["licenses"] for one in listed["components"])
    assert listed["metadata"]["component"]["name"] == f"draguard-{image}"
    edges = {one["ref"]: one.get("dependsOn", []) for one in listed["dependencies"]}
    (urllib3,) = [ref for ref in edges if ref.startswith("urllib3@")]
    assert urllib3 in edges[f"draguard-{image}@{VERSION}"]


def test_a_package_without_a_known_licence_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(licences, "_EXPRESSIONS", frozenset[str]())

    with pytest.raises(licences.UnknownLicenceError, match="rich states no licence"):
        licences.licence("rich")


def test_the_same_checkout_gives_the_same_program_again(folder: Path, tmp_path: Path) -> None:
    again, packed = tmp_path / program(folder, HERE).name, tmp_path / "again.tar.gz"

    single_file.write(single_file.wheel(tmp_path), HERE, again, tmp_path)
    krew.archive(again, packed)

    assert checksums.sha256(again) == checksums.sha256(program(folder, HERE))
    first = program(folder, HERE).with_suffix(".tar.gz")
    assert checksums.sha256(packed) == checksums.sha256(first)


def test_the_same_checkout_gives_the_same_chart_again(folder: Path, tmp_path: Path) -> None:
    time.sleep(1.1)  # archives know seconds

    chart.write(tmp_path)

    name = f"draguard-{VERSION}.tgz"
    assert checksums.sha256(tmp_path / name) == checksums.sha256(folder / name)
    with tarfile.open(folder / name) as packed:
        assert "draguard/Chart.yaml" in packed.getnames()


@pytest.mark.parametrize("image", IMAGES)
def test_the_same_checkout_gives_the_same_list_of_packages_again(
    folder: Path, tmp_path: Path, image: str
) -> None:
    again = tmp_path / "again.json"

    sbom.write(image, again, Commit.here().when)

    first = folder / f"draguard-{image}-{VERSION}.cdx.json"
    assert again.read_text("utf-8") == first.read_text("utf-8")


def test_what_an_image_has_of_debian_is_listed_with_its_version_and_architecture(
    tmp_path: Path,
) -> None:
    packages = [DebianPackage("libc6", "2.36-9+deb12u14", machine) for machine in MACHINES]

    sbom.write("exporter", tmp_path / "list", Commit.here().when, packages)

    text = (tmp_path / "list").read_text("utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    found = [one["purl"] for one in json.loads(text)["components"] if one["name"] == "libc6"]
    assert found == [
        f"pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch={machine}&distro=debian-12"
        for machine in MACHINES
    ]


def test_what_building_images_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    assert images.lacking() == "buildah and debootstrap missing (packages of Debian)"


def test_a_manifest_without_an_address_names_the_files(tmp_path: Path) -> None:
    packed = tmp_path / "a.tar.gz"
    packed.write_bytes(b"")

    (platform,) = krew.manifest("1.0.0", {"amd64": packed}, "")["spec"]["platforms"]

    assert platform["uri"] == "a.tar.gz"


def test_a_folder_with_files_is_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("", encoding="utf-8")

    assert main(["--into", os.fspath(tmp_path)]) == 1
    assert "is not empty: remove it first" in capsys.readouterr().err
