"""The last look before a disruption or an untaint: its facts are read from the API server anew.

A watch may lag behind unnoticed. So before pods are evicted or a node's repair is requested, this
module reads the node's report and ResourceSlices, the claims on the devices, the intents for their
GPUs and the emergency stop. It sends no resourceVersion, so each answer is the newest state. It
reads intents and stop again before an eviction that has begun is requested once more. Before a
recovered GPU is untainted, it reads the node's report and the GPU's incident.
"""

from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Protocol

import msgspec

from exporter.model.device import NVIDIAS, Device, GpuDrivers
from exporter.model.node_health import NodeDeviceHealth, NodeHealth
from exporter.model.resource_slices import (
    PoolKey,
    ResourceSlice,
    SliceDevice,
    incomplete,
    inventory,
)
from kubeapi.client import UNREADABLE, ApiError, NotFound
from kubeapi.resources import INCIDENTS, REPORTS
from kubeapi.versions import GROUP
from remediator.model.claim import Claim, unreported_claims
from remediator.model.incident import Incident
from remediator.model.pod import PodFacts
from remediator.plan.steps import Disruption
from remediator.plan.view import NodeView

MOST_UNREPORTED = 128
"""Claims of a node's pods that are read beside those that the watch has reported. Those of other
drivers are among them, and a tenant's pods may name any number."""


STALLED_AFTER = 300.0
"""Seconds after which a driver that has published only a part of a pool is taken to be away, such
as one that cannot start because a GPU is lost. Nothing is allocated from such a pool, so the claims
on it are those that the watches reported."""


class _Slices(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] = ()


class _Spec(msgspec.Struct, frozen=True):
    driver: str


class _Published(msgspec.Struct, frozen=True):
    """What is read of a slice of any driver."""

    spec: _Spec


class _Reports(msgspec.Struct, frozen=True):
    items: tuple[NodeDeviceHealth, ...] = ()


class _Incidents(msgspec.Struct, frozen=True):
    items: tuple[Incident, ...] = ()


class Reader(Protocol):
    """The API server, as a last look reads it."""

    def get(self, path: str, params: Mapping[str, str] | None = None, /) -> bytes: ...


class Served(Protocol):
    """A kind in the version that is served now."""

    version: str | None

    @property
    def path(self) -> str: ...


class Pods(Protocol):
    """The pods of nodes, as a last look lists them."""

    def list_newest(self, node: str, /) -> tuple[PodFacts, ...] | None: ...


class Stop(Protocol):
    """The emergency stop, as a last look reads it."""

    def read_stop(self) -> str: ...


