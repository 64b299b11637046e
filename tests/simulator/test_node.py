"""A simulated node as a whole, its GPUs by words, and the command line."""

import json
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from simulator.__main__ import main
from simulator.board import BoardError, gpus_of, mig_layouts
from simulator.faults import FaultError
from simulator.node import SimulatedNode
from tests.simulator.nvml_client import NvmlClient


def test_the_folder_holds_what_an_agent_looks_at(node: SimulatedNode) -> None:
    names = {path.name for path in node.root.iterdir() if not path.name.startswith(".")}
    assert names == {
        *("lib", "scenario.ini", "kmsg", "boot_id", "kubelet.sock", "node_name"),
        *("pci", "devices", "proc"),
    }
    assert re.fullmatch(r"[0-9a-f-]{36}", node.boot_id)


def test_the_same_name_gives_the_same_gpus() -> None:
    assert gpus_of("a", "8xH100") == gpus_of("a", "8xH100")
    uuids = {gpu.uuid for name in "ab" for gpu in gpus_of(name, "8xH100")}
    assert len(uuids) == 16


def test_instance_ids_are_neither_placements_nor_indices() -> None:
    (gpu,) = gpus_of("a", "1xH100", {0: ["1g.10gb"] * 7})
    assert [(instance.gi, instance.start) for instance in gpu.instances] == [
        (7 - n, n) for n in range(7)
    ]


@pytest.mark.parametrize(
    ("words", "mig", "message"),
    [
        ("8xB300", {}, 'cannot read "8xB300"; write a count and a product such as 8xH100'),
        ("33xH100", {}, "33 GPUs are too many; at most 32"),
        ("2xH100", {2: []}, "MIG is requested on GPU 2, but there are 2 GPUs"),
        ("1xH100", {0: ["1g.5gb"]}, 'has no MIG profile "1g.5gb"; use one of: 1g.10gb'),
        ("1xA100", {0: ["4g.20gb"] * 2}, "no room for another 4g.20gb"),
    ],
)
def test_gpus_that_cannot_be_are_refused(
    words: str, mig: dict[int, list[str]], message: str
) -> None:
    with pytest.raises(BoardError) as reported:
        gpus_of("n", words, mig)
    assert message in str(reported.value)


def test_mig_layouts_are_read_from_words() -> None:
    assert mig_layouts(["0:1g.10gb*3", "2:3g.40gb,1g.20gb*2"]) == {
        0: ["1g.10gb"] * 3,
        2: ["3g.40gb", "1g.20gb", "1g.20gb"],
    }
    with pytest.raises(BoardError, match="such as 0:1g"):
        mig_layouts(["1g.10gb"])


def test_an_xid_shows_in_the_kernel_log_after_the_gpu_was_introduced(
    node: SimulatedNode,
) -> None:
    node.inject_xid(3, 79, pid=0)
    node.inject_xid(3, 31)
    lines = [line.partition(";")[2] for line in node.kernel_log.text().splitlines()]
    gpu = node.gpu(3)
    assert lines[0] == f"NVRM: GPU at PCI:0000:5d:00: {gpu.uuid}"
    assert lines[1] == f"NVRM: GPU Board Serial Number: {gpu.serial}"
    assert [line[:33] for line in lines[2:]] == [
        "NVRM: Xid (PCI:0000:5d:00): 79, p",
        "NVRM: Xid (PCI:0000:5d:00): 31, C",
    ]


def test_the_open_modules_print_no_instance_but_the_event_carries_it(
    node: SimulatedNode,
) -> None:
    node.inject_xid(0, 94, gi=5)
    assert "GPU-I" not in node.kernel_log.text()
    assert node.scenario.load().events[-1].gi == 5
    node.inject_xid(0, 94, gi=5, kernel_instance=True, nvml=False)
    assert "PCI:0000:18:00 GPU-I:05): 94" in node.kernel_log.text()
    assert len(node.scenario.load().events) == 1


def test_the_event_can_come_later_than_the_line(node: SimulatedNode) -> None:
    node.inject_xid(0, 94, gi=5, nvml_delay=60)
    assert ": 94, " in node.kernel_log.text()
    assert node.scenario.load().events == []
    node.stop()
    node.inject_xid(0, 94, gi=5, nvml_delay=0.2)
    node.finish()
    assert [event.data for event in node.scenario.load().events] == [94]


def test_events_that_were_to_come_are_dropped_when_the_node_closes(tmp_path: Path) -> None:
    with SimulatedNode(tmp_path, "n").create("1xH100") as node:
        node.inject_xid(0, 94, nvml_delay=60)
    assert node.scenario.load().events == []


