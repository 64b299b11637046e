"""What it costs to say why claims wait: one `draguard why`, and one look of the explainer.

Objects in memory, as they are after they were read; the real process evaluates the selectors. All
GPUs of all nodes are allocated. Pods that wait are of some kinds, which differ in what they request
and where they may run.
"""

import argparse
import gc
import resource
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from allocation.answers import Answers
from allocation.explainer.claim_states import claim_states, consumers, missing_claims
from allocation.explainer.findings import Findings, Snapshot
from allocation.explainer.rows import Progress, claim_rows
from allocation.explainer.tenant_events import Reporter
from allocation.layers.explanation import Inventory, Known, explain
from allocation.model.claims import Claim, DeviceClass
from allocation.model.events import Event
from allocation.model.nodes import Node
from allocation.model.pods import Pod
from allocation.model.slices import ResourceSlice
from allocation.selectors.evaluator import Evaluator
from benchmarks.figures import Figure, Section
from benchmarks.table import table
from exporter.model.device import GPU_DRIVER

NODES, WAITING, KINDS, LOOKS = 10_000, 5_000, 40, 8
GPUS, TENANTS, TEAMS = 8, 100, 50
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
_SELECTOR = f"device.driver == '{GPU_DRIVER}' && device.attributes['{GPU_DRIVER}'].type == 'gpu'"
T = TypeVar("T")


class Nothing:
    """What is read of a pod one by one: nothing."""

    def templates(self, pod: Pod, claims: Collection[str]) -> Mapping[str, bool]:  # noqa: ARG002 - as `findings.Remarks` has it
        return {}

    def events(self, pod: Pod) -> tuple[Event, ...]:  # noqa: ARG002 - likewise
        return ()


