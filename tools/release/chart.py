"""The chart as one file, which `helm push` sends to an OCI registry as it is."""

from pathlib import Path

from deploy.program import run
from deploy.sources import CHART


def write(folder: Path) -> None:
    """Pack the chart into `folder`. Raises HelmError, BuildError."""
    run("package", str(CHART), "--destination", str(folder))
