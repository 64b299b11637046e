"""Which test file a worker of a parallel run takes next: files that wait beside files that compute.

A test on a real control plane waits most of its time, a pure one computes all of it. Half of the
workers begin with the one kind and half with the other, so that the cores are busy from the first
minute to the last and only some workers start servers. A worker whose kind is used up takes the
other.
"""

from pathlib import PurePosixPath

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SERVERS = ("alerts", "chain", "deploy", "docs", "draguard", "tools")
"""Folders below `tests/` whose tests start servers and wait for what those do."""
TOGETHER = ("test_rendered.py", "test_rendered_hostile.py")
"""Files that share what takes a minute to play once per worker."""


class Lanes(LoadFileScheduling):
    """xdist's scheduling by file, with a choice of the next file."""

    def _split_scope(self, nodeid: str) -> str:
        file = PurePosixPath(super()._split_scope(nodeid))
        return str(file.with_name(TOGETHER[0]) if file.name in TOGETHER else file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        desired = _begins_with_servers(node)
        chosen = next((file for file in self.workqueue if waits(file) == desired), None)
        if chosen is not None:
            self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


def waits(file: str) -> bool:
    """Whether a test file, given by its path in the project, mostly waits for servers."""
    return PurePosixPath(file).parts[1] in SERVERS


def _begins_with_servers(node: WorkerController) -> bool:
    name = str(node.gateway.id)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - execnet has no types
    return int(name.removeprefix("gw")) % 2 == 0
