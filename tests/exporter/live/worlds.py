"""Nodes in every state that a cluster has, for the exporters that are scraped together."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from simulator import holdings
from simulator.dcgm_engine import SimulatedDcgm
from simulator.gpu import Failure
from simulator.node import SimulatedNode
from tests.exporter.live.stage import NVML_UP

SEVEN = ["1g.10gb"] * 7
PROFILING_ROWS = "DCGM_FI_DEV_GPU_TEMP,gauge,t\nDCGM_FI_PROF_PIPE_TENSOR_ACTIVE,gauge,p\n"
_HUNG = 'draguard_source_hang_info{gpu="1"'
_LIBRARY_MISSING = 'draguard_source_up{source="nvml",reason="LibraryNotFound"} 0'


def _nothing(_: SimulatedNode) -> None: ...


class World(NamedTuple):
    """One node and its exporter; `counts` are the series that each family must have."""

    gpus: str = "8xH100"
    mig: Mapping[int, Sequence[str]] | None = None
    flags: tuple[str, ...] = ()
    role: str = "run"
    arrange: Callable[[SimulatedNode], None] = _nothing
    happens: Callable[[SimulatedNode], None] | None = None
    """What comes to pass once the exporter has seen the node in order."""
    dcgm: Callable[[SimulatedDcgm], None] | None = None
    shows: tuple[str, ...] = (NVML_UP,)
    counts: Mapping[str, int] = {}
    joined: bool = False
    """Whether it has an API server, with its ResourceSlices."""


def _xid_79(node: SimulatedNode) -> None:
    node.lose(3)
    node.inject_xid(3, 79, nvml=False)


def _hung(node: SimulatedNode) -> None:
    node.hang(1, "nvmlDeviceGetTemperature")


def _unloaded(node: SimulatedNode) -> None:
    node.set_node_failure(Failure("error", 9))


def _all_lost(node: SimulatedNode) -> None:
    for number in range(len(node.scenario.load().gpus)):
        node.lose(number)


def _no_kubelet(node: SimulatedNode) -> None:
    node.kubelet.stop()


def _no_profiling_in_nvml(node: SimulatedNode) -> None:
    (node.root / "counters.csv").write_text(PROFILING_ROWS, encoding="utf-8")


def _well(_: SimulatedDcgm) -> None: ...


def _dead(dcgm: SimulatedDcgm) -> None:
    dcgm.fail("error=-3")


def _held(node: SimulatedNode) -> None:
    """Give every slice to a pod of its own, by a claim."""
    devices = [device for part in node.slices() for device in part["spec"]["devices"]]
    node.kubelet.set_pods(
        holdings.pod(
            f"infer-{number}",
            holdings.container(
                claims=[
                    holdings.claim(
                        f"part-{number}",
                        holdings.resource(device["name"], node.name, claim_uid=f"uid-{number}"),
                    )
                ]
            ),
        )
        for number, device in enumerate(devices)
    )


WORLDS: Mapping[str, World] = {
    "healthy": World(counts={"DCGM_FI_DEV_GPU_TEMP": 8, "draguard_gpu_up": 8}),
    "mig-mixed": World(
        "4xH100",
        {1: SEVEN, 2: ["4g.40gb", "3g.40gb"], 3: []},
        counts={"DCGM_FI_DEV_FB_FREE": 11, "draguard_mig_slice_info": 9, "draguard_gpu_up": 4},
    ),
    "xid-79": World(
        happens=_xid_79,
        shows=('presence="Lost",reason="GpuIsLost"', 'code="79"'),
        counts={"DCGM_FI_DEV_GPU_TEMP": 7, "draguard_gpu_up": 8, "draguard_xid_errors_total": 1},
    ),
    "hung": World(
        "3xH100",
        happens=_hung,
        # Not SOON: a dozen exporters start at once, and a GPU that was late then would stay away.
        flags=("--hang-retry=600",),
        shows=(_HUNG, NVML_UP),
        counts={"DCGM_FI_DEV_GPU_TEMP": 2, "draguard_gpu_up": 3, "draguard_source_hang_info": 1},
    ),
    "no-driver": World(
        "1xH100",
        flags=("--nvml-library-dir=/nowhere",),
        shows=(_LIBRARY_MISSING,),
        counts={"DCGM_FI_DEV_GPU_TEMP": 0, "draguard_gpus_seen": 0},
    ),
    "not-loaded": World(
        "1xH100",
        arrange=_unloaded,
        shows=('draguard_source_up{source="nvml",reason="DriverNotLoaded"} 0',),
        counts={"DCGM_FI_DEV_GPU_TEMP": 0},
    ),
    "all-lost": World(
        happens=_all_lost,
        shows=('presence="Lost",reason="GpuIsLost"',),
        counts={"DCGM_FI_DEV_GPU_TEMP": 0, "draguard_gpu_up": 8, "draguard_gpu_missing": 8},
    ),
    "lost-before": World(
        "2xH100",
        arrange=_all_lost,
        counts={"draguard_gpu_up": 0, "draguard_gpus_seen": 1, "DCGM_FI_DEV_GPU_TEMP": 0},
    ),
    "no-sensor": World(
        "1xH100",
        role="agent",
        shows=("draguard_source_up", "draguard_exporter_build_info"),
        counts={"DCGM_FI_DEV_GPU_TEMP": 0, "draguard_gpu_up": 0},
    ),
    "no-kubelet": World(
        "2xH100",
        arrange=_no_kubelet,
        shows=(NVML_UP, 'draguard_source_up{source="podresources",reason="NotFound"} 0'),
        counts={"DCGM_FI_DEV_GPU_TEMP": 2},
    ),
    "dcgm": World(
        "2xA100",
        arrange=_no_profiling_in_nvml,
        flags=("--dcgm=embedded", "--collectors={root}/counters.csv"),
        dcgm=_well,
        shows=(NVML_UP, 'draguard_source_up{source="dcgm"} 1', "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{"),
        counts={"DCGM_FI_DEV_GPU_TEMP": 2, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 2},
    ),
    "dcgm-dead": World(
        "2xH100",
        flags=("--dcgm=embedded",),
        dcgm=_dead,
        shows=(NVML_UP, 'draguard_source_up{source="dcgm",reason='),
        counts={"DCGM_FI_DEV_GPU_TEMP": 2},
    ),
    "56-slices": World(
        "8xH100",
        dict.fromkeys(range(8), SEVEN),
        arrange=_held,
        flags=("--no-report",),
        shows=(NVML_UP, 'pod="infer-55"', 'dra_claim_name="part-55"'),
        counts={"DCGM_FI_DEV_FB_USED": 56, "draguard_device_allocation_info": 56},
        joined=True,
    ),
}
