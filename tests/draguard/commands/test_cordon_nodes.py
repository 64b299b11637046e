"""Several devices, and whole nodes, are cordoned and uncordoned by one command and one question."""

import io
import re
import sys
from collections.abc import Iterator

import msgspec
import pytest

from draguard.__main__ import main
from tests.draguard.fleet import SICK, Fleet, slice_uuid
from tests.draguard.printed import printed
from tests.lab.cluster import RULES
from tests.remediator.builders import uuid

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


@pytest.fixture
def uncordoned(fleet: Fleet) -> Iterator[Fleet]:
    yield fleet
    main(["uncordon", "--all", "--kubeconfig", fleet.kubeconfig])


class TestWholeNodes:
    def test_every_gpu_of_a_node_is_cordoned_and_uncordoned(
        self, uncordoned: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        where = ("--kubeconfig", uncordoned.kubeconfig)
        stated = printed(capsys, "cordon", "--node", "node-a", "--reason", "boards", *where)
        names = printed(capsys, "uncordon", "--node", "node-a", "-o", "name", *where)

        assert stated.count("  cordoned") == 2
        assert f"to undo: draguard uncordon --node node-a --kubeconfig {where[1]}\n" in stated
        assert names.count("devicetaintrule.resource.k8s.io/draguard-maintenance-") == 2

    def test_the_undo_names_the_words_and_the_node_and_none_is_shown_for_what_was_not_done(
        self, uncordoned: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        where = ("--kubeconfig", uncordoned.kubeconfig)
        words = ("node-b/0", "--node", "node-a", "--reason", "x")
        tried = printed(capsys, "cordon", *words, "--dry-run", *where)
        done = printed(capsys, "cordon", *words, *where)
        again = printed(capsys, "cordon", *words, *where)

        assert "to undo" not in tried + again
        assert "to undo: draguard uncordon node-b/0 --node node-a --kubeconfig" in done

    def test_the_undo_leaves_a_cordon_of_another_user(
        self, uncordoned: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        where = ("--kubeconfig", uncordoned.kubeconfig)
        printed(capsys, "cordon", "node-a/1", "--reason", "memory test", *where)
        words = ("cordon", "--node", "node-a", "--reason", "x")
        *_, undo, stays = printed(capsys, *words, *where).splitlines()

        assert undo.startswith("to undo: draguard uncordon gpu.nvidia.com/node-a/gpu-0 --kube")
        assert stays == (
            "the undo leaves gpu.nvidia.com/node-a/gpu-1 (already cordoned by admin: memory test)"
        )
        raised = printed(capsys, *words, "--evict", "--yes", *where)
        assert raised.count("raised; already cordoned by admin: ") == 2
        assert "to undo" not in raised

    def test_a_node_is_one_table_of_devices_and_one_of_pods(
        self, uncordoned: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        where = ("--kubeconfig", uncordoned.kubeconfig)
        words = ("--node", "node-a", "node-b/0", "node-c/0", "--reason", "new boards", "--dry-run")
        stated = printed(capsys, "cordon", *words, *where)

        assert len(re.findall("^DEVICE  ", stated, re.MULTILINE)) == 1
        assert len(re.findall("^POD  ", stated, re.MULTILINE)) == 1
        assert len(stated.split("\n\n")) == 3
        assert "scope   4 GPUs, 10 devices" in stated
        assert "reason  new boards" in stated
        assert {"default/train", "default/infer"} <= set(stated.split())
        assert uuid(1) in stated

    def test_devices_by_several_words_and_a_beginning(
        self, uncordoned: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        where = ("--kubeconfig", uncordoned.kubeconfig, "--dry-run")
        words = ("node-a/0", SICK[:12], "node-a/0")
        stated = printed(capsys, "cordon", *words, "--reason", "x", *where)
        whole = printed(capsys, "cordon", "node-c/0", "--reason", "x", *where)
        twice = printed(capsys, "cordon", "node-c/0", slice_uuid(5), "--reason", "x", *where)

        assert stated.count("would be cordoned") == 2
        assert SICK in stated
        assert twice.count("would be cordoned") == whole.count("would be cordoned") > 1

    def test_a_cordon_of_a_device_that_the_node_publishes_no_more_is_its_own(
        self, uncordoned: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        cluster, where = uncordoned.cluster, ("--kubeconfig", uncordoned.kubeconfig)
        printed(capsys, "cordon", "node-d/0", "--reason", "x", *where)
        (published,) = (
            item
            for item in msgspec.json.decode(cluster.client.get(SLICES))["items"]
            if item["spec"]["nodeName"] == "node-d"
        )
        cluster.client.delete(f"{SLICES}/{published['metadata']['name']}")
        try:
            stated = printed(capsys, "uncordon", "--node", "node-d", *where)
        finally:
            meta = {"name": published["metadata"]["name"]}
            body = {"metadata": meta, "spec": published["spec"]}
            cluster.client.create(SLICES, body)

        assert "uncordoned" in stated

    def test_a_node_that_publishes_none_is_named(
        self, uncordoned: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        where = ("--kubeconfig", uncordoned.kubeconfig)
        assert main(["cordon", "--node", "node-x", "--reason", "x", *where]) == 1
        assert "node 'node-x' publishes no GPU" in capsys.readouterr().err

    def test_without_a_terminal_nothing_is_evicted_and_one_question_is_for_all(
        self, uncordoned: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        words = ("cordon", "node-b/0", "node-c/0", "--reason", "x", "--evict")
        assert main([*words, "--kubeconfig", uncordoned.kubeconfig]) == 1
        stated = capsys.readouterr().err
        assert stated.count("will be deleted:") == 1
        assert {"  default/train", "  default/infer"} <= set(stated.splitlines())
        rules = msgspec.json.decode(uncordoned.cluster.client.get(RULES))["items"]
        assert not any(rule["metadata"]["name"].startswith("draguard-maint") for rule in rules)
