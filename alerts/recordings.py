"""Recorded series: uniform label names, and amounts that are counted once when shared."""

from alerts.existing_nodes import NODE_THERE
from alerts.identity import BOARD, CLAIM, DEVICE, NODE, SLICE, by, of, on
from alerts.rule import Recording
from alerts.thresholds import RESTART

GPU_UP = "node_uuid:draguard_gpu_up:min"
LOST = "node_uuid:draguard_gpu_lost_timestamp_seconds:max"
SHOWN = "node:draguard_gpu_shown_timestamp_seconds:max"
RECOVERY = "node_uuid:draguard_gpu_recovery_action:max"
XID_SEEN = "node_uuid_code:draguard_xid_last_seen_timestamp_seconds:max"
GPUS = "cluster:draguard_gpus:count"
EXPECTED = "node:draguard_gpus_expected:max"
MISSING = "node_device:draguard_gpu_missing:max"
COUNTED = "node:draguard_gpus_shown:count"
EXPORTERS = "job:draguard_exporters:count"
REMEDIATORS = "job:draguard_remediators:count"
EXPLAINERS = "job:draguard_explainers:count"

_BUSY = "slice:draguard_busy:ratio"
_HELD = "claim_slice:draguard_allocated:bool"
_HELD_GPU = "claim_uuid:draguard_allocated:bool"
CLAIM_BUSY = "claim:draguard_busy:max"
USED = "claim_slice:draguard_memory_used_bytes:sum"
DECLARED = "claim_slice:draguard_memory_declared_bytes:sum"

_MEMORY_FOR = "1h"


def _known(name: str, info: str) -> str:
    """Count the targets of a job, also those that cannot be scraped.

    The job stays while none of its targets can be scraped, and goes when it is removed. Neither its
    name nor its existence has to be configured.
    """
    return (
        f"count by (cluster, job) ({info})\n"
        f"or last_over_time({name}[{_MEMORY_FOR}]) and on (cluster, job) up"
    )


def _memory(kind: str) -> str:
    """Add up a claim's shares of a device, each counted once however often it is scraped."""
    share = (*SLICE, *CLAIM[1:], "dra_device_name", "dra_share_id")
    return by((*SLICE, *CLAIM[1:]), of(share, f"draguard_claim_memory_{kind}_bytes"), "sum")


def _lost() -> str:
    """Keep the last state of a lost GPU until there is a newer one.

    A 0 ends it. Without the 0, the previous hour would count again when the exporter is gone.
    """
    before = f"last_over_time({LOST}[{_MEMORY_FOR}])"
    page = f"(\n    {GPU_UP}\n    or {of(NODE, 'draguard_gpus_seen')}\n  )"
    moved = f'{on(BOARD)} {GPU_UP}{{UUID!=""}} == 1'
    return (
        f"timestamp({GPU_UP} == 0)\n"
        f"or 0 * (\n  {before} > 0 and {on(NODE)} {page}\n)\n"
        f"or 0 * (\n  {before} > 0 and {moved}\n)\n"
        f"or {before} > time() - {RESTART}\n"
        f"or {before} and {on(NODE)} {NODE_THERE}"
    )


OF_SENSORS = (
    Recording(
        name=EXPORTERS,
        says="Exporters by scrape job; remembered while the job has targets.",
        expr=_known(EXPORTERS, "draguard_exporter_build_info"),
    ),
    Recording(
        name=SHOWN,
        says="When an exporter last showed a GPU of the node; remembered while the node exists. "
        "Absent where the exporters' targets have no label `node`.",
        expr=f'max by ({", ".join(NODE)}) (timestamp(draguard_gpu_info{{node!=""}}))\n'
        f"or last_over_time({SHOWN}[{_MEMORY_FOR}]) and {on(NODE)} {NODE_THERE}",
    ),
    Recording(
        name=EXPECTED,
        says="GPUs that a node should have, by PCI or by ResourceSlices; 0: known to have none.",
        expr=f"{of(NODE, 'draguard_gpus_expected')}\nor {of(NODE, 'draguard_gpus_seen')}",
    ),
)
"""For the alerts on exporters. Each group records its own series: no evaluation delay."""

OF_EXPLAINERS = (
    Recording(
        name=EXPLAINERS,
        says="Explainers by scrape job; remembered while the job has targets.",
        expr=_known(EXPLAINERS, "draguard_explainer_build_info"),
    ),
)

OF_REMEDIATORS = (
    Recording(
        name=REMEDIATORS,
        says="Remediators by scrape job; remembered while the job has targets.",
        expr=_known(REMEDIATORS, "draguard_remediator_build_info"),
    ),
    Recording(
        name=GPUS,
        says="GPUs of a cluster: seen by exporters, else as published. Absent where it has none.",
        expr="count by (cluster) (count by (cluster, UUID) (draguard_gpu_info))\n"
        "or sum by (cluster) (max by (cluster, driver, type, product, profile, state, taint) "
        "(draguard_devices)) > 0",
    ),
)

