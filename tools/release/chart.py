"""The chart as one file, which `helm push` sends to an OCI registry as it is."""

import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from deploy.program import HelmError, run
from deploy.sources import CHART
from tools.release.archives import plain, zipped


def write(folder: Path, registry: str = "", digests: Mapping[str, str] | None = None) -> None:
    """Pack the chart into `folder`, naming the pushed images. Raises HelmError, BuildError."""
    with tempfile.TemporaryDirectory() as temporary:
        source = shutil.copytree(CHART, Path(temporary) / CHART.name)
        values = source / "values.yaml"
        values.write_text(_naming(values.read_text("utf-8"), registry, digests or {}), "utf-8")
        run("package", str(source), "--destination", temporary)
        (packed,) = Path(temporary).glob("*.tgz")
        # Helm writes the time of packing.
        with tarfile.open(packed) as dated, zipped(folder / packed.name) as archive:
            for member in dated:
                archive.addfile(plain(member), dated.extractfile(member))


def _naming(values: str, registry: str, digests: Mapping[str, str]) -> str:
    """Return the text of values.yaml, its comments too, with registry and digests set."""
    places = {r'^  registry: ""$': f'  registry: "{registry}"'}
    for image, digest in digests.items():
        places[rf'(?<=^  {image}:\n)((?:    .*\n)*?)    digest: ""$'] = rf'\1    digest: "{digest}"'
    for place, text in places.items():
        values, found = re.subn(place, text, values, flags=re.MULTILINE)
        if found != 1:
            raise HelmError(f"values.yaml has {found} places for {text.strip()}")
    return values
