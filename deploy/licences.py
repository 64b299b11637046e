"""The licence of each package that is in an image, from the package's own metadata."""

from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path

from deploy.image.contents import IMAGES
from deploy.locks import FOLDER, LISTS, needed

_LOOSE: Mapping[str, str] = {
    "Apache 2.0": "Apache-2.0",
    "BSD": "BSD-3-Clause",  # nvidia-ml-py: the text in its one module
    "3-Clause BSD License": "BSD-3-Clause",  # protobuf
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",  # google-re2: `licenses/LICENSE`
    "License :: OSI Approved :: MIT License": "MIT",
}
"""What packages write for an SPDX expression."""
_EXPRESSIONS = frozenset({"Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "PSF-2.0"})
_HEAD = """\
# Third-party packages

Draguard is licensed under Apache-2.0. The images contain these Python packages, and the single-file
program has those of `controller`. The text of each licence is beside the installed package
(`*.dist-info`; nvidia-ml-py: at the head of its module). The images also have files of Debian 12,
Python (PSF-2.0) among them: `deploy/image/debian.txt` names the packages, `/usr/share/doc` in the
image has their licences. `make generate` writes this list.

| package | version | licence | in |
|---|---|---|---|
"""


class UnknownLicenceError(Exception):
    """A package has no licence that we know; the message names it."""


def texts() -> Mapping[Path, str]:
    """Return the list for readers. Raises UnknownLicenceError."""
    images = {image: needed(LISTS[f"{image}.txt"]) for image in IMAGES}
    rows = (
        f"| {name} | {distribution(name).version} | {licence(name)} | "
        f"{', '.join(image for image in IMAGES if name in images[image])} |\n"
        for name in sorted(set[str]().union(*images.values()))
    )
    return {FOLDER / "THIRD_PARTY.md": _HEAD + "".join(rows)}


def licence(name: str) -> str:
    """Return a package's licence as an SPDX expression. Raises UnknownLicenceError."""
    metadata = distribution(name).metadata
    if stated := metadata.get_all("License-Expression"):
        return stated[0]
    words = (*(metadata.get_all("License") or ()), *(metadata.get_all("Classifier") or ()))
    for word in words:
        found = _LOOSE.get(word, word)
        if found in _EXPRESSIONS:
            return found
    raise UnknownLicenceError(
        f"{name} states no licence that deploy/licences.py knows: read its text, add a row"
    )
