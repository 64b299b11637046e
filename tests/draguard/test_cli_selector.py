"""Nodes by their labels, as kubectl's -l, on a real API server."""

import pytest

from draguard.__main__ import main
from tests.draguard.fleet import LOST_INCIDENT, SLICE_INCIDENT, Fleet
from tests.draguard.printed import printed


@pytest.fixture(scope="module", autouse=True)
def _labelled(fleet: Fleet) -> None:
    label = {"metadata": {"labels": {"pool": "b"}}}
    fleet.cluster.client.merge_patch("/api/v1/nodes/node-b", label)


@pytest.mark.parametrize(
    ("selector", "names"),
    [("pool=b", [LOST_INCIDENT]), ("pool notin (b)", [SLICE_INCIDENT]), ("pool", [LOST_INCIDENT])],
)
def test_incidents_are_those_on_the_nodes(
    selector: str, names: list[str], fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", fleet.kubeconfig)
    stated = printed(capsys, "incidents", "-l", selector, "-o", "name", *where)

    assert [line.rpartition("/")[2] for line in stated.split()] == names


def test_a_plan_is_of_the_affected_among_them(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = ("-o", "jsonpath={.page.nodes[*].node}", "--kubeconfig", fleet.kubeconfig)

    assert "node-c" in printed(capsys, "plan", *nodes)
    assert printed(capsys, "plan", "--selector", "pool=b", *nodes) == "node-b\n"


@pytest.mark.parametrize("command", ["incidents", "plan"])
def test_labels_that_no_node_has_are_an_error(
    command: str, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "-l", "pool=typo", "--kubeconfig", fleet.kubeconfig]) == 1
    assert "no node has the labels 'pool=typo'" in capsys.readouterr().err
    assert main([command, "-l", "a==b==", "--kubeconfig", fleet.kubeconfig]) == 2
    assert "the selector 'a==b==' cannot be read: found" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([command, "-l", "pool=b", "--node", "node-b"])
