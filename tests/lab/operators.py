"""The kinds of operators that the chart or the examples write for, on a real API server.

Their CRDs lie in their Go modules, so nothing is built: Go fetches a module once, keeps it in its
own cache, and refuses one that is not what `go/operators/go.sum` says.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from simulator.cluster.build import cache_folder, to_stderr
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.toolchain import Say, find_go
from simulator.compiler import BuildError

PROMETHEUS = "github.com/prometheus-operator/prometheus-operator"
GRAFANA = "github.com/grafana/grafana-operator/v5"
ARGO_CD = "github.com/argoproj/argo-cd/v3"
FLUX_SOURCES = "github.com/fluxcd/source-controller"
CRDS: Mapping[str, tuple[str, str]] = {
    **{
        kind: (PROMETHEUS, f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml")
        for kind in ("servicemonitors", "podmonitors", "prometheusrules")
    },
    "grafanadashboards": (
        GRAFANA,
        "config/crd/bases/grafana.integreatly.org_grafanadashboards.yaml",
    ),
    "applications": (ARGO_CD, "manifests/crds/application-crd.yaml"),
    "ocirepositories": (
        FLUX_SOURCES,
        "config/crd/bases/source.toolkit.fluxcd.io_ocirepositories.yaml",
    ),
}
"""By plural name: the module, and the file in it."""
OF_THE_CHART = ("servicemonitors", "podmonitors", "prometheusrules", "grafanadashboards")
OF_EXAMPLES = ("applications", "ocirepositories")
MODULES = tuple(dict.fromkeys(module for module, _ in CRDS.values()))
SOURCES = Path(__file__).parent / "go" / "operators"
_GO = (1, 26)
_SECONDS = 300.0


class _Fetched(msgspec.Struct, rename="pascal"):
    """What `go mod download -json` says of one module."""

    dir: str = ""
    error: str = ""


def module(path: str, say: Say = to_stderr, sources: Path = SOURCES) -> Path:
    """Return the folder of a module at its pinned version. Raises BuildError."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [find_go(cache, _GO, say), "mod", "download", "-json", path],
        cwd=sources,
        env={**os.environ, "GOFLAGS": "-mod=readonly"},
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    stated = msgspec.json.decode(done.stdout or "{}", type=_Fetched)
    if done.returncode or stated.error or not stated.dir:
        raise BuildError(
            f"fetching {path} failed; it needs a Go module proxy. Go said:\n"
            f"{stated.error}{done.stderr}"
        )
    return Path(stated.dir)


def crd(kind: str) -> Path:
    """Return the file that makes a kind known, given by its plural name. Raises BuildError."""
    path, file = CRDS[kind]
    return module(path) / file


def install(plane: ControlPlane, kinds: Sequence[str] = OF_THE_CHART) -> None:
    """Make kinds known to an API server, as if their operators were there. Raises BuildError."""
    named = [word for kind in kinds for word in ("-f", str(crd(kind)))]
    # Server-side: some are too long for the annotation that `kubectl apply` writes otherwise.
    plane.kubectl("apply", "--server-side", "--force-conflicts", *named)
    plane.await_established()


def versions(kinds: Sequence[str] = OF_THE_CHART) -> str:
    """Say in one line whose kinds these are."""
    pins = (SOURCES / "go.mod").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^\t(\S+) (\S+)$", pins, re.MULTILINE))
    paths = sorted({CRDS[kind][0] for kind in kinds})
    return "CRDs of " + ", ".join(f"{path.split('/')[2]} {pinned[path]}" for path in paths)
