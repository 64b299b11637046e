"""What krew installs `kubectl draguard` from: archives, and a manifest with their checksums."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.locks import FOLDER, PYTHONS
from deploy.sources import ROOT
from tools.release.archives import plain, zipped
from tools.release.checksums import sha256

Json = dict[str, Any]
_PROGRAM = "draguard"
_TEXTS = (ROOT / "LICENSE", FOLDER / "THIRD_PARTY.md")
_FILES = (_PROGRAM, *(text.name for text in _TEXTS))
_DESCRIPTION = """\
Shows what Draguard knows and does about the GPUs of a cluster: sick devices, incidents with their
evidence, planned taints and evictions. Pauses it on a GPU, confirms repairs, removes taints.
"""
_CAVEATS = """\
Needs Python {} or later as python3. The first start unpacks the program into ~/.shiv.
"""


def archive(program: Path, to: Path) -> None:
    """Pack a program and the licences into `to`, a .tar.gz."""
    with zipped(to) as packed:
        packed.add(program, _PROGRAM, filter=plain)
        for text in _TEXTS:
            packed.add(text, text.name, filter=plain)


def manifest(version: str, archives: Mapping[str, Path], url: str) -> Json:
    """Return krew's Plugin.

    `archives` has one file per architecture. `url` is the folder that they will be served from;
    without one the manifest names the files alone, for `kubectl krew install --archive`.
    """
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": _PROGRAM},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Inspect and hold GPU health remediation",
            "description": _DESCRIPTION,
            "caveats": _CAVEATS.format(PYTHONS[0]),
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": "linux", "arch": machine}},
                    "uri": f"{url.rstrip('/')}/{packed.name}" if url else packed.name,
                    "sha256": sha256(packed),
                    "bin": _PROGRAM,
                    "files": [{"from": name, "to": "."} for name in _FILES],
                }
                for machine, packed in archives.items()
            ],
        },
    }
