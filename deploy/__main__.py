"""`python -m deploy`: write the chart's copies, the plain manifests and the pins of images."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from deploy import kustomize, licences, locks, manifests, sources
from deploy.program import HelmError
from simulator.compiler import BuildError

WRITERS: tuple[Callable[[], Mapping[Path, str]], ...] = (
    sources.files,
    manifests.texts,
    kustomize.texts,
    locks.texts,
    licences.texts,
)
"""In this order: manifests are rendered from the copies."""
OWNED = (sources.FILES, manifests.FOLDER, kustomize.FOLDER, locks.FOLDER)
"""Folders in which nothing else may lie."""


def main() -> int:
    """Write all files; return 2 if a source is missing or cannot be rendered."""
    written: set[Path] = set()
    try:
        for texts in WRITERS:
            for path, text in texts().items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                written.add(path)
    except (
        sources.MissingSourceError,
        locks.NotPinnedError,
        licences.UnknownLicenceError,
        HelmError,
        BuildError,
    ) as error:
        print(f"deploy: {error}", file=sys.stderr)  # noqa: T201 - the answer to a user
        return 2
    found = {path for folder in OWNED for path in folder.rglob("*") if path.is_file()}
    for path in sorted(found - written):
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
