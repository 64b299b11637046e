"""Devices that a claim holds and nobody uses. Pure."""

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
    """Claims on devices that did nothing for the window, and that they held at its start."""
    share = once("Hostname, UUID, gpu, GPU_I_ID", f"({busy(FLEET, WINDOW)})")
    # One that got another number has two for minutes.
    idle = of_holders(f"topk by ({DEVICE_KEY}) (1, {share}) < {BELOW}", holders(), "gpu")
    same = f"{DEVICE_KEY}, dra_claim_namespace, dra_claim_name"
    return f"({idle}) and on ({same}) {holders(ago=WINDOW)}"


def count() -> Stat:
    return stats.number(
        "Idle devices",
        f"Devices that a claim has held for {WINDOW} and that computed less than {BELOW:.0%} of "
        "it. Which, and whose, is in the table below.",
        f"count({_idle()}) or 0 * count({of_cluster('draguard_gpu_info')})",
        stats.NOTABLE,
        empty="no exporter is heard of",
    )


def table() -> Table:
    return Table(
        title="Allocated, not used",
        says=f"Claims that have held a device for {WINDOW} while it computed less than "
        f"{BELOW:.0%} of the time. A shared device is listed once for each claim. Devices "
        "that tell no use are not judged.",
        queries=(Query(expr=_idle(), value="busy", empty="every held device is used"),),
        none="none, if devices tell their use",
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="dra_claim_namespace", title="Namespace"),
            Column(source="dra_claim_name", title="Claim", links=(links.TO_CLAIM,)),
            Column(source="Hostname", title="Node", links=(links.TO_NODE,)),
            Column(source="gpu", title="GPU", links=(links.TO_DEVICE,)),
            Column(source="UUID", title="UUID", hidden=True),
            Column(source="GPU_I_ID", title="Slice", none="whole GPU"),
            Column(source="busy", title="Computing", unit="percentunit", decimals=2, width=100),
        ),
        sort="Computing",
        width=14,
        height=6,
    )
