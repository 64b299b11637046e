"""Processes are known only where the driver tells of the node's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from exporter.model.readings import NvmlReading, ProcessReading
from exporter.sensor.gpu_processes import with_pods
from exporter.sensor.kernel_log.cgroups import Cgroups
from tests.exporter.running import ROOT
from tests.exporter.worlds import at, gpu

_APART = """
import json, sys
from pathlib import Path
from exporter.sensor.kernel_log import pid_namespace
print(json.dumps([pid_namespace.certainly_apart(Path(one)) for one in sys.argv[1:]]))
"""


def test_from_a_pid_namespace_of_ones_own_the_nodes_processes_are_not_seen() -> None:
    tool = shutil.which("unshare")
    assert tool, "unshare of util-linux is needed"
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    done = subprocess.run(
        [tool, *user, "--pid", "--fork", "--mount-proc", sys.executable, "-c", _APART, "/proc"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == ["/proc does not show the host's processes"]


def test_the_hosts_proc_does_not_help_who_is_not_of_its_namespace(tmp_path: Path) -> None:
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "comm").write_text("kthreadd\n")
    assert Cgroups(tmp_path).apart == ""
    (tmp_path / "self").symlink_to("4194305")
    assert "another pid namespace" in Cgroups(tmp_path).apart


def test_processes_that_are_not_the_nodes_are_not_known(tmp_path: Path) -> None:
    reading = NvmlReading(at=at(0), gpus=(gpu(1, processes=()), gpu(2)))
    mine = NvmlReading(at=at(0), gpus=(gpu(1, processes=(ProcessReading(pid=7),)),))
    assert with_pods(reading, Cgroups(tmp_path)) == reading
    (tmp_path / "self").symlink_to("7")
    apart = Cgroups(tmp_path)
    for view in (reading, mine):
        assert [each.processes for each in with_pods(view, apart).gpus] == [None] * len(view.gpus)