def test_healing_takes_failure_and_recovery_action_back_and_says_so(
    node: SimulatedNode,
) -> None:
    node.lose(3)
    node.set_recovery_action(3, 1)
    node.set_value(3, "remap_pending", 1)
    node.heal(3)
    gpu = node.gpu(3)
    assert (gpu.failure.kind, gpu.value("recovery_action"), gpu.value("remap_pending")) == (
        *("none", 0),
        0,
    )
    assert "from 0x1 (GPU Reset Required) to 0x0 (None)" in node.kernel_log.text()
    assert [event.data for event in node.scenario.load().events] == [1, 0]


def test_a_reboot_changes_the_boot_id_and_empties_the_kernel_log(node: SimulatedNode) -> None:
    node.inject_xid(3, 79)
    before = node.boot_id
    node.reboot()
    assert node.boot_id != before
    assert node.kernel_log.text() == ""
    node.inject_xid(3, 79)
    assert node.kernel_log.text().startswith("3,0,")


@pytest.mark.parametrize(
    ("act", "message"),
    [
        ("node.hang(8)", "there is no GPU 8; use a number from 0 to 7"),
        ("node.hang(0, 'nvmlDeviceGetTemprature')", "nvmlDeviceGetTemprature is not simulated"),
        ("node.set_value(0, 'heat', 1)", 'there is no value "heat"; use one of: utilization'),
    ],
)
def test_failures_that_cannot_be_simulated_are_refused(
    node: SimulatedNode, act: str, message: str
) -> None:
    with pytest.raises(FaultError) as reported:
        eval(act)  # noqa: S307 the three lines above
    assert message in str(reported.value)


def test_the_command_line_creates_serves_injects_and_recovers(tmp_path: Path) -> None:
    root = tmp_path / "box"
    command = [sys.executable, "-m", "simulator", "node", "--root", str(root), "--gpus", "2xH100"]
    with (
        subprocess.Popen(
            [*command, "--mig", "0:1g.10gb*7"], stdout=subprocess.PIPE, text=True
        ) as served,
        ExitStack() as ended,
    ):
        ended.callback(served.kill)  # before it is waited for, also where something here fails
        assert served.stdout is not None
        stated = ""
        while not stated.endswith("Ctrl-C ends it; the folder stays.\n"):
            line = served.stdout.readline()
            assert line, f"it ended, and had said: {stated}"
            stated += line
        assert f"export DRAGUARD_SIM_SCENARIO={root}/scenario.ini" in stated
        assert f"--pod-resources-socket={root}/kubelet.sock" in stated
        xid = ["xid", "79", "--lost", "--recovery-action", "1"]
        assert main(["inject", "--root", str(root), "--gpu", "1", *xid]) == 0
        with NvmlClient(SimulatedNode(root, "box")) as nvml:
            nvml.ask("nvmlInit()")
            assert nvml.error_of("nvmlDeviceGetHandleByIndex(1)") == 15
            assert main(["recover", "--root", str(root), "--gpu", "1"]) == 0
            assert nvml.error_of("nvmlDeviceGetHandleByIndex(1)") == 0
        served.send_signal(signal.SIGTERM)
        assert served.wait(60) == 0


def test_the_command_line_reaches_every_kind_of_failure(
    node: SimulatedNode, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(node.root)
    for kind, expected in {
        "lost": "lost",
        "gone": "gone",
        "hung --call nvmlDeviceGetName": "hung on nvmlDeviceGetName",
        "segfault": "segfault",
        "error 999": "error=999",
        "slow 5 --call nvmlDeviceGetCount": "slow=5 on nvmlDeviceGetCount",
    }.items():
        assert main(["inject", "--root", root, "--gpu", "2", *kind.split()]) == 0
        assert str(node.gpu(2).failure) == expected
    assert main(["inject", "--root", root, "--gpu", "2", "value", "temperature_c", "90"]) == 0
    assert main(["inject", "--root", root, "--gpu", "2", "recovery-action", "4"]) == 0
    assert node.gpu(2).value("temperature_c") == 90
    capsys.readouterr()
    assert main(["show", "--root", root]) == 0
    assert "failure slow=5 on nvmlDeviceGetCount  recovery action 4" in capsys.readouterr().out
    assert main(["slices", "--root", root]) == 0
    assert json.loads(capsys.readouterr().out) == node.slices()
    assert main(["reboot", "--root", root]) == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("inject --gpu 9 xid 79", "simulator: there is no GPU 9; use a number from 0 to 7"),
        ("inject --gpu 0 value heat 9", 'simulator: there is no value "heat"'),
    ],
)
def test_the_command_line_says_what_is_wrong_without_a_traceback(
    node: SimulatedNode, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    command, *rest = line.split()
    assert main([command, "--root", str(node.root), *rest]) == 1
    assert message in capsys.readouterr().err


def test_a_folder_without_node_says_to_create_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "--root", str(tmp_path)]) == 1
    assert "create the node first" in capsys.readouterr().err
