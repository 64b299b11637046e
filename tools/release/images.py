"""Both images as OCI archives, for each architecture; and what they have of Debian, for the SBOM.

Building needs root and two packages of Debian. The same commit gives the same archives again while
Debian's packages are the same.
"""

import email
import gzip
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from deploy import base_image
from deploy.buildah import Buildah
from deploy.sources import ROOT
from simulator.cluster.build import to_stderr
from simulator.compiler import BuildError
from tools.release.archives import plain
from tools.release.commit import Commit

_DOCKERFILE = ROOT / "deploy" / "Dockerfile"
_PROGRAMS = ("buildah", "debootstrap")
"""Each is in the Debian package of its name."""
_DESCRIBED = "var/lib/dpkg/status.d/"


class DebianPackage(NamedTuple):
    """A package of Debian that an image has files of."""

    name: str
    version: str
    architecture: str


def lacking() -> str:
    """Return why no image can be built here, as half a sentence; "" if one can."""
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return f"{' and '.join(missing)} missing (packages of Debian)"
    return "" if os.geteuid() == 0 else "building needs root"


def write(image: str, machine: str, number: str, commit: Commit, folder: Path) -> Path:
    """Write the archive of one image for one architecture; return it. Raises BuildError."""
    buildah = Buildah()
    name = f"draguard-{image}"
    built = f"localhost/{name}-{machine}:{number}"
    buildah.build(
        _DOCKERFILE,
        built,
        target=image,
        machine=machine,
        timestamp=commit.seconds,
        arguments={
            "PYTHON": base_image.base_image(buildah, to_stderr),
            "VERSION": number,
            "REVISION": commit.revision,
            "CREATED": commit.when.isoformat(),
        },
    )
    packed = archive(folder, image, number, machine)
    with tempfile.TemporaryDirectory() as temporary:
        layout = Path(temporary) / "image"
        buildah.save_layout(built, f"{name}:{number}", layout)
        _pack(layout, packed)
    return packed


def archive(folder: Path, image: str, number: str, machine: str) -> Path:
    """Return where the archive of an image is."""
    return folder / f"draguard-{image}-{number}-linux-{machine}.oci.tar"


def debian_packages(archive: Path) -> list[DebianPackage]:
    """Return what an image has of Debian, by name."""
    with tarfile.open(archive) as packed:
        (layer,) = _manifest(packed)["layers"]
        root = io.BytesIO(gzip.decompress(_blob(packed, layer["digest"])))
    with tarfile.open(fileobj=root) as files:
        return sorted(_described(files))


def _described(files: tarfile.TarFile) -> Iterator[DebianPackage]:
    for member in files:
        content = files.extractfile(member) if member.isfile() else None
        if content is not None and member.name.startswith(_DESCRIBED):
            said = email.message_from_bytes(content.read())
            yield DebianPackage(said["Package"], said["Version"], said["Architecture"])


def _manifest(packed: tarfile.TarFile) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_blob(packed, _index(packed)["manifests"][0]["digest"]))
    return found


def _index(packed: tarfile.TarFile) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_read(packed, "index.json"))
    return found


def _blob(packed: tarfile.TarFile, digest: str) -> bytes:
    return _read(packed, f"blobs/{digest.replace(':', '/')}")


def _read(packed: tarfile.TarFile, name: str) -> bytes:
    content = packed.extractfile(name)
    if content is None:
        raise BuildError(f"{packed.name}: {name} is no file")
    return content.read()


def _pack(layout: Path, to: Path) -> None:
    with tarfile.open(to, "w") as packed:
        for path in sorted(layout.rglob("*")):
            packed.add(path, os.fspath(path.relative_to(layout)), recursive=False, filter=plain)
