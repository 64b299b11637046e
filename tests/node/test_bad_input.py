"""Values that the chart cannot know to be wrong: `draguard doctor` says what is, and what to do."""

from pathlib import Path
from typing import Any

import pytest

from draguard.__main__ import main
from tests.lab.cluster import await_true
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release

Json = dict[str, Any]
NOWHERE = "127.0.0.1:1/draguard-exporter"
"""No registry listens there."""
ELSEWHERE = "/run/elsewhere"
"""A folder of the node that is not the kubelet's."""


@pytest.fixture
def release(node: RealNode, helm_built: Path) -> Release:
    """Nothing is installed at the start of a test."""
    release = Release(node)
    release.remove()
    return release


WRONG: dict[str, tuple[Json, tuple[str, ...]]] = {
    "a registry that is not there": (
        {"image": {"pullPolicy": "IfNotPresent", "exporter": {"repository": NOWHERE}}},
        ("container sensor: ", "ImagePull", "check image.registry and the tags"),
    ),
    "an image that is not on the node": (
        {"image": {"exporter": {"repository": "draguard-misspelled"}}},
        ("container sensor: ErrImageNeverPull", "load the image on this node"),
    ),
    "a folder that is not there": (
        {"exporter": {"kubeletPath": "/nowhere/kubelet"}},
        ("FailedMount", "/nowhere/kubelet/pod-resources", "set exporter.kubeletPath"),
    ),
    "a folder without the kubelet's socket": (
        {"exporter": {"kubeletPath": ELSEWHERE}},
        ("source podresources: NotFound", "kubelet.sock is not there", "exporter.kubeletPath"),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_doctor_names_a_wrong_value_and_what_to_set(
    case: str, node: RealNode, release: Release, capsys: pytest.CaptureFixture[str]
) -> None:
    changed, words = WRONG[case]
    node.plane.inside("mkdir", "-p", f"{ELSEWHERE}/pod-resources")
    release.install(changed)

    shown = ""

    def named() -> bool:
        nonlocal shown
        main(["doctor", "--kubeconfig", str(node.plane.kubeconfig)])
        shown = capsys.readouterr().out
        return all(word in shown for word in words)

    try:
        await_true(f"the doctor says {words}", named, 120)
    finally:
        print(shown)  # noqa: T201 - for a failed test
