"""`python -m benchmarks.real_node`: figures of Draguard on a real node, as one table.

From `helm install` to the first sample of a GPU and to the first taint, of a GPU that was lost
before; the memory of each container as the kernel counts it; from the driver's line of XID 79 to
the end of the container on that GPU. Needs what `make node` needs. The GPUs, their library and the
kernel log are simulated; all else is real.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure, Section
from benchmarks.machine import machine
from benchmarks.table import table
from kubeapi.client import ApiError
from simulator.compiler import BuildError
from tests.lab.cluster import await_true
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release
from tests.node.conftest import gpu_of
from tests.node.workload import Workload, await_end, lose, tainted

ROUNDS = 30
SETTLE = "defaults.settle of the policy is 1 s and part of the time"
_CONTAINERS = (("exporter", "sensor"), ("exporter", "agent"), ("remediator", "remediator"))
_STEADY_SECONDS = 60.0
_MIB = 1 << 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns 1 where a real node cannot run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_node", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="XIDs, each on another GPU")
    rounds: int = parser.parse_args(arguments).rounds
    before = machine()
    try:
        # One more, which is lost from the start.
        with RealNode(f"{rounds + 1}xH100") as node:
            sections = [_installed(node, rounds), _memory(node), _ended(node, rounds)]
    except BuildError as error:
        print(f"cannot measure: {error}", file=sys.stderr)
        return 1
    print(f"\n{table(sections)}\n\n{before}")
    return 0


def _installed(node: RealNode, lost: int) -> Section:
    release = Release(node)
    lose(node, f"gpu-{lost}")
    seen: dict[str, float] = {}
    began = time.monotonic()
    release.install()
    ran = time.monotonic() - began

    def shown() -> bool:
        try:
            return bool(release.pods("exporter")) and "DCGM_FI_DEV_GPU_TEMP{" in release.metrics()
        except ApiError:
            return False

    awaited = {"page": shown, "taint": lambda: bool(tainted(node))}

    def all_seen() -> bool:
        for what in awaited.keys() - seen.keys():
            if awaited[what]():
                seen[what] = time.monotonic() - began
        return seen.keys() == awaited.keys()

    await_true("the metrics show a GPU, and the lost one is tainted", all_seen, 180)
    release.await_ready()
    figures = (
        Figure(what="helm install returns", unit="s", values=(ran,)),
        Figure(what="first sample of a GPU on the page", unit="s", values=(seen["page"],)),
        Figure(what="first taint, of a GPU lost before", unit="s", values=(seen["taint"],)),
        Figure(what="all pods Ready", unit="s", values=(time.monotonic() - began,)),
    )
    return Section("from the start of helm install", figures, (SETTLE,))


def _memory(node: RealNode) -> Section:
    time.sleep(_STEADY_SECONDS)
    figures: list[Figure] = []
    for component, container in _CONTAINERS:
        used = _working_set(node, component, container)
        (pod, *_) = Release(node).pods(component)
        (found,) = [each for each in pod["spec"]["containers"] if each["name"] == container]
        budget = f"requests {found['resources']['requests']['memory']}"
        figures.append(Figure(what=container, unit="MiB", values=(used,), budget=budget))
    note = f"the cgroup's usage without inactive file pages, {_STEADY_SECONDS:.0f} s after Ready"
    return Section("memory of the containers", tuple(figures), (note,))


def _working_set(node: RealNode, component: str, container: str) -> float:
    process = Release(node).process(component, container)
    lines = (process / "cgroup").read_text().splitlines()
    (path,) = [line.split(":", 2)[2] for line in lines if line.split(":")[1] == "memory"]
    # As this process names it, the hierarchy's own mount being above the node's group.
    group = Path("/sys/fs/cgroup/memory") / path.lstrip("/")
    used = int((group / "memory.usage_in_bytes").read_text())
    counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return (used - int(counts["total_inactive_file"])) / _MIB


def _ended(node: RealNode, rounds: int) -> Section:
    took: list[float] = []
    for number in range(rounds):
        uuid = node.gpus.gpu(number).uuid
        workload = Workload(node, f"round-{number}", gpu_of(uuid))
        process = workload.process()
        began = time.monotonic()
        lose(node, f"gpu-{number}")
        took.append(await_end(process) - began)
        workload.remove()
    figure = Figure(what="XID 79 to the container's end", unit="s", values=tuple(took), digits=2)
    return Section("an XID", (figure,), (SETTLE,))


if __name__ == "__main__":
    sys.exit(main())
