"""A worker takes the files of its kind first, and the others when those are used up."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.lab.lanes import Lanes, waits

CHAIN, JUDGE = "tests/chain/test_a.py::test_a", "tests/remediator/diagnose/test_b.py::test_b"
DEPLOY, PAGE = "tests/deploy/test_c.py::test_c", "tests/exporter/metrics/test_d.py::test_d"


class Worker:
    """What the scheduler sees of a worker; `took` is what it was sent, in order."""

    shutting_down = False

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.took: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.took += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduled(pytestconfig: pytest.Config, tests: list[str], workers: list[Worker]) -> None:
    """Let workers take all tests, one after the other."""

    def getvalue(name: str) -> list[str]:
        assert name == "tx"
        return ["popen"] * len(workers)

    option = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(option=option, getvalue=getvalue, hook=pytestconfig.hook)
    lanes: Any = Lanes(config)
    for worker in workers:
        lanes.add_node(worker)
    for worker in workers:
        lanes.add_node_collection(worker, tests)
    lanes.schedule()
    while lanes.has_pending:
        for worker in workers:
            for index in worker.took:
                lanes.mark_test_complete(worker, index)


def test_half_of_the_workers_begin_with_files_that_wait(pytestconfig: pytest.Config) -> None:
    tests = [JUDGE, CHAIN, PAGE, DEPLOY]
    servers, pure = Worker(0), Worker(1)

    scheduled(pytestconfig, tests, [servers, pure])

    assert [tests[index] for index in servers.took] == [CHAIN, DEPLOY]
    assert [tests[index] for index in pure.took] == [JUDGE, PAGE]


def test_a_worker_takes_the_other_kind_when_its_own_is_used_up(pytestconfig: pytest.Config) -> None:
    tests = [JUDGE, PAGE, CHAIN]
    servers, pure = Worker(0), Worker(1)

    scheduled(pytestconfig, tests, [servers, pure])

    assert tests[servers.took[0]] == CHAIN
    assert sorted(servers.took + pure.took) == [0, 1, 2]


def test_files_that_share_a_story_go_to_one_worker(pytestconfig: pytest.Config) -> None:
    folder = "tests/dashboards"
    tests = [f"{folder}/test_rendered.py::test_a", f"{folder}/test_rendered_hostile.py::b", JUDGE]
    workers = [Worker(1), Worker(3)]

    scheduled(pytestconfig, tests, workers)

    assert sorted(worker.took for worker in workers) == [[0, 1], [2]]


def test_the_kind_of_a_file_is_its_folders() -> None:
    assert waits("tests/chain/test_leaders.py")
    assert not waits("tests/remediator/diagnose/test_xids.py")
    assert not waits("tests/test_wheel.py")
