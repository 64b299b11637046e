"""Watches that show the cluster as it was, before an API server that knows how it is."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from exporter.model.node_health import NodeHealth
from exporter.model.resource_slices import PoolKey, SliceDevice
from kubeapi.client import NotFound
from kubeapi.resources import INCIDENTS, REPORTS
from remediator.controller.final_check import FinalCheck
from remediator.model.claim import Claim
from remediator.model.incident import Incident
from remediator.model.pod import PodFacts
from remediator.plan.events import Event
from remediator.plan.steps import Disruption, Step
from remediator.plan.view import Fleet, NodeView
from tests.chain.scene import resource_slice
from tests.remediator.builders import NODE, Stored
from tests.remediator.histories.machines import DRIVERS

GROUP = "/apis/resource.k8s.io/v1"
Json = dict[str, Any]


class Kind:
    """One kind of resource.k8s.io, as it is served."""

    version: str | None = "v1"

    def __init__(self, resource: str) -> None:
        self.path = f"{GROUP}/{resource}"


class Truth:
    """The API server that a last look reads: what is published, reported and claimed now, and by
    whom; and what users want."""

    def __init__(
        self,
        devices: tuple[SliceDevice, ...],
        claims: tuple[Claim, ...],
        pods: tuple[PodFacts, ...] | None,
        incidents: tuple[Incident, ...] = (),
        report: NodeHealth | None = None,
    ) -> None:
        self.devices, self.claims, self.pods = devices, claims, pods
        self.incidents, self.report = incidents, report

    def read_stop(self) -> str:
        return ""

    def _pools(self) -> dict[PoolKey, list[SliceDevice]]:
        found: dict[PoolKey, list[SliceDevice]] = {}
        for device in self.devices:
            name = device.device
            found.setdefault((name.driver, name.pool), []).append(device)
        return found

    def list_newest(self, node: str) -> tuple[PodFacts, ...] | None:
        assert node == NODE
        return self.pods

    def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        if path == f"{GROUP}/resourceslices":
            assert params == {"fieldSelector": f"spec.nodeName={NODE}"}
            slices = [_slice(pool, devices) for pool, devices in self._pools().items()]
            return msgspec.json.encode({"items": slices})
        if path == REPORTS:
            assert params == {"fieldSelector": f"metadata.name={NODE}"}
            found = [{"metadata": {"name": NODE}, "status": self.report}] if self.report else []
            return msgspec.json.encode({"items": found})
        if path == INCIDENTS:
            name = (params or {})["fieldSelector"].removeprefix("metadata.name=")
            found = [incident for incident in self.incidents if incident.name == name]
            return msgspec.json.encode({"items": found})
        for claim in self.claims:
            meta = claim.metadata
            if path == f"{GROUP}/namespaces/{meta.namespace}/resourceclaims/{meta.name}":
                return msgspec.json.encode(claim)
        raise NotFound(path, status=404)


def _slice(pool: PoolKey, devices: list[SliceDevice]) -> Json:
    """Return the slice of a driver, all of its pool."""
    made = resource_slice(NODE, devices)
    driver, name = pool
    spec = made["spec"] | {"driver": driver, "pool": made["spec"]["pool"] | {"name": name}}
    return made | {"spec": spec}


class LaggingCluster:
    """What the reconciler sees of a cluster of which the watches lag; its steps are only noted."""

    def __init__(self, stored: Stored, fleet: Fleet, seen: NodeView, truth: Truth) -> None:
        self._stored, self._fleet, self._seen = stored, fleet, seen
        self._truth = truth

    def confirm(self, view: NodeView, begins: Disruption, /) -> str:
        kinds = Kind("resourceslices"), Kind("resourceclaims")
        check = FinalCheck(self._truth, *kinds, self._truth, self._truth, DRIVERS)
        return check.differs(view, begins)

    def observe(self, node: str) -> NodeView:
        assert node == NODE
        return self._seen

    def fleet(self) -> Fleet:
        return self._fleet

    def apply(self, step: Step) -> None:
        """Leave it to the history, which judges a decision before its steps are taken."""

    def post(self, event: Event, now: datetime) -> None:
        """Tell nobody."""
