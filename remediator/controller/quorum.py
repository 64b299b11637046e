"""The last look before a disruption: its facts are read from the API server anew.

A watch may lag behind unnoticed. Before pods are evicted or a node's repair is called for, the
node's ResourceSlices are listed and the claims on the devices are read, without a resourceVersion,
so that the answer is the newest that is stored.
"""

from collections.abc import Mapping

import msgspec

from exporter.model.device import Device
from exporter.model.resource_slices import ResourceSlice, SliceDevice, incomplete, inventory
from kubeapi.client import UNREADABLE, ApiError, Client, NotFound
from remediator.controller.versions import GROUP, Versioned
from remediator.model.claim import Claim
from remediator.plan.view import NodeView


class _Slices(msgspec.Struct, frozen=True):
    items: tuple[ResourceSlice, ...] = ()


class Quorum:
    def __init__(
        self, client: Client, slices: Versioned[ResourceSlice], claims: Versioned[Claim]
    ) -> None:
        self._client, self._slices, self._claims = client, slices, claims

    def differs(self, view: NodeView, devices: frozenset[Device]) -> str:
        """Return what is otherwise than in the view, or cannot be read; "" when all is as seen."""
        try:
            return self._slices_differ(view, devices) or self._claims_differ(view, devices)
        except ApiError as error:
            what = error.status or "no answer"
            return f"ResourceSlices and claims could not be read before the disruption ({what})"
        except UNREADABLE:
            return "ResourceSlices and claims could not be decoded before the disruption"
        except LookupError as error:
            return str(error)

    def _slices_differ(self, view: NodeView, devices: frozenset[Device]) -> str:
        params = {"fieldSelector": f"spec.nodeName={view.node}"}
        stored = msgspec.json.decode(self._client.get(self._slices.path, params), type=_Slices)
        pools = {(device.driver, device.pool) for device in devices}
        if pools & incomplete(stored.items):
            return f"the devices of {view.node} are being published anew"
        if _hardware(inventory(stored.items, view.inventory)) != _hardware(view.inventory):
            return f"{view.node} publishes other devices than the watch reported"
        return ""

    def _claims_differ(self, view: NodeView, devices: frozenset[Device]) -> str:
        for claim in view.claims:
            if not any(result.name in devices for result in claim.results):
                continue
            meta = claim.metadata
            name = f"{meta.namespace}/{meta.name}"
            path = f"/apis/{GROUP}/{self._claims.version}/namespaces/{meta.namespace}"
            try:
                raw = self._client.get(f"{path}/resourceclaims/{meta.name}")
            except NotFound:
                return f"claim {name} is gone, and the watch has not reported it"
            if msgspec.json.decode(raw, type=Claim).status != claim.status:
                return f"claim {name} differs from what the watch reported"
        return ""


def _hardware(devices: tuple[SliceDevice, ...]) -> Mapping[Device, tuple[str | None, str | None]]:
    return {device.device: (device.uuid, device.parent_uuid) for device in devices}
