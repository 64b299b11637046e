"""The images of a release: for both architectures, with their origin, the same again."""

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deploy.image.contents import MACHINES, debian
from tools.release import checksums, images
from tools.release.commit import Commit

pytestmark = pytest.mark.timeout(1800)
ROOT = Path(__file__).parents[2]
LIST = ROOT / "deploy" / "image" / "debian.txt"
COMMIT = Commit("0" * 40, 1_700_000_000)
ELF = {"amd64": 62, "arm64": 183}
"""The number of the machine in an ELF file."""
Json = dict[str, Any]


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("images")
    return {
        machine: images.write("exporter", machine, "1.2.3", COMMIT, folder) for machine in MACHINES
    }


def stated(archive: Path, name: str) -> Json:
    return json.loads(content(archive, name))


def content(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as packed:
        found = packed.extractfile(name)
        assert found is not None
        return found.read()


def blob(archive: Path, entry: Json) -> str:
    return f"blobs/{entry['digest'].replace(':', '/')}"


def manifest(archive: Path) -> Json:
    return stated(archive, blob(archive, stated(archive, "index.json")["manifests"][0]))


@pytest.mark.parametrize("machine", MACHINES)
def test_an_image_says_what_it_is_and_of_which_commit(
    archives: Mapping[str, Path], machine: str
) -> None:
    config = stated(
        archives[machine], blob(archives[machine], manifest(archives[machine])["config"])
    )
    labels = config["config"]["Labels"]

    assert config["architecture"] == machine
    assert labels["org.opencontainers.image.version"] == "1.2.3"
    assert labels["org.opencontainers.image.revision"] == COMMIT.revision
    assert labels["org.opencontainers.image.created"] == "2023-11-14T22:13:20+00:00"
    assert config["created"] == "2023-11-14T22:13:20Z"


@pytest.mark.parametrize("machine", MACHINES)
def test_every_program_and_library_is_of_the_images_architecture(
    archives: Mapping[str, Path], machine: str
) -> None:
    (layer,) = manifest(archives[machine])["layers"]
    root = io.BytesIO(gzip.decompress(content(archives[machine], blob(archives[machine], layer))))
    found: dict[str, int] = {}
    with tarfile.open(fileobj=root) as files:
        for member in files:
            file = files.extractfile(member) if member.isfile() else None
            if file is not None and (head := file.read(20)).startswith(b"\x7fELF"):
                found[member.name] = int.from_bytes(head[18:20], "little")

    assert len(found) > 40
    assert set(found.values()) == {ELF[machine]}


@pytest.mark.parametrize("machine", MACHINES)
def test_what_an_image_has_of_debian_is_known(archives: Mapping[str, Path], machine: str) -> None:
    packages = images.debian_packages(archives[machine])

    names = {package.name for package in debian(LIST.read_text("utf-8"), "exporter", "x86_64")}
    assert {package.name for package in packages} == names
    assert {package.architecture for package in packages} == {machine, "all"}


def test_a_second_build_of_a_commit_gives_the_same_archive(
    archives: Mapping[str, Path], tmp_path: Path
) -> None:
    again = images.write("exporter", "amd64", "1.2.3", COMMIT, tmp_path)

    assert checksums.sha256(again) == checksums.sha256(archives["amd64"])
