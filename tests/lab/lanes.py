"""Which test file a worker of a parallel run takes next: files that wait beside files that compute.

A test on a real control plane waits most of its time, a pure one computes all of it. Half of the
workers begin with the one kind and half with the other, so that the cores are busy from the first
minute to the last and only some workers start servers. A worker whose kind is used up takes the
other.
"""

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SERVERS = ("tests/chain/", "tests/deploy/", "tests/docs/", "tests/draguard/", "tests/alerts/")
"""Folders whose tests start servers and wait for what those do."""


class Lanes(LoadFileScheduling):
    """xdist's scheduling by file, with a choice of the next file."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        wanted = _serves(node)
        chosen = next((file for file in self.workqueue if _waits(file) == wanted), None)
        if chosen is not None:
            self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


def _waits(file: str) -> bool:
    return file.startswith(SERVERS)


def _serves(node: WorkerController) -> bool:
    name = str(node.gateway.id)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - execnet has no types
    return int(name.removeprefix("gw")) % 2 == 0
