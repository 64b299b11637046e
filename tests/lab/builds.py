"""Everything that takes minutes to make, made before the first test: `python -m tests.lab.builds`.

A fixture that needs a program has a row here. `make test` and `make verify` make their rows first;
a single run of pytest makes what its tests ask for. What exists already costs nothing.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from deploy import program as helm
from simulator import build as nvml
from simulator import dcgm_build as dcgm
from simulator.cluster.build import RELEASE, Release, build, to_stderr
from simulator.cluster.toolchain import Say
from simulator.compiler import BuildError
from tests.lab import actionlint, alertmanager, dra_oracle, eks_api, operators, prometheus
from tests.lab.browser.install import install
from tests.lab.node import images, packages, programs

Make = Callable[[Say], object]
CORES_OF_ONE = 2
"""What a Go build keeps busy; more builds than that at once only need more memory."""


def _libraries(say: Say) -> Sequence[Path]:
    del say  # seconds
    return nvml.build(), dcgm.build_library()


def kubernetes(say: Say, release: Release = RELEASE) -> Path:
    """Make a release's programs; returns the control plane's. Raises BuildError."""
    folder = build(say, release.control_plane)
    build(say, release.kubectl)
    return folder


def _definitions(say: Say) -> Sequence[Path]:
    return [operators.module(module, say) for module in operators.MODULES]


def _real_node(say: Say) -> Sequence[Path]:
    """Make what a real node runs; raises BuildError, also for what the machine lacks."""
    if lacking := packages.missing():
        raise BuildError(f"a real node cannot run here: {'; '.join(lacking)}")
    return [*(build(say, recipe) for recipe in programs.PROGRAMS), *images.archives(say)]


TEST: Mapping[str, Make] = {
    "simulated libraries": _libraries,
    "control_plane_built": kubernetes,
    "prometheus_built": partial(build, recipe=prometheus.RECIPE),
    "alertmanager_built": partial(build, recipe=alertmanager.RECIPE),
    "helm_built": partial(build, recipe=helm.RECIPE),
    "dra_oracle_built": partial(build, recipe=dra_oracle.RECIPE),
}
"""By name of the fixture, where there is one: what `make test` needs."""
VERIFY: Mapping[str, Make] = {
    **TEST,
    "prometheus_2_42_built": partial(build, recipe=prometheus.RECIPE_2_42),
    "actionlint_built": partial(build, recipe=actionlint.RECIPE),
    "amtool_0_25_built": partial(build, recipe=alertmanager.RECIPE_0_25),
    "custom resource definitions": _definitions,
    "model of the EKS API": eks_api.install,
    "installed": install,
}
"""What `make verify` needs."""
NODE: Mapping[str, Make] = {
    "control_plane_built": TEST["control_plane_built"],
    "helm_built": TEST["helm_built"],
    "real_node_built": _real_node,
}
"""What `make node` needs."""
TIERS = {"test": TEST, "verify": VERIFY, "node": NODE}
"""By the name of the make target."""


def make(builds: Mapping[str, Make], say: Say = to_stderr) -> Mapping[str, object]:
    """Return by name what was made, or the BuildError that says why it was not."""
    at_once = max(1, (os.cpu_count() or 1) // CORES_OF_ONE)
    with ThreadPoolExecutor(at_once) as pool:
        made = {name: pool.submit(_attempt, task, say) for name, task in builds.items()}
        return {name: result.result() for name, result in made.items()}


def _attempt(task: Make, say: Say) -> object:
    try:
        return task(say)
    except BuildError as error:
        return error


def main(*arguments: str) -> int:
    """Make what a tier needs; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.builds", description=__doc__)
    parser.add_argument("tier", choices=sorted(TIERS), help="whose programs to make")
    made = make(TIERS[parser.parse_args(arguments).tier])
    failed = [error for error in made.values() if isinstance(error, BuildError)]
    for error in failed:
        to_stderr(str(error))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
