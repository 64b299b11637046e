"""Panels on the holders of a device, and on its slices. Pure."""

from dashboards import links
from dashboards.panel import PLAIN, Column, Meaning, Query, Table
from dashboards.promql import Scope, numbered, once

_ROW = (
    "Hostname, UUID, GPU_I_PROFILE, GPU_I_ID, dra_claim_namespace, dra_claim_name, namespace, pod, "
    "admin"
)


_LOOKS_ON = (Meaning("true", "yes", PLAIN), Meaning("false", "no", PLAIN))


def holders_table(scope: Scope, *, matchers: str = "", height: int = 8) -> Table:
    """Return the pods on each device: by claim, and pods of the old device plugin."""
    rows = once(_ROW, scope.seen("draguard_device_allocation_info", matchers))
    queries = (Query(expr=numbered(rows, scope), value="one", empty="no device is allocated here"),)
    return Table(
        title="Device allocations",
        says="One line per pod and device, for claims and for nvidia.com/gpu. A shared device has "
        "several lines. Admin access: the claim only observes, such as for monitoring, and does "
        "not hold the device.",
        queries=queries,
        none="None (unknown without kubelet data)",
        columns=(
            Column(source="Hostname", title="Node", links=(links.TO_NODE,)),
            *links.GPU,
            Column(source="GPU_I_PROFILE", title="Profile", none="whole GPU"),
            Column(source="GPU_I_ID", title="Slice", none="-"),
            Column(source="namespace", title="Namespace", none="-"),
            Column(source="pod", title="Pod", none="-"),
            Column(
                source="dra_claim_name", title="Claim", none="no claim", links=(links.TO_CLAIM,)
            ),
            Column(source="dra_claim_namespace", title="Claim's namespace", hidden=True),
            Column(source="admin", title="Admin access", meanings=_LOOKS_ON, width=110),
        ),
        sort="GPU",
        rising=True,
        width=24,
        height=height,
    )


def slices_table(scope: Scope, *, width: int = 8, height: int = 7) -> Table:
    """Return the live slices with what they use."""
    key = "Hostname, UUID, GPU_I_PROFILE, GPU_I_ID"
    live = once(key, scope.seen("draguard_mig_slice_info"))
    used = once(key, scope.seen("DCGM_FI_DEV_FB_USED", 'GPU_I_ID!=""'))
    active = once(key, scope.seen("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 'GPU_I_ID!=""'))
    none = "no GPU here has slices"
    return Table(
        title="MIG slices",
        says="Live MIG slices: profile, instance, memory used, and utilization of their engines.",
        queries=(
            Query(expr=numbered(live, scope), value="one", empty=none),
            Query(expr=f"{used} * 1048576", value="memory", empty=none),
            Query(expr=active, value="busy", empty=f"{none}, or they report no utilization"),
        ),
        none="No slices (unknown while the GPU does not answer)",
        columns=(
            Column(source="Hostname", title="Node", hidden=True),
            *links.GPU,
            Column(source="GPU_I_PROFILE", title="Profile"),
            Column(source="GPU_I_ID", title="Slice"),
            Column(source="memory", title="Memory used", unit="bytes"),
            Column(source="busy", title="Utilization", unit="percentunit", decimals=1),
        ),
        width=width,
        height=height,
    )
