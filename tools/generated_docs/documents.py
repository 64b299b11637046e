"""The documents that have generated tables, each with its tables in place."""

from collections.abc import Mapping
from pathlib import Path

from tools.generated_docs import (
    alerts,
    architecture,
    explainer,
    exporter,
    install,
    metrics,
    policy,
    remediator_metrics,
)
from tools.generated_docs.table import MarksError, Tables, with_tables

FOLDER = Path(__file__).parents[2] / "docs"
DOCUMENTS: Mapping[str, Tables] = {
    "alerts.md": alerts.TABLES,
    "architecture.md": architecture.TABLES,
    "explainer.md": explainer.TABLES,
    "exporter.md": exporter.TABLES,
    "install.md": install.TABLES,
    "metrics.md": metrics.TABLES,
    "policy.md": policy.TABLES,
    "remediator-metrics.md": remediator_metrics.TABLES,
}


def text_of(name: str, folder: Path = FOLDER) -> str:
    """Return a document with its tables as they must be. Raises MarksError, with its name."""
    written = (folder / name).read_text(encoding="utf-8")
    try:
        return with_tables(written, DOCUMENTS[name])
    except MarksError as error:
        raise MarksError(f"{folder.name}/{name}: {error}") from error
