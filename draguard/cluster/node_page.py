"""Which devices the kubelet has given to a pod, and how they are used: its node's metrics page.

The page is the exporter's, and comes by the API server's proxy. Reads only; the one door to
prometheus_client's parser.
"""

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from allocation.model.device_use import DeviceUse
from allocation.model.pods import Pod
from draguard.cluster.installation import AGENT_ACCOUNT
from draguard.cluster.listing import listed
from draguard.cluster.own_pods import METRICS, OwnPod
from kubeapi.client import ApiError, Client

LIMIT = 5.0
"""Seconds for the page: without it, the answer lacks a detail."""
_GIVEN = "draguard_device_allocation_info"
_MEMORY = "draguard_pod_memory_used_bytes"
_SM = "draguard_pod_sm_utilization_ratio"
_UP = "draguard_source_up"
_MISSES = "draguard_join_misses"
_READ = (_GIVEN, _MEMORY, _SM, _UP, _MISSES)
_KUBELET = "podresources"
"""The source that says who has which device."""
_PARTS = ("driver", "pool", "device")
Row = tuple[Mapping[str, str], float]


def read_uses(client: Client, pod: Pod) -> tuple[DeviceUse, ...] | None:
    """Return the devices of a pod on a node; () if the kubelet has given it none.

    None: it is not known which pod is the exporter, or it does not know. Raises ApiError.
    """
    node, page = pod.spec.node_name, client.sibling(LIMIT)
    only = {"fieldSelector": f"spec.nodeName={node},spec.serviceAccountName={AGENT_ACCOUNT}"}
    try:
        ready = [each for each in listed(client, "/api/v1/pods", OwnPod, only)[0] if each.ready]
        # Any namespace may have an account of that name: of two pods, one is not the exporter.
        for name, path in ready[0].pages if len(ready) == 1 else ():
            if name == METRICS:
                where = f"/api/v1/namespaces/{ready[0].metadata.namespace}/pods/{path}"
                return uses_on(page.get(where).decode(errors="replace"), pod)
    except (ValueError, OverflowError) as error:
        raise ApiError(f"its page cannot be read ({error})") from error
    finally:
        page.close()
    return None


def uses_on(page: str, pod: Pod) -> tuple[DeviceUse, ...] | None:
    """Return what a page says of a pod. Raises ValueError."""
    rows = _rows(page)
    if not any(labels.get("source") == _KUBELET and value for labels, value in rows[_UP]):
        return None
    owned = [labels for labels, _ in rows[_GIVEN] if _is_of(labels, pod)]
    if not owned and any(value for _, value in rows[_MISSES]):
        return None
    memory, sm = (
        {_device(labels): value for labels, value in rows[name] if _is_of(labels, pod)}
        for name in (_MEMORY, _SM)
    )
    found: dict[str, DeviceUse] = {}
    for labels in owned:
        driver, pool, device = (labels.get(f"dra_{part}_name", "") for part in _PARTS)
        uuid, part = place = _device(labels)
        # A device plugin's has only the name of its resource.
        name = (
            f"{driver}/{pool}/{device}"
            if device
            else f"{labels.get('resource', '')} {part or uuid}"
        )
        used = memory.get(place)
        found[name] = DeviceUse(name, None if used is None else int(used), sm.get(place))
    return tuple(sorted(found.values()))


def _rows(page: str) -> dict[str, list[Row]]:
    """Return the samples of the families that are read; a page has thousands of others."""
    lines = (line for line in page.splitlines() if line.startswith(_READ))
    found: dict[str, list[Row]] = {name: [] for name in _READ}
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            if sample.name in found:
                found[sample.name].append((sample.labels, sample.value))
    return found


def _is_of(labels: Mapping[str, str], pod: Pod) -> bool:
    """Return whether a row is of a pod, and not of an earlier one of its name."""
    named = _either(labels, "namespace", "pod_namespace"), _either(labels, "pod", "pod_name")
    return named == (pod.metadata.namespace, pod.metadata.name) and labels.get("pod_uid", "") in {
        "",
        pod.metadata.uid,
    }


def _device(labels: Mapping[str, str]) -> tuple[str, str]:
    return _either(labels, "UUID", "uuid"), labels.get("dra_mig_device_uuid", "")


def _either(labels: Mapping[str, str], name: str, old: str) -> str:
    """Return a label that has another name with the exporter's flag for old names."""
    return labels.get(name, "") or labels.get(old, "")