class Fleet:
    """A cluster whose GPUs are all allocated, and pods that wait."""

    def __init__(self, nodes: int, waiting: int, kinds: int) -> None:
        self.pods: dict[str, Pod] = {}
        self.claims: dict[str, Claim] = {}
        self.slices = tuple(_decoded(_slice(node), ResourceSlice) for node in range(nodes))
        self.nodes = tuple(
            Node(_node(number), {"team": f"team-{number % TEAMS}"}) for number in range(nodes)
        )
        for number in range(nodes * GPUS):
            place = (_node(number // GPUS), f"gpu-{number % GPUS}")
            self._add(f"runs-{number}", number, count=1, place=place)
        for number in range(waiting):
            kind = number % kinds
            team = {"team": f"team-{kind // GPUS}"} if kind >= GPUS else {}
            self._add(f"waits-{number}", number, count=1 + kind % GPUS, selector=team)
        body = {
            "metadata": {"name": GPU_DRIVER},
            "spec": {"selectors": [{"cel": {"expression": _SELECTOR}}]},
        }
        self.classes = (_decoded(body, DeviceClass),)

    def _add(
        self,
        name: str,
        number: int,
        *,
        count: int,
        place: tuple[str, str] = ("", ""),
        selector: dict[str, str] | None = None,
    ) -> None:
        meta = {
            "name": name,
            "namespace": f"tenant-{number % TENANTS}",
            "uid": name,
            "creationTimestamp": NOW.isoformat().replace("+00:00", "Z"),
        }
        node, device = place
        claim = _decoded(_claim(meta, count, node, device), Claim)
        self.claims[claim.key] = claim
        self.pods[claim.key] = _decoded(_pod(meta, node, selector or {}), Pod)

    def inventory(self) -> Inventory:
        """Return one that nothing was derived from yet."""
        claims = tuple(self.claims.values())
        return Inventory(slices=self.slices, classes=self.classes, claims=claims, nodes=self.nodes)

    def snapshot(self, number: int) -> Snapshot:
        return Snapshot(
            at=NOW + timedelta(minutes=number),
            version=number,
            pods=self.pods,
            claims=self.claims,
            inventory=self.inventory(),
        )


def measure(
    nodes: int = NODES, waiting: int = WAITING, kinds: int = KINDS, looks: int = LOOKS
) -> Section:
    fleet = Fleet(nodes, waiting, kinds)
    key = f"tenant-{kinds - 1}/waits-{kinds - 1}" if kinds <= TENANTS else "tenant-0/waits-0"

    def why() -> None:
        claims, stock = (fleet.claims[key],), fleet.inventory()
        known = Known(at=NOW, pod=fleet.pods[key], claims=claims, inventory=stock)
        explain(known, Answers(evaluator.evaluate))

    with Evaluator() as evaluator:
        evaluator.answers("true", ())
        alone = [_seconds(why) for _ in range(3)]
        gc.collect()
        every, last = _looks(fleet, evaluator, looks)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    figures = (
        Figure(what="one `why`, computing alone", unit="s", values=tuple(alone), digits=2),
        Figure(what="one look of the explainer", unit="s", values=tuple(every), digits=1),
        Figure(what="pods without a reason after the last", unit="", values=(last,), digits=0),
        Figure(what="memory, with all objects", unit="MB", values=(used,), digits=0),
    )
    title = f"{nodes:,} nodes, {nodes * GPUS:,} GPUs, {waiting:,} pods that wait, of {kinds} kinds"
    return Section(title, figures, ("Reading is not in it.",))


def _looks(fleet: Fleet, evaluator: Evaluator, looks: int) -> tuple[list[float], float]:
    findings, progress = Findings(time.monotonic), Progress()
    reporter, answers = Reporter(timedelta()), Answers(evaluator.evaluate)
    unexplained = [0]

    def look(number: int) -> None:
        at = fleet.snapshot(number)
        found = findings.look(at, answers, Nothing(), 5.0)
        users = consumers(at.pods.values(), at.claims)
        states = [
            *claim_states(at.claims, users, found.findings),
            *missing_claims(at.pods.values(), at.claims, found.findings),
        ]
        _exhaust(progress.look(states, at.at))
        claim_rows(states, progress.since(), at.at, [GPU_DRIVER])
        _exhaust(reporter.look(at.pods.values(), at.claims, found.findings, at.at))
        unexplained[0] = found.unexplained

    every = [_seconds(lambda number=number: look(number)) for number in range(looks)]
    return every, float(unexplained[0])


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _exhaust(given: Iterable[object]) -> None:
    for _ in given:
        pass


def _decoded(body: dict[str, Any], kind: type[T]) -> T:
    """Return an object as it is when it was read: no text is shared."""
    return msgspec.json.decode(msgspec.json.encode(body), type=kind)


def _node(number: int) -> str:
    return f"node-{number:05}"


def _slice(number: int) -> dict[str, Any]:
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{number}-{index}"},
                "productName": {"string": "NVIDIA H100"},
                "pciBusID": {"string": f"0000:{index:02x}:00.0"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for index in range(GPUS)
    ]
    pool = {"name": _node(number), "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": GPU_DRIVER, "pool": pool, "nodeName": _node(number), "devices": devices}
    return {"metadata": {"name": f"slice-{number}"}, "spec": spec}


def _claim(meta: dict[str, str], count: int, node: str, device: str) -> dict[str, Any]:
    exactly = {"deviceClassName": GPU_DRIVER, "count": count}
    body: dict[str, Any] = {
        "metadata": meta,
        "spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}},
    }
    if node:
        result = {"driver": GPU_DRIVER, "pool": node, "device": device, "request": "gpus"}
        consumer = {"resource": "pods", "name": meta["name"], "uid": meta["uid"]}
        allocation = {"devices": {"results": [result]}}
        body["status"] = {"allocation": allocation, "reservedFor": [consumer]}
    return body


def _pod(meta: dict[str, str], node: str, selector: dict[str, str]) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "True" if node else "False"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": meta,
        "spec": {
            "nodeName": node,
            "nodeSelector": selector,
            "resourceClaims": [{"name": "gpus", "resourceClaimName": meta["name"]}],
        },
        "status": {
            "phase": "Running" if node else "Pending",
            "conditions": [scheduled, ready] if node else [scheduled],
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.claims", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--waiting", type=int, default=WAITING)
    parser.add_argument("--kinds", type=int, default=KINDS)
    given = parser.parse_args(arguments)
    print(table([measure(given.nodes, given.waiting, given.kinds)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
