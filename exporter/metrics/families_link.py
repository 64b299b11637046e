"""Families on NVLinks and the fabric that they make. Pure."""

from collections.abc import Iterator, Mapping

from exporter.metrics import labels
from exporter.metrics.families_gpu import GPU, number, of_gpus
from exporter.metrics.metric import Metric, Sample
from exporter.metrics.view import View

_ALWAYS: Mapping[int, str] = {
    1525: "crc_flit",
    1526: "crc_data",
    1527: "replay",
    1528: "recovery",
}
_LINK_ERRORS: Mapping[int, str] = {
    **_ALWAYS,
    1204: "malformed",
    1205: "overrun",
    1206: "receive",
    1207: "receive_remote",
    1208: "receive_general",
    1209: "integrity",
    1210: "discard",
    1212: "recovery_failed",
    1214: "symbol",
    1219: "effective",
}
"""Those since NVLink 5 are read where the counters file names their field, which is the GPU's."""
NEEDED: tuple[int, ...] = tuple(_ALWAYS)
"""DCGM fields that these families read, whatever the counters file says."""


def _links_up(view: View) -> Iterator[Sample]:
    names = view.names
    for row in view.links:
        if row.link and row.link.up is not None and row.gpu.uuid in names:
            named = labels.text((("link", str(row.link.link)),))
            yield labels.joined(names[row.gpu.uuid], named), int(row.link.up)


def _link_errors(view: View) -> Iterator[Sample]:
    names = view.names
    for row in view.links:
        for field, kind in _LINK_ERRORS.items():
            read = row.link.values.get(field) if row.link else None
            if row.link and isinstance(read, int) and row.gpu.uuid in names:
                named = labels.text((("link", str(row.link.link)), ("kind", kind)))
                yield labels.joined(names[row.gpu.uuid], named), read


def _fabric_info(view: View) -> Iterator[Sample]:
    names = view.names
    for row in view.gpus:
        fabric = row.gpu.fabric
        if fabric is not None and row.gpu.uuid in names:
            named = ("cluster_uuid", fabric.cluster_uuid), ("clique", number(fabric.clique))
            yield labels.joined(names[row.gpu.uuid], labels.text(named)), 1


METRICS: tuple[Metric, ...] = (
    Metric(
        name="draguard_nvlink_up",
        type="gauge",
        help="1: the NVLink is up.",
        labels=(*GPU, "link"),
        source="nvmlDeviceGetNvLinkState",
        samples=_links_up,
    ),
    Metric(
        name="draguard_nvlink_errors_total",
        type="counter",
        help="NVLink errors by link and kind: crc_flit, crc_data, replay, recovery; since NVLink 5 "
        "and where the counters file names the field malformed, overrun, receive, receive_remote, "
        "receive_general, integrity, discard, recovery_failed, symbol, effective.",
        labels=(*GPU, "link", "kind"),
        source="nvmlDeviceGetNvLinkErrorCounter (DCGM 1525 to 1528), "
        "NVML_FI_DEV_NVLINK_COUNT_* by link (DCGM 1204 to 1219)",
        samples=_link_errors,
    ),
    Metric(
        name="draguard_fabric_state",
        type="gauge",
        help="Registration with the NVLink fabric: 0 not supported, 1 not started, 2 in progress, "
        "3 completed.",
        labels=GPU,
        source="nvmlDeviceGetGpuFabricInfoV",
        samples=of_gpus(lambda row: row.gpu.fabric and row.gpu.fabric.state),
    ),
    Metric(
        name="draguard_fabric_status",
        type="gauge",
        help="Result of the registration with the NVLink fabric (nvmlReturn_t, 0 is success).",
        labels=GPU,
        source="nvmlDeviceGetGpuFabricInfoV",
        samples=of_gpus(lambda row: row.gpu.fabric and row.gpu.fabric.status),
    ),
    Metric(
        name="draguard_fabric_health",
        type="gauge",
        help="Health of the NVLink fabric as the GPU sees it: 0 not supported, 1 healthy, 2 "
        "unhealthy, 3 limited capacity.",
        labels=GPU,
        source="nvmlDeviceGetGpuFabricInfoV (DCGM 175)",
        samples=of_gpus(lambda row: row.gpu.fabric and row.gpu.fabric.health_summary),
    ),
    Metric(
        name="draguard_fabric_info",
        type="gauge",
        help="Cluster and clique of the NVLink fabric that the GPU is in.",
        labels=(*GPU, "cluster_uuid", "clique"),
        source="nvmlDeviceGetGpuFabricInfoV (DCGM 172, 173)",
        samples=_fabric_info,
    ),
)
