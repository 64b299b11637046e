"""`python -m tools.release`: write the files of a release into a folder."""

import argparse
import itertools
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import yaml

from deploy import licences
from deploy.image.contents import IMAGES, MACHINES
from deploy.program import HelmError
from deploy.sources import ROOT
from simulator.compiler import BuildError
from tools.release import chart, checksums, images, krew, sbom, single_file
from tools.release.commit import Commit

_SUMS = "SHA256SUMS"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write all files; return 1 if one could not be made."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="an empty or new folder")
    parser.add_argument("--url", default="", help="where the files will be served, for krew")
    parser.add_argument(
        "--arch", action="append", choices=MACHINES, help="only this one; repeat it for several"
    )
    parser.add_argument(
        "--no-images", action="store_true", help="leave the images out, which take the longest"
    )
    parser.add_argument("--registry", default="", help="where the images are, for the chart")
    parser.add_argument(
        "--digest", action="append", default=[], help="exporter=sha256:..., controller=sha256:..."
    )
    given = parser.parse_args(arguments)
    folder: Path = given.into
    if folder.exists() and any(folder.iterdir()):
        print(f"release: {folder} is not empty: remove it first", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    why_no_images = "--no-images" if given.no_images else images.lacking()
    if why_no_images:
        print(f"release: no images are built: {why_no_images}", file=sys.stderr)
    machines = given.arch or tuple(MACHINES)
    try:
        if not why_no_images:
            for image, machine in itertools.product(IMAGES, machines):
                images.write(image, machine, version("draguard"), Commit.here(), folder)
        chart.write(folder, given.registry, dict(pin.split("=", 1) for pin in given.digest))
        _write(folder.resolve(), machines, given.url)
    except (single_file.ReleaseError, HelmError, BuildError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:>12,}  {path.name}")
    return 0


def _write(folder: Path, machines: Sequence[str], url: str) -> None:
    number = version("draguard")
    archives: dict[str, Path] = {}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        wheel = single_file.wheel(work)
        for machine in machines:
            program = folder / f"draguard-{number}-linux-{machine}.pyz"
            own = work / machine
            own.mkdir()
            single_file.write(wheel, machine, program, own)
            archives[machine] = program.with_suffix(".tar.gz")
            krew.archive(program, archives[machine])
    plugin = yaml.safe_dump(krew.manifest(number, archives, url), sort_keys=False)
    (folder / "krew-draguard.yaml").write_text(plugin, encoding="utf-8")
    for image in IMAGES:
        built = [images.archive(folder, image, number, machine) for machine in machines]
        debian = [
            package for path in built if path.exists() for package in images.debian_packages(path)
        ]
        file = folder / f"draguard-{image}-{number}.cdx.json"
        sbom.write(image, file, Commit.here().when, debian)
    for text in licences.texts():
        shutil.copy(text, folder)
    (folder / _SUMS).write_text(checksums.sums(folder.iterdir()), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
