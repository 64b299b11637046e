"""The chart as one file, which `helm push` sends to an OCI registry as it is."""

import tarfile
import tempfile
from pathlib import Path

from deploy.program import run
from deploy.sources import CHART
from tools.release.archives import plain, zipped


def write(folder: Path) -> None:
    """Pack the chart into `folder`. Raises HelmError, BuildError."""
    with tempfile.TemporaryDirectory() as temporary:
        run("package", str(CHART), "--destination", temporary)
        (packed,) = Path(temporary).glob("*.tgz")
        # Helm writes the time of packing.
        with tarfile.open(packed) as dated, zipped(folder / packed.name) as archive:
            for member in dated:
                archive.addfile(plain(member), dated.extractfile(member))