class FinalCheck:
    def __init__(  # noqa: PLR0917 - the five things that are read
        self,
        reader: Reader,
        slices: Served,
        claims: Served,
        pods: Pods,
        stop: Stop,
        drivers: GpuDrivers = NVIDIAS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._drivers, self._clock = drivers, clock
        self._partial: dict[PoolKey, tuple[frozenset[tuple[str, str]], float]] = {}
        """Pools of which a part is published: which slices, and since when they have been so."""
        self._reader, self._slices, self._claims = reader, slices, claims
        self._pods, self._stop = pods, stop

    def differs(self, view: NodeView, begins: Disruption) -> str:
        """Return what differs from the view, or cannot be read; "" when all is as seen.

        A repair of the node disrupts all its GPUs and pods. These may hold other devices, and may
        have been listed some seconds ago.
        """
        devices = begins.devices
        step = "untaint" if begins.untainted else "disruption"
        if begins.repair:
            devices |= {device.device for device in view.slices.devices if not device.foreign}
            if why := self._pods_differ(view):
                return why
        try:
            return (
                self._begun_differs(view, devices, begins)
                or self._intents_differ(view, devices | begins.of_intents, every=begins.repair)
                or self._recovery_differs(view, begins.untainted)
            )
        except ApiError as error:
            what = error.status or "no answer"
            return f"what it rests on could not be read before the {step} ({what})"
        except UNREADABLE:
            return f"what it rests on could not be decoded before the {step}"
        except LookupError as error:
            return str(error)

    def _begun_differs(self, view: NodeView, devices: frozenset[Device], begins: Disruption) -> str:
        if not (begins.devices or begins.repair):
            return ""
        return (
            self._slices_differ(view, devices)
            or self._claims_differ(view, devices)
            or self._report_differs(view)
        )

    def _recovery_differs(self, view: NodeView, untainted: frozenset[str]) -> str:
        """Return what speaks against an untaint: a newer report, or incident."""
        if not untainted:
            return ""
        for incident in view.stored.incidents:
            if incident.name in untainted:
                stored = self._incident(incident.name)
                seen = incident.metadata.resource_version
                if [each.metadata.resource_version for each in stored] != [seen]:
                    return f"incident {incident.name} differs from what the watch reported"
        return self._report_differs(view)

    def _report_differs(self, view: NodeView) -> str:
        """Return that a node's report differs in what a policy acts on; "" if it does not."""
        only = {"fieldSelector": f"metadata.name={view.node}"}
        answer = self._reader.get(REPORTS, only)
        stored = msgspec.json.decode(answer, type=_Reports).items
        seen = (view.agent.report,) if view.agent.report else ()
        if [_content(each.status) for each in stored] != [_content(report) for report in seen]:
            return f"the report of {view.node} differs from what the watch reported"
        return ""

    def _slices_differ(self, view: NodeView, devices: frozenset[Device]) -> str:
        params = {"fieldSelector": f"spec.nodeName={view.node}"}
        answer = msgspec.json.decode(self._reader.get(self._slices.path, params), type=_Slices)
        # A foreign driver may publish anything, as often as it likes, and defers nothing by it.
        stored = [
            msgspec.json.decode(raw, type=ResourceSlice)
            for raw in answer.items
            if msgspec.json.decode(raw, type=_Published).spec.driver in self._drivers
        ]
        if self._are_published_anew(stored, devices):
            return f"the devices of {view.node} are being published anew"
        found = inventory(stored, self._drivers, view.slices.inventory)
        if _hardware(found) != _hardware(view.slices.inventory):
            return f"{view.node} publishes other devices than the watch reported"
        return ""

    def _are_published_anew(
        self, stored: Iterable[ResourceSlice], devices: Iterable[Device]
    ) -> bool:
        """Whether a driver is about to publish devices: it may give their names to others."""
        partial, now, begun = incomplete(stored), self._clock(), False
        for key in {(name.driver, name.pool) for name in devices}:
            there = partial.get(key)
            before, since = self._partial.pop(key, (None, now))
            if there is not None:
                since = since if before == there else now
                self._partial[key] = there, since
                begun |= now - since < STALLED_AFTER
        return begun

    def _pods_differ(self, view: NodeView) -> str:
        pods = self._pods.list_newest(view.node)
        if pods is None:
            return f"the pods of {view.node} could not be listed before the disruption"
        known = {pod.uid for pod in view.usage.pods or ()}
        late = next((pod for pod in pods if pod.running and pod.uid not in known), None)
        return f"pod {late.namespace}/{late.name} has come to {view.node} since" if late else ""

    def _claims_differ(self, view: NodeView, devices: frozenset[Device]) -> str:
        known = {
            (claim.metadata.namespace, claim.metadata.name): claim for claim in view.usage.claims
        }
        here = {
            key: claim
            for key, claim in known.items()
            if any(result.name in devices for result in claim.results)
        }
        for (namespace, name), claim in here.items():
            stored = self._claim(namespace, name)
            if stored is None:
                return f"claim {namespace}/{name} is gone, and the watch has not reported it"
            if stored.status != claim.status:
                return f"claim {namespace}/{name} differs from what the watch reported"
        # Pods are listed, so they show claims that a watch of claims has not reported yet.
        # A claim that is as reported needs no second look: a pod that only waits for it names it.
        named = [
            key
            for key in unreported_claims(known.values(), view.usage.pods or ())
            if key not in here
        ]
        for namespace, name in named[:MOST_UNREPORTED]:
            stored = self._claim(namespace, name)
            if stored and any(result.name in devices for result in stored.results):
                return f"claim {namespace}/{name} has not been reported by the watch"
        return ""

    def _intents_differ(self, view: NodeView, devices: frozenset[Device], *, every: bool) -> str:
        """Return what a user has written meanwhile: the emergency stop, a hold, another intent."""
        if not (devices or every):
            return ""
        if stopped := self._stop.read_stop():
            return f"the emergency stop is set: {stopped}"
        known = {part.device: part for part in view.slices.devices if part.device in devices}
        gpus = {part.parent_uuid or part.uuid for part in known.values()}
        gpus |= {rule.gpu for rule in view.stored.rules if rule.device in devices}
        for incident in view.stored.incidents:
            scope = {target.name for target in incident.status.scope.devices}
            concerned = every or incident.spec.uuid in gpus or scope & devices
            # The intents of a closed duplicate count for the incident that goes on.
            if concerned and (incident.open or incident.status.history.duplicate_of):
                stored = self._incident(incident.name)
                if [each.spec for each in stored] != [incident.spec]:
                    return f"incident {incident.name} differs from what the watch reported"
        return ""

    def _incident(self, name: str) -> tuple[Incident, ...]:
        answer = self._reader.get(INCIDENTS, {"fieldSelector": f"metadata.name={name}"})
        return msgspec.json.decode(answer, type=_Incidents).items

    def _claim(self, namespace: str, name: str) -> Claim | None:
        """Return a claim as it is stored; None where there is none."""
        path = f"/apis/{GROUP}/{self._claims.version}/namespaces/{namespace}"
        try:
            raw = self._reader.get(f"{path}/resourceclaims/{name}")
        except NotFound:
            return None
        return msgspec.json.decode(raw, type=Claim)


def _content(report: NodeHealth) -> str | NodeHealth:
    """Return what decisions read of a report: its hash leaves out when each value was read."""
    return report.content_hash or report


def _hardware(devices: tuple[SliceDevice, ...]) -> Mapping[Device, tuple[str | None, str | None]]:
    return {
        device.device: (device.uuid, device.parent_uuid) for device in devices if not device.foreign
    }
