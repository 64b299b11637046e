"""The chart's copies of CRDs, dashboards and rules, which are written elsewhere.

Helm reads no file outside of the chart's folder, so these are copies under `files/`.
"""

import json
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHART = Path(__file__).parent / "helm" / "draguard"
FILES = CHART / "files"
_KEEP = (
    "  annotations: {helm.sh/resource-policy: keep, argocd.argoproj.io/sync-options: Prune=false}\n"
)
"""Deleting a CRD deletes its objects: incidents must outlive a Helm release."""


_RULES = ("alerts/generated", "draguard.rules.yaml", "run `python -m alerts`")


class MissingSourceError(Exception):
    """A file that the chart carries has not been written; the message names the command for it."""


def files(root: Path = ROOT) -> Mapping[Path, str]:
    """Return every file under `FILES` with its text. Raises MissingSourceError."""
    crds = {
        FILES / "crds" / path.name: kept(path.read_text(encoding="utf-8"))
        for path in _found(root, "deploy/crds", "*.yaml", "this checkout is not whole")
    }
    dashboards = {
        FILES / "dashboards" / path.name: compact(path.read_text(encoding="utf-8"))
        for path in _found(root, "dashboards/json", "*.json", "run `python -m dashboards`")
    }
    rules = {
        FILES / "rules" / path.name: path.read_text(encoding="utf-8")
        for path in _found(root, *_RULES)
    }
    return {**crds, **dashboards, **rules}


def kept(crd: str) -> str:
    """Return a CRD that Helm leaves in the cluster when it removes the release."""
    before, metadata, after = crd.partition("\nmetadata:\n")
    return before + metadata + _KEEP + after


def compact(dashboard: str) -> str:
    """Return a dashboard in one line: half the size, in a ConfigMap and in Helm's own record."""
    return json.dumps(json.loads(dashboard), ensure_ascii=False, separators=(",", ":"))


def _found(root: Path, folder: str, pattern: str, remedy: str) -> list[Path]:
    paths = sorted((root / folder).glob(pattern))
    if not paths:
        raise MissingSourceError(f"there is no {folder}/{pattern}: {remedy}")
    return paths
