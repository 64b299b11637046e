"""Devices that a claim holds and no process uses. Pure."""

from dashboards import links, stats
from dashboards.panel import Column, Query, Stat, Table
from dashboards.promql import (
    DEVICE_KEY,
    FLEET,
    busy,
    holders,
    of_cluster,
    of_holders,
    once,
)

WINDOW = "1h"
BELOW = 0.01


def _idle() -> str:
    """Return claims whose device was idle for the window and was already theirs at its start."""
    share = once("Hostname, UUID, gpu, GPU_I_ID", f"({busy(FLEET, WINDOW)})")
    # For some minutes after its number changes, a GPU has series with both numbers.
    idle = of_holders(f"topk by ({DEVICE_KEY}) (1, {share}) < {BELOW}", holders(), "gpu")
    same = f"{DEVICE_KEY}, dra_claim_namespace, dra_claim_name"
    return f"({idle}) and on ({same}) {holders(ago=WINDOW)}"


def count() -> Stat:
    return stats.number(
        "Idle devices",
        f"Devices allocated to a claim for {WINDOW} with an average utilization below "
        f"{BELOW:.0%}. The table below lists them with their claims.",
        f"count({_idle()}) or 0 * count({of_cluster('draguard_gpu_info')})",
        stats.NOTABLE,
        empty="no exporter data",
    )


def table() -> Table:
    return Table(
        title="Allocated but idle",
        says=f"Claims with a device allocated for {WINDOW} and an average utilization below "
        f"{BELOW:.0%}. A shared device has one line for each claim. Devices that report no "
        "utilization are left out.",
        queries=(Query(expr=_idle(), value="busy", empty="every allocated device is used"),),
        none="None (unknown for devices without utilization data)",
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="dra_claim_namespace", title="Namespace"),
            Column(source="dra_claim_name", title="Claim", links=(links.TO_CLAIM,)),
            Column(source="Hostname", title="Node", links=(links.TO_NODE,)),
            Column(source="gpu", title="GPU", links=(links.TO_DEVICE,)),
            Column(source="UUID", title="UUID", hidden=True),
            Column(source="GPU_I_ID", title="Slice", none="whole GPU"),
            Column(source="busy", title="Utilization", unit="percentunit", decimals=2, width=100),
        ),
        sort="Utilization",
        width=14,
        height=6,
    )
