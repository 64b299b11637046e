"""The plain manifests: what the chart renders for some settings, for clusters without Helm.

Hooks are left out, because only Helm would run them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from deploy.program import rendered
from deploy.sources import CHART

FOLDER = Path(__file__).parent / "manifests"
_SOURCE = "# Source: draguard/templates/"
_HEAD = "# {}\n# Rendered from deploy/helm/draguard (`make generate`); do not edit.\n"
_LOCAL = ("image.allowLocal=true",)
"""Who applies them sets the images (docs/install.md)."""
_MONITORS = ("monitors.yaml", "rules.yaml")


class Manifest(NamedTuple):
    """One file: the chart's values, and which of its templates go in."""

    what: str
    values: tuple[str, ...]
    takes: Callable[[str], bool]
    named: str = ""
    """Only objects of this name; "": all."""


def _all_but(*templates: str) -> Callable[[str], bool]:
    return lambda template: template not in templates


def _only(*templates: str) -> Callable[[str], bool]:
    return lambda template: template in templates


MANIFESTS: Mapping[str, Manifest] = {
    "crds.yaml": Manifest(
        "The CRDs. Apply them first, and at every upgrade.", (), _only("crds.yaml")
    ),
    "draguard.yaml": Manifest(
        "Exporter, remediator and explainer. Nothing is tainted until draguard-policy says so.",
        ("namespace.create=true",),
        _all_but("crds.yaml"),
    ),
    "metrics-only.yaml": Manifest(
        "The exporter alone: metrics, and no word to the API server.",
        ("namespace.create=true", "metricsOnly=true"),
        _all_but(),
    ),
    "remediator-rights.yaml": Manifest(
        "What the remediator may do, alone: for one that is run by hand.",
        (),
        _only("remediator-rbac.yaml"),
    ),
    "node-conditions.yaml": Manifest(
        "The right to set conditions on Nodes, beside the others (docs/handover.md).",
        ("remediator.nodeConditions.enabled=true",),
        _only("remediator-rbac.yaml"),
        "draguard-remediator-node-conditions",
    ),
    "service-monitors.yaml": Manifest(
        "For Prometheus' operator. Add the label that your Prometheus selects by.",
        ("monitoring.serviceMonitor.enabled=true", "monitoring.rules.enabled=true"),
        _only(*_MONITORS),
    ),
    "dashboards.yaml": Manifest(
        "Dashboards for Grafana's sidecar.", ("dashboards.enabled=true",), _only("dashboards.yaml")
    ),
}


def texts() -> Mapping[Path, str]:
    """Return every manifest with its text. Raises HelmError."""
    return {FOLDER / name: text(manifest) for name, manifest in MANIFESTS.items()}


def text(manifest: Manifest) -> str:
    """Return one manifest. Raises HelmError."""
    taken = (
        document
        for document in documents(manifest.values, manifest.takes)
        if not manifest.named or f"\n  name: {manifest.named}\n" in document
    )
    return "---\n".join((_HEAD.format(manifest.what), *taken))


def documents(
    values: Sequence[str], takes: Callable[[str], bool] = lambda _: True
) -> Iterator[str]:
    """Yield what the chart renders for `values` from the templates that `takes` names.

    Raises HelmError.
    """
    whole = rendered(CHART, (*_LOCAL, *values), "--no-hooks")
    for document in re.split(r"^---\n", whole, flags=re.MULTILINE):
        if not document.strip():
            continue
        first = next(line for line in document.splitlines() if line.startswith(_SOURCE))
        if takes(first.removeprefix(_SOURCE)):
            _, _, body = document.partition("\n")
            yield body.strip("\n") + "\n"
