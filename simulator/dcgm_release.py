"""Which DCGM a simulated one is: its version, and what releases do differently."""

from typing import Literal

from simulator.dcgm_file import DcgmFile


class DcgmRelease:
    """Of all engines of a node."""

    def __init__(self, file: DcgmFile) -> None:
        self._file = file

    def set_version(self, version: str) -> None:
        """Be another release of DCGM, such as `4.3.2`."""
        self._file.set("engine", "version", version)

    def ignore_xid_119(self) -> None:
        """Be a DCGM that goes on after XID 119."""
        self._file.set("engine", "xid_119", "ignored")

    def list_links(self) -> None:
        """Be a DCGM that lists NVLinks as entities; 4.6.0 refuses."""
        self._file.set("engine", "links", "listed")

    def first_sample(self, kind: Literal["read", "blank", "late"]) -> None:
        """Say what a watch gives first: the value, N/A, or nothing before the next update."""
        self._file.set("engine", "first_sample", kind)

    def without_switch_module(self) -> None:
        """Be a DCGM that cannot load what lists NVSwitches."""
        self._file.set("engine", "nvswitch", "missing")

    def without_cpu_serials(self) -> None:
        """Be an engine from before the second version of dcgmGetCpuHierarchy."""
        self._file.set("engine", "cpu_hierarchy", "v1")
