"""Six hours in the life of a cluster, played in minutes: what every program's page said, in turn.

Each page was printed by a real program after the cluster had really come to that state. Only when
it was printed is told otherwise: the story says that a step took minutes where it took a second.
"""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.lab.pictures_cluster import PlayedCluster
from tests.lab.pictures_load import TRAINING

STEP_SECONDS = 120
Say = Callable[[str], None]


class Moment(NamedTuple):
    """What was said at one step."""

    real: float
    """When the pages were read, Unix seconds."""
    pages: Mapping[str, str]
    """By program; one that is missing was down."""


class Shape(NamedTuple):
    """How many steps of the story there are, and at which of them something happens."""

    steps: int
    application_error: int
    lost: int
    drained: int = -1
    """Nothing holds the lost GPU any more; -1: it is not waited for."""
    silent: int = -1
    """The exporter of node-c ends; -1: it does not."""


SIX_HOURS = Shape(steps=181, application_error=62, lost=146, drained=158)
"""For pictures: healthy for most of it, then one GPU of 24 is lost."""
ONE_HOUR = Shape(steps=30, application_error=6, lost=16, silent=24)
"""For tests: healthy until step 15, one GPU lost until step 23, node-c silent until the end."""


class Story(NamedTuple):
    """What was played."""

    moments: tuple[Moment, ...]
    shape: Shape
    victim: str
    """`node/number` of the GPU that was lost."""

    @property
    def seconds(self) -> int:
        return (len(self.moments) - 1) * STEP_SECONDS

    def played(self, step: int, end: float) -> float:
        """Return when a step was, Unix seconds, for a story that ends at `end`."""
        return end - (len(self.moments) - 1 - step) * STEP_SECONDS


def play(cluster: PlayedCluster, shape: Shape, say: Say) -> Story:
    """Play the story from its beginning; about a second for each step."""
    moments: list[Moment] = []
    victim = _trainer(cluster, "node-b")
    for step in range(shape.steps):
        _happen(cluster, shape, step, victim)
        cluster.load(step * STEP_SECONDS, STEP_SECONDS)
        pages = cluster.pages()
        moments.append(Moment(time.time(), pages))
        if step % 20 == 0:
            say(f"played {step} of {shape.steps} steps")
    return Story(tuple(moments), shape, f"node-b/{victim}")


def _happen(cluster: PlayedCluster, shape: Shape, step: int, victim: int) -> None:
    if step == shape.application_error:
        cluster.nodes["node-a"].inject_xid(_trainer(cluster, "node-a"), 31, nvml=False)
    if step == shape.lost:
        cluster.lose("node-b", victim)
    if step == shape.lost + 4:
        cluster.await_page(
            "the lost GPU is tainted", r'^draguard_incident_rules{.*effect="NoExecute".*} [1-9]'
        )
    if step == shape.drained:
        cluster.await_page("it is empty", r'^draguard_incident_phase{.*phase="Drained".*} 1')
    if step == shape.silent:
        cluster.silence("node-c")
        cluster.await_page("its agent is stale", r'^draguard_agent_stale{node="node-c"} 1')


def _trainer(cluster: PlayedCluster, node: str) -> int:
    """Return the number of a GPU of a node that trains."""
    found = [
        int(place.rpartition("-")[2])
        for place, holder in cluster.holders().items()
        if place.startswith(f"{node}/") and holder.name.startswith(TRAINING)
    ]
    assert found, f"no GPU of {node} trains"
    return sorted(found)[len(found) // 2]
