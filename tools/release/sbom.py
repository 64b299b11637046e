"""What is in an image or program, as CycloneDX 1.6: its packages, licences and who needs whom.

What an image has of Debian is in it where the image was built.
"""
# pyright: basic, reportCallIssue=false, reportArgumentType=false, reportAttributeAccessIssue=false
# The library makes its constructors at run time.

import re
from collections.abc import Iterable
from datetime import datetime
from importlib.metadata import requires, version
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

from deploy.licences import licence
from deploy.locks import CONSTRAINTS, LISTS, needed, normal, pinned
from tools.release.images import DebianPackage

_SHA256 = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def write(target: str, to: Path, when: datetime, debian: Iterable[DebianPackage] = ()) -> None:
    """Write the list of `target` (exporter, controller) to the file `to`, as made at `when`."""
    names = needed(LISTS[f"{target}.txt"])
    blocks = pinned(CONSTRAINTS.read_text(encoding="utf-8"))
    packages = {name: _package(name, blocks[name]) for name in names}
    number = version("draguard")
    own = Component(
        name=f"draguard-{target}",
        version=number,
        type=ComponentType.APPLICATION,
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
        bom_ref=f"draguard-{target}@{number}",
    )
    foreign = [_debian(package) for package in sorted({*debian})]
    content = " ".join(
        (f"{target}@{number}", str(when), *(found.bom_ref.value for found in foreign))
    )
    bom = Bom(
        components=(*packages.values(), *foreign), serial_number=uuid5(NAMESPACE_URL, content)
    )
    bom.metadata.component = own
    bom.metadata.timestamp = when
    ahead = {normal(Requirement(words).name) for words in requires("draguard") or ()}
    bom.register_dependency(own, [*(packages[name] for name in sorted(names & ahead)), *foreign])
    for name, package in packages.items():
        needs = {normal(Requirement(words).name) for words in requires(name) or ()} - {name}
        bom.register_dependency(package, [packages[other] for other in sorted(needs & names)])
    to.write_text(JsonV1Dot6(bom).output_as_string(indent=2) + "\n", encoding="utf-8")


def _package(name: str, block: str) -> Component:
    """Return a package with the hashes of all files that an installer may take for it."""
    number = version(name)
    return Component(
        name=name,
        version=number,
        type=ComponentType.LIBRARY,
        licenses=[LicenseFactory().make_from_string(licence(name))],
        hashes=[
            HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in _SHA256.findall(block)
        ],
        purl=PackageURL("pypi", name=name, version=number),
        bom_ref=f"{name}@{number}",
    )


def _debian(package: DebianPackage) -> Component:
    """Return a package of Debian; its licence is in the image, as text."""
    purl = PackageURL(
        "deb",
        "debian",
        package.name,
        package.version,
        {"arch": package.architecture, "distro": "debian-12"},
    )
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=str(purl),
    )
