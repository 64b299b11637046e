"""The exporter with the fewest rights, nowhere to write and no room on the disk."""

import contextlib
import os
from pathlib import Path

from simulator.node import SimulatedNode
from tests.exporter.robust.confined import (
    Confined,
    as_nobody,
    folder_of_both,
    read_only,
    rights_of,
    with_rights,
    without_room,
)
from tests.exporter.running import Exporter, wait_for

_SYS_ADMIN, _DAC_READ_SEARCH = 1 << 21, 1 << 2
_WRITING = os.O_WRONLY | os.O_RDWR


def is_complete(exporter: Exporter) -> None:
    page = exporter.wait_shows(
        'draguard_source_up{source="nvml"} 1',
        'draguard_source_up{source="kmsg"} 1',
        'draguard_source_up{source="podresources"} 1',
        "DCGM_FI_DEV_GPU_TEMP",
    )
    assert len(page.series("DCGM_FI_DEV_GPU_TEMP")) == 3
    assert len(page.series("DCGM_FI_DEV_FB_FREE")) == 9
    wait_for(lambda: exporter.get("/readyz")[0] == 200)


def test_an_agent_without_root_or_rights_hears_a_sensor_with_two(node: SimulatedNode) -> None:
    socket = folder_of_both(node) / "sensor.sock"
    at = f"--sensor-socket={socket}"
    with (
        Confined(node, "sensor", at, by=with_rights("dac_override", "syslog")) as sensor,
        Confined(node, "agent", at, by=as_nobody()) as agent,
    ):
        is_complete(agent)
        assert Path(f"/proc/{agent.pid}").stat().st_uid != 0
        assert rights_of(agent.pid) & ~_DAC_READ_SEARCH == 0
        assert not rights_of(sensor.pid) & _SYS_ADMIN
        assert not any(rights_of(pid) & _SYS_ADMIN for pid in sensor.descendants())
        node.inject_xid(0, 79)
        agent.wait_count(79, 1)


def test_a_stranger_may_not_use_the_socket(node: SimulatedNode) -> None:
    folder = folder_of_both(node)
    with Confined(node, "sensor", f"--sensor-socket={folder}/sensor.sock"):
        wait_for((folder / "sensor.sock").exists)
        assert (folder / "sensor.sock").stat().st_mode & 0o007 == 0
        assert (folder / "sensor.sock").stat().st_gid == folder.stat().st_gid


def test_on_a_read_only_root_only_the_sockets_folder_is_written(node: SimulatedNode) -> None:
    folder = folder_of_both(node)
    at = f"--sensor-socket={folder}/sensor.sock"
    with Confined(node, "run", at, by=read_only(but=folder)) as exporter:
        is_complete(exporter)
        assert [path.name for path in folder.iterdir()] == ["sensor.sock"]
        assert "Read-only file system" not in exporter.logged()


def test_nothing_is_written_to_any_file_so_a_full_disk_is_no_matter(node: SimulatedNode) -> None:
    out, into = os.pipe()
    # A page, which the shared memory for call notes has.
    with Confined(node, "run", log=into, by=without_room(4096)) as exporter:
        os.close(into)
        is_complete(exporter)
        node.inject_xid(0, 79)
        exporter.wait_count(79, 1)
        pids = [exporter.pid, *exporter.descendants()]
        assert len(pids) == 3
        assert [file for pid in pids for file in _open_for_writing(pid)] == []
    os.close(out)


def _open_for_writing(pid: int) -> list[str]:
    found: list[str] = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        # One that is closed meanwhile, as of a scrape that was answered, is no file.
        with contextlib.suppress(FileNotFoundError):
            target = str(link.readlink())
            reported = Path(f"/proc/{pid}/fdinfo/{link.name}").read_text(encoding="ascii")
            flags = int(reported.split("flags:")[1].split()[0], 8)
            if target.startswith("/") and flags & _WRITING and not target.startswith("/memfd:"):
                found.append(target)
    return [path for path in found if path != "/dev/null"]
