"""Exporters that run, each on a simulated node of its own, and what they say, read strictly."""

import contextlib
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from prometheus_client import parser as text_format
from prometheus_client.openmetrics import parser as strict_format

from kubeapi.client import Endpoint
from simulator.dcgm_engine import SimulatedDcgm
from simulator.node import SimulatedNode
from tests.exporter.running import Exporter

TEXT = "text/plain;version=0.0.4"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
NVML_UP = 'draguard_source_up{source="nvml"} 1'
# The parsers carry no types.
_PARSERS: Mapping[str, Callable[[str], Any]] = {
    TEXT: vars(text_format)["text_string_to_metric_families"],
    OPENMETRICS: vars(strict_format)["text_string_to_metric_families"],
}


@contextlib.contextmanager
def simulated(
    gpus: str, mig: Mapping[int, Sequence[str]] | None = None, name: str = "node-a"
) -> Generator[SimulatedNode]:
    """A node that is there for a block."""
    # Short paths: a unix socket's has 107 bytes at most.
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), name).create(gpus, mig=mig) as node,
    ):
        yield node


def exporter_of(
    node: SimulatedNode, *flags: str, role: str = "run", dcgm: SimulatedDcgm | None = None
) -> Exporter:
    """Return an exporter, not started; with `dcgm` its children find that library."""
    if dcgm is None:
        return Exporter(node, role, *flags)
    with pytest.MonkeyPatch.context() as patch:
        for key, value in dcgm.environment().items():
            patch.setenv(key, value)
        return Exporter(node, role, f"--dcgm-library-dir={node.library_dir}", *flags)


def connection(endpoint: Endpoint, folder: Path) -> list[str]:
    """Return the flags that lead an exporter to an API server."""
    token = folder / "token"
    token.write_text(endpoint.token or "", encoding="ascii")
    return [
        f"--kube-server={endpoint.server}",
        f"--kube-token-file={token}",
        f"--kube-ca-file={endpoint.ca_file}",
    ]


def fetch(exporter: Exporter, accept: str) -> tuple[str, str]:
    """Return (content type, page) in the requested format."""
    url = f"http://127.0.0.1:{exporter.port}/metrics"
    requested = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(requested, timeout=60) as answer:  # noqa: S310 - loopback
        return answer.headers["Content-Type"], answer.read().decode()


def read_strictly(page: str, form: str) -> dict[str, list[dict[str, str]]]:
    """Return the label sets of a page by sample name; fails for what a strict reader refuses."""
    found: dict[str, list[dict[str, str]]] = {}
    families: list[str] = []
    for family in _PARSERS[form](page):
        families.append(family.name)
        for sample in family.samples:
            # The text parser gives counters the suffix that OpenMetrics wants.
            known = f"\n{sample.name}{{" in page or f"\n{sample.name} " in page
            name = sample.name if known else sample.name.removesuffix("_total")
            found.setdefault(name, []).append(dict(sample.labels))
    assert len(families) == len(set(families)), "a family comes twice"
    for name, series in found.items():
        identities = [tuple(sorted(labels.items())) for labels in series]
        assert len(identities) == len(set(identities)), f"{name} has a series twice"
    return found


def labels_of(exporter: Exporter, family: str) -> list[dict[str, str]]:
    """Return the label sets of a family as the running exporter shows them now."""
    _, page = fetch(exporter, TEXT)
    return read_strictly(page, TEXT).get(family, [])


def samples(exporter: Exporter, family: str, **labels: str) -> list[dict[str, str]]:
    """Return those label sets of a family that have these labels."""
    return [
        label_set
        for label_set in labels_of(exporter, family)
        if labels.items() <= label_set.items()
    ]
