"""On each drawn cluster we say what Kubernetes' own allocator does, and why it takes no device."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast, get_args

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation.answers import Answers
from allocation.candidates import Selection, candidates
from allocation.model.claims import Claim, DeviceClass
from allocation.model.nodes import Node
from allocation.model.pods import NodeWhy
from allocation.model.slices import ResourceSlice
from allocation.pools import Published
from allocation.reasons import Candidate, Fault, Outcome, Why
from allocation.remedies import CHANGES, Scene, apply_change, remedies
from allocation.search import Cluster, allocate
from allocation.selectors.answers import Answer
from allocation.selectors.cel import Selector
from allocation.selectors.device import SelectedDevice
from allocation.usage import Usage
from tests.allocation.clusters import cluster
from tests.lab.dra_oracle import allocations
from tests.lab.examples import examples

Json = dict[str, Any]
CLUSTERS, FOR_CHANGES = (*range(60), 1034), 140
"""Of these each reason is known to come up (of the last, an amount that is an error), and each
change is offered."""
KEYS = ("node", "claim", "request", "driver", "pool", "device")
compiled = cache(Selector)


def evaluate(expression: str, devices: Sequence[SelectedDevice]) -> list[Answer]:
    return [compiled(expression).answer(device) for device in devices]


class Ours:
    """What we make of a cluster in JSON."""

    def __init__(self, given: Json) -> None:
        self.slices = msgspec.convert(given["slices"], list[ResourceSlice])
        self.claims = msgspec.convert(given["claims"], list[Claim])
        self.waiting = msgspec.convert(given["waiting"], list[Claim])
        self.nodes = [
            Node(each["metadata"]["name"], each["metadata"]["labels"]) for each in given["nodes"]
        ]
        classes = msgspec.convert(given["classes"], list[DeviceClass])
        self.cluster = Cluster(
            Published(self.slices),
            Usage.of(self.claims),
            {each.metadata.name: each for each in classes},
        )
        self.answers = Answers(evaluate)

    def outcomes(self) -> list[Outcome]:
        return [allocate(self.waiting, node, self.cluster, self.answers) for node in self.nodes]

    def candidates(self) -> Iterator[tuple[tuple[str, ...], Candidate]]:
        for node in self.nodes:
            pools = self.cluster.published.pools_of(node)
            for claim in self.waiting:
                for request in claim.spec.devices.requests:
                    for choice in request.choices:
                        known = self.cluster.classes.get(choice.device_class_name)
                        if known is None:
                            continue
                        selection = Selection(request.name, choice, known, self.answers)
                        constraints = claim.spec.devices.constraints
                        for each in candidates(
                            selection, pools, node, self.cluster.usage, constraints
                        ):
                            name = (claim.metadata.name, selection.name)
                            device = (each.device.driver, each.device.pool, each.device.device)
                            yield (node.name, *name, *device), each


def devices_of(theirs: Json, waiting: list[Claim]) -> tuple[tuple[str, str, str], ...]:
    """Return claim, request and device of what the oracle allocates."""
    return tuple(
        (claim.key, each["request"], f"{each['driver']}/{each['pool']}/{each['device']}")
        for claim, allocated in zip(waiting, theirs["allocated"], strict=True)
        for each in allocated["devices"]["results"]
    )


def bare(value: Any) -> Any:
    """Return an object as the API server stores it: without what is empty."""
    if isinstance(value, dict):
        found = cast("Json", value)
        return {key: bare(each) for key, each in found.items() if each not in (None, "", (), [])}
    if isinstance(value, list | tuple):
        return [bare(each) for each in cast("tuple[Any, ...]", value)]
    return value


def word(theirs: Json) -> str:
    if error := theirs.get("error"):
        return "SelectorFails" if "CEL runtime error" in error else "Fails"
    return "Allocated" if "allocated" in theirs else "None"


def outcomes_that_differ(oracle: Path, seeds: Sequence[int]) -> tuple[list[object], Counter[str]]:
    """Return where we allocate otherwise, and how often each ending came."""
    drawn = [cluster(seed) for seed in seeds]
    endings: Counter[str] = Counter()
    wrong: list[object] = []
    for seed, each, theirs in zip(seeds, drawn, allocations(oracle, drawn), strict=True):
        ours = Ours(each)
        for mine, their in zip(ours.outcomes(), theirs["nodes"], strict=True):
            endings[mine.ending] += 1
            same = mine.ending == word(their) and (
                mine.ending != "Allocated"
                or devices_of(their, ours.waiting)
                == tuple((claim, request, str(name)) for claim, request, name in mine.devices)
            )
            if not same:
                wrong.append((seed, mine, their))
    return wrong, endings


def devices_that_differ(oracle: Path, seeds: Sequence[int]) -> tuple[list[object], Counter[str]]:
    """Return which devices can be had alone and have a reason, or the other way round."""
    drawn = [cluster(seed) for seed in seeds]
    reasons: Counter[str] = Counter()
    wrong: list[object] = []
    for seed, each, theirs in zip(seeds, drawn, allocations(oracle, drawn), strict=True):
        ours = dict(Ours(each).candidates())
        found: dict[tuple[str, ...], set[str]] = {}
        for their in theirs["candidates"]:  # one name may be in several generations of a pool
            name = tuple(their[key] for key in KEYS)
            found.setdefault(name, set()).add(word(their))
        for name, words in found.items():
            # Not among ours: its slice is for other nodes, or of an old generation.
            kinds = {reason.why for reason in ours[name].reasons} if name in ours else {"None"}
            reasons.update(kinds)
            faults = words & {*get_args(Fault)} if name in ours else set[str]()
            if ("Allocated" in words) == bool(kinds) or not faults <= kinds:
                wrong.append((seed, name, kinds, words))
    return wrong, reasons


def changes_in_vain(oracle: Path, seeds: Sequence[int]) -> tuple[list[object], Counter[str]]:
    """Return the changes that are offered and do not help, and how often each kind is offered."""
    offered: list[tuple[int, str, str]] = []
    after: list[Json] = []
    for seed in seeds:
        given = cluster(seed)
        ours = Ours(given)
        scene = Scene(
            tuple(ours.waiting), tuple(ours.slices), tuple(ours.claims), ours.cluster.classes
        )
        for number, node in enumerate(ours.nodes):
            for change in remedies(scene, node, ours.answers):
                offered.append((seed, node.name, change.what))
                then = apply_change(scene, change)
                parts = {"slices": then.slices, "claims": then.claims, "waiting": then.waiting}
                alone = given | {"nodes": given["nodes"][number : number + 1]}
                after.append(
                    alone | {key: bare(msgspec.to_builtins(each)) for key, each in parts.items()}
                )
    words = [word(theirs["nodes"][0]) for theirs in allocations(oracle, after)]
    wrong = [each for each in zip(offered, words, strict=True) if each[1] != "Allocated"]
    return list(wrong), Counter(what for _, _, what in offered)


def test_what_is_allocated_on_a_node_and_what_is_not(dra_oracle_built: Path) -> None:
    wrong, endings = outcomes_that_differ(dra_oracle_built, CLUSTERS)

    assert wrong == []
    assert endings["NotEvaluated"] == 0
    assert endings["Allocated"] > 0.12 * endings.total()
    assert endings["None"] > 0.3 * endings.total()


def test_each_device_that_cannot_be_had_has_a_reason_and_no_other_has(
    dra_oracle_built: Path,
) -> None:
    wrong, reasons = devices_that_differ(dra_oracle_built, CLUSTERS)

    assert wrong == []
    assert {*get_args(Why)} - {*get_args(NodeWhy)} - reasons.keys() == {"NotEvaluated"}


def test_each_change_that_is_offered_gives_the_claims_their_devices(dra_oracle_built: Path) -> None:
    wrong, kinds = changes_in_vain(dra_oracle_built, range(FOR_CHANGES))

    assert wrong == []
    assert kinds.keys() == CHANGES.keys()


@settings(max_examples=int(os.environ.get("ALLOCATIONS", examples(20))))
@given(st.lists(st.integers(FOR_CHANGES, 2**32), min_size=10, max_size=10, unique=True))
def test_clusters_that_are_drawn_anew(dra_oracle_built: Path, seeds: list[int]) -> None:
    for compare in (outcomes_that_differ, devices_that_differ, changes_in_vain):
        wrong, _ = compare(dra_oracle_built, seeds)
        assert wrong == []
