"""`--check` on simulated nodes: what it prints, and what it answers."""

import re
import subprocess
import sys
from pathlib import Path

from exporter.flags.parser import parse
from exporter.node.capabilities import CAPABILITIES
from exporter.node.surroundings import missing
from simulator.node import SimulatedNode
from tests.exporter.running import ROOT


def check(node: SimulatedNode, *flags: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "exporter", *node.exporter_flags(), "--check", *flags]
    environment = {"PATH": "/usr/bin:/bin", **node.environment()}
    environment.pop("LD_LIBRARY_PATH")  # the flag alone must be enough
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_it_says_which_gpus_and_rows_would_be_shown(node: SimulatedNode) -> None:
    code, message = check(node)
    assert code == 0
    assert "settings: valid" in message
    assert "NVML: 3 GPUs, driver 580.95.05" in message
    assert "7 MIG slices" in message
    assert "DCGM: off (--dcgm)" in message
    assert "counters: 26 rows" in message
    # The profiling rows too, whose shares of time need two samples.
    assert "no answer" not in message
    for row in CAPABILITIES:
        assert row.need in message


def test_without_a_driver_it_answers_one_and_says_what_to_do(node: SimulatedNode) -> None:
    code, message = check(node, f"--nvml-library-dir={node.root / 'nowhere'}")
    assert code == 1
    assert "NVML: LibraryNotFound" in message
    assert "install the NVIDIA driver" in message
    assert "choose the chart's `stack` that the nodes have" in message


def test_a_row_that_this_product_has_not_is_named(node: SimulatedNode, tmp_path: Path) -> None:
    file = tmp_path / "counters.csv"
    file.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, C\nDCGM_FI_DEV_RETIRED_SBE, counter, pages\n")
    _, message = check(node, f"--collectors={file}")
    assert [line.split()[-1] for line in message.splitlines() if "no answer" in line] == [
        "DCGM_FI_DEV_RETIRED_SBE"
    ]


def test_a_row_that_is_left_out_is_named_with_its_line(node: SimulatedNode, tmp_path: Path) -> None:
    file = tmp_path / "counters.csv"
    file.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, C\nDCGM_FI_DEV_NO_SUCH, gauge, x\n")
    code, message = check(node, f"--collectors={file}")
    assert code == 0
    assert "counters: 1 rows, 1 answered here and now" in message
    assert f"line 2 of {file}: 'DCGM_FI_DEV_NO_SUCH' is not a DCGM field" in message


def test_a_counters_file_without_a_good_row_is_named(node: SimulatedNode, tmp_path: Path) -> None:
    file = tmp_path / "counters.csv"
    file.write_text("# a comment\nDCGM_FI_DEV_NO_SUCH, gauge, x\n")
    code, message = check(node, f"--collectors={file}")
    assert code == 2
    assert "line 2" in message
    assert "DCGM_FI_DEV_NO_SUCH" in message


def test_a_bad_setting_is_named(node: SimulatedNode) -> None:
    code, message = check(node, "--interval=0")
    assert code == 2
    assert "--interval must be above 0" in message


def test_what_is_there_differs_from_what_is_missing(node: SimulatedNode) -> None:
    here, _ = parse(["--node-name=a", *node.exporter_flags()], {})
    nowhere, _ = parse(["--node-name=a", *(f"{flag}=/nowhere" for flag in _PATHS)], {})
    for need in ("kernel-log", "pod-resources", "gpu-devices"):
        assert missing(need, here) == ""
    assert missing("pod-resources", nowhere) == "/nowhere is not there or not ours"
    assert missing("host-pids", nowhere) == "/nowhere does not show the host's processes"
    assert missing("api-server", nowhere) == "no service account and no --kube-server"


_PATHS = ("--pod-resources-socket", "--proc-dir")


def test_it_says_how_the_kernel_log_is_read_and_what_that_costs(node: SimulatedNode) -> None:
    _, of_a_file = check(node)
    assert f"kernel log: Device: read from {node.kernel_log.path}" in of_a_file

    folders = f"--journal-dirs={node.root / 'none'}"
    _, by_itself = check(node, "--kernel-log=auto", folders)
    assert re.search("^kernel log: (Device|Syslog NoJournal|Down .*): ", by_itself, re.MULTILINE)