OF_DEVICES = (
    Recording(
        name=MISSING,
        says="1 for each GPU that a node should have but NVML does not list.",
        expr=of((*NODE, "device"), "draguard_gpu_missing"),
    ),
    Recording(
        name=COUNTED,
        says="GPUs that a node's exporter shows, including those lost since boot; 0 where it "
        "shows none.",
        expr=f"count by ({', '.join(NODE)}) ({of(DEVICE, 'draguard_gpu_info')})\n"
        f"or 0 * {of(NODE, 'draguard_gpus_expected')}",
    ),
    Recording(
        name=GPU_UP,
        says="1: the GPU answers. 0: it is lost or hangs. Absent: unknown.",
        expr=of(DEVICE, "draguard_gpu_up", "min"),
    ),
    Recording(
        name=LOST,
        says="When a GPU was last seen lost or hung; remembered for ten minutes, and while the "
        "node exists and no exporter reports its GPUs, nor this GPU on another node. 0: an "
        "exporter reported them.",
        expr=_lost(),
    ),
    Recording(
        name=RECOVERY,
        says="The driver's recovery action for the GPU, the highest value; 0: none.",
        expr=of(DEVICE, "draguard_gpu_recovery_action"),
    ),
    Recording(
        name=XID_SEEN,
        says="When a GPU last had an XID, on any of its slices.",
        expr=of((*DEVICE, "code"), "draguard_xid_last_seen_timestamp_seconds"),
    ),
)

OF_CLAIMS = (
    Recording(
        name=_HELD,
        says="1 for each claim and device (GPU or slice) that is allocated to it, however many "
        "containers and pods share the claim. Admin access does not count.",
        expr=of(
            (*SLICE, *CLAIM[1:]),
            'draguard_device_allocation_info{dra_claim_name!="",UUID!="",admin!="true"}',
        ),
    ),
    Recording(
        name=_HELD_GPU,
        says="1 for each claim and GPU that is allocated to it, whole or in part.",
        expr=by((*DEVICE, *CLAIM[1:]), _HELD),
    ),
    Recording(
        name=_BUSY,
        says="GPU utilization of a device, 0 to 1: DCGM's graphics engine activity, else NVML's "
        "coarser value, which slices do not have.",
        expr=f"{of(SLICE, 'DCGM_FI_PROF_GR_ENGINE_ACTIVE')}\n"
        f"or {of(SLICE, 'DCGM_FI_DEV_GPU_UTIL')} / 100",
    ),
    Recording(
        name=CLAIM_BUSY,
        says="Utilization of the busiest device of a claim. Absent if no device can be measured.",
        expr=by(CLAIM, f"{_HELD} * {on(SLICE)} group_left () {_BUSY}"),
    ),
    Recording(
        name="claim:draguard_power_watts:sum",
        says="Power of a claim's GPUs, each GPU's power divided evenly among its claims. The sum "
        "over claims never exceeds the power of the GPUs.",
        expr=by(
            CLAIM,
            f"{_HELD_GPU} * {on(DEVICE)} group_left () (\n    "
            f"{of(DEVICE, 'DCGM_FI_DEV_POWER_USAGE')}\n    "
            f"/ {on(DEVICE)} count by ({', '.join(DEVICE)}) ({_HELD_GPU})\n  )",
            "sum",
        ),
    ),
    Recording(
        name="claim:draguard_devices:sum",
        says="Devices (GPUs and slices) of a claim, shared devices in equal parts. The sum over "
        "claims is the number of allocated devices.",
        expr=by(
            CLAIM,
            f"{_HELD} / {on(SLICE)} group_left () count by ({', '.join(SLICE)}) ({_HELD})",
            "sum",
        ),
    ),
    Recording(
        name="namespace:draguard_devices:sum",
        says="The same by the namespace of the claims.",
        expr="sum by (cluster, dra_claim_namespace) (claim:draguard_devices:sum)",
    ),
    Recording(
        name=USED,
        says="Memory of a device that a claim uses; on a shared device, by its processes.",
        expr=_memory("used"),
    ),
    Recording(
        name=DECLARED,
        says="Memory of a device that a claim declared.",
        expr=_memory("declared"),
    ),
    Recording(
        name="claim:draguard_memory_used_bytes:sum",
        says="Memory that a claim uses on all its devices.",
        expr=f"sum by ({', '.join(CLAIM)}) ({USED})",
    ),
    Recording(
        name="claim:draguard_memory_declared_bytes:sum",
        says="Memory that a claim declared on all its devices.",
        expr=f"sum by ({', '.join(CLAIM)}) ({DECLARED})",
    ),
)
