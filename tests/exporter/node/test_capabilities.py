"""What `--check` and `doctor` say of each need, where it is there and where it is not.

Checked in processes of their own, with other users and capabilities: it is the effective set that
counts, and user 0 without one is told so.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter.node.capabilities import CAPABILITIES
from exporter.sensor.kernel_log.kmsg import AUTO, mode_now
from simulator.node import SimulatedNode
from tests.exporter.running import ROOT
from tests.exporter.sensor.kernel_log.test_kmsg import BOOT_ID
from tests.fuzz.journal_files import whole

_ASK = """
import json, sys
from exporter.node.capabilities import CAPABILITIES
from exporter.flags.parser import parse
from exporter.node.surroundings import missing
settings, _ = parse(["--node-name=a", *sys.argv[1:]], {})
print(json.dumps({row.need: missing(row.need, settings) for row in CAPABILITIES}))
"""
NOBODY = 65534


class Process(NamedTuple):
    """Who asks: a user, and its effective capabilities."""

    user: int = 0
    rights: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        assert os.geteuid() == 0, "other users cannot be played: run this test as root"
        tool = shutil.which("setpriv")
        assert tool, "setpriv of util-linux is needed"
        # Where Python lies in a folder of root's own, a right to read is needed to start it.
        rights = self.rights if self.user == 0 else ("dac_read_search", *self.rights)
        desired = ",".join(("-all", *(f"+{right}" for right in rights)))
        ambient = [f"--ambient-caps={desired}"] if self.user else []
        ids = [f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        return [tool, *ids, f"--inh-caps={desired}", f"--bounding-set={desired}", *ambient]


def message(who: Process, *flags: str) -> dict[str, str]:
    """Return what is missing of each need, "" for nothing."""
    done = subprocess.run(
        [*who.command, sys.executable, "-c", _ASK, *flags],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


NO_LOG = "--kernel-log=/nowhere/kmsg"
RIGHTS = {
    "an administrator is who has SYS_ADMIN": (Process(0, ("sys_admin",)), "sys-admin", ""),
    "user 0 without it is none": (Process(0, ("syslog",)), "sys-admin", "CAP_SYS_ADMIN"),
    "another user with it is one": (Process(NOBODY, ("sys_admin",)), "sys-admin", ""),
    "another user without it is none": (Process(NOBODY), "sys-admin", "CAP_SYS_ADMIN"),
    "the log is read with SYSLOG": (Process(0, ("syslog",)), "kernel-log", ""),
    "user 0 without it does not read it": (Process(0), "kernel-log", "CAP_SYSLOG"),
    "another user with it reads it": (Process(NOBODY, ("syslog",)), "kernel-log", ""),
    "SYS_ADMIN is not SYSLOG": (Process(0, ("sys_admin",)), "kernel-log", "CAP_SYSLOG"),
}


@pytest.mark.parametrize("case", RIGHTS)
def test_a_right_is_what_the_process_has_and_not_who_it_is(case: str) -> None:
    who, need, lacking = RIGHTS[case]
    found = message(who, NO_LOG)[need]

    assert lacking in found
    assert bool(found) == bool(lacking)


def test_a_log_that_can_be_opened_needs_no_right(node: SimulatedNode) -> None:
    assert message(Process(), f"--kernel-log={node.kernel_log.path}")["kernel-log"] == ""


def test_a_journal_with_the_kernels_records_needs_no_right(tmp_path: Path) -> None:
    (tmp_path / "system.journal").write_bytes(whole("compact-whole"))
    mode = mode_now(AUTO, [tmp_path], BOOT_ID, Path("/nowhere"))

    assert (mode.state, mode.via) == ("Up", "Journal")
    assert str(tmp_path) in mode.message


def test_the_kubelets_socket_is_its_owners(node: SimulatedNode) -> None:
    node.root.chmod(0o755)
    node.kubelet.socket.chmod(0o660)
    socket = f"--pod-resources-socket={node.kubelet.socket}"

    assert message(Process(), socket)["pod-resources"] == ""
    assert "is not there or not ours" in message(Process(NOBODY), socket)["pod-resources"]
    assert "is not there" in message(Process(), "--pod-resources-socket=/nowhere")["pod-resources"]


def test_the_hosts_processes_are_known_by_the_kernels_own(node: SimulatedNode) -> None:
    (there := node.proc_dir / "2").mkdir(exist_ok=True)
    (there / "comm").write_text("kthreadd\n", encoding="ascii")
    assert message(Process(), f"--proc-dir={node.proc_dir}")["host-pids"] == ""

    # The host's /proc in a container with a pid namespace of its own.
    (node.proc_dir / "self").symlink_to("4194305")
    found = message(Process(), f"--proc-dir={node.proc_dir}")["host-pids"]
    assert "another pid namespace than this process" in found

    (there / "comm").write_text("sleep\n", encoding="ascii")
    assert "not a kernel thread" in message(Process(), f"--proc-dir={node.proc_dir}")["host-pids"]


def test_a_library_that_is_named_needs_no_device_of_this_machine(node: SimulatedNode) -> None:
    named = message(Process(), f"--nvml-library-dir={node.library_dir}")
    assert named["gpu-devices"] == ""
    if not Path("/dev/nvidiactl").exists():
        assert "/dev/nvidiactl cannot be opened" in message(Process())["gpu-devices"]


def test_a_token_or_a_server_is_the_way_to_the_api(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc", encoding="ascii")
    server = ("--kube-server=http://127.0.0.1:1", f"--kube-token-file={tmp_path / 'token'}")

    assert message(Process(), *server)["api-server"] == ""
    assert "no service account" in message(Process())["api-server"]


def test_every_need_is_checked_and_says_what_to_do() -> None:
    assert message(Process()).keys() == {row.need for row in CAPABILITIES}
    for row in CAPABILITIES:
        assert row.shows
        assert row.remedy
