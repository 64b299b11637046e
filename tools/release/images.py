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
        with tarfile.open(packed, "w") as files:
            for path in sorted(layout.rglob("*")):
                name_there = os.fspath(path.relative_to(layout))
                files.add(path, name_there, recursive=False, filter=plain)
    return packed


def archive(folder: Path, image: str, number: str, machine: str) -> Path:
    """Return where the archive of an image is."""
    return folder / f"draguard-{image}-{number}-linux-{machine}.oci.tar"


def debian_packages(archive: Path) -> list[DebianPackage]:
    """Return what an image has of Debian, by name."""
    with tarfile.open(archive) as packed:
        index: dict[str, Any] = json.loads(_read(packed, "index.json"))
        manifest: dict[str, Any] = json.loads(_blob(packed, index["manifests"][0]["digest"]))
        (layer,) = manifest["layers"]
        root = io.BytesIO(gzip.decompress(_blob(packed, layer["digest"])))
    found: list[DebianPackage] = []
    with tarfile.open(fileobj=root) as files:
        for member in files:
            content = files.extractfile(member) if member.isfile() else None
            if content is not None and member.name.startswith(_DESCRIBED):
                fields = email.message_from_bytes(content.read())
                found.append(
                    DebianPackage(fields["Package"], fields["Version"], fields["Architecture"])
                )
    return sorted(found)


def _blob(packed: tarfile.TarFile, digest: str) -> bytes:
    return _read(packed, f"blobs/{digest.replace(':', '/')}")


def _read(packed: tarfile.TarFile, name: str) -> bytes:
    content = packed.extractfile(name)
    if content is None:
        raise BuildError(f"{packed.name}: {name} is no file")
    return content.read()
