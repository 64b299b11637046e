"""Helm as a program: built once per machine from its Go module, so that any machine can render."""

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from simulator.cluster.build import KUBERNETES, Recipe, build, to_stderr
from simulator.cluster.toolchain import Say

HELM = "v3.22.0"
RELEASE, NAMESPACE = "draguard", "draguard-system"
_SECONDS = 60.0
_MAJOR, _MINOR, _ = KUBERNETES.removeprefix("v").split(".")
_KUBERNETES_IN = ("pkg/chartutil", "pkg/lint/rules")
"""Packages in which the linker sets the Kubernetes version that `helm template` reports."""

RECIPE = Recipe(
    name="helm",
    title="Helm",
    what=f"Helm {HELM} from its Go module",
    sources=Path(__file__).parent / "go" / "helm",
    packages=("helm.sh/helm/v3/cmd/helm",),
    programs=("helm",),
    flags=(
        "-trimpath",
        "-ldflags",
        " ".join(
            (
                f"-s -w -X helm.sh/helm/v3/internal/version.version={HELM}",
                *(
                    f"-X helm.sh/helm/v3/{package}.k8sVersion{part}={number}"
                    for package in _KUBERNETES_IN
                    for part, number in (("Major", _MAJOR), ("Minor", _MINOR))
                ),
            )
        ),
    ),
)


class HelmError(Exception):
    """Helm refused; the message is its output."""


def run(*arguments: str, say: Say = to_stderr) -> str:
    """Run Helm and return what it printed. Raises HelmError, BuildError."""
    done = subprocess.run(
        [_helm(say), *arguments], capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    if done.returncode:
        raise HelmError(done.stderr.strip())
    return done.stdout


@cache
def _helm(say: Say) -> Path:
    return build(say, RECIPE) / "helm"


def rendered(chart: Path, values: Sequence[str] = (), *flags: str) -> str:
    """Return the chart's manifests; `values` as Helm's `--set` takes them. Raises HelmError."""
    settings = [word for setting in values for word in ("--set", setting)]
    return run("template", RELEASE, str(chart), "--namespace", NAMESPACE, *settings, *flags)
