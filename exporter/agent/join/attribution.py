"""Everything that says who holds what, kept current: slices, claims, pods, and their join."""

from collections.abc import Callable

from exporter.agent.join.bindings import (
    Bindings,
    bind,
    known_devices,
    reported_bindings,
    with_last_published,
)
from exporter.agent.join.claim_details import ClaimDetails
from exporter.agent.join.claims import Holders, Joiner, Known
from exporter.agent.join.pod_folders import PodFolders
from exporter.agent.join.pods import Pods
from exporter.agent.join.published import PublishedDevices
from exporter.agent.report.ledger import Published
from exporter.model.device import gpu_drivers
from exporter.model.hardware import of_report
from exporter.model.node_health import NodeHealth, SourceHealth
from exporter.model.readings import Observation
from exporter.settings import Settings
from kubeapi.client import Client


class Attribution:
    """Runs the watches that the settings ask for; without a client there are none.

    `on_change` is called on a watch's thread.
    """

    def __init__(
        self, settings: Settings, client: Client | None, on_change: Callable[[], None]
    ) -> None:
        self._resource_names = settings.nvidia_resource_names
        self._joiner = Joiner()
        api = client if settings.kubernetes else None
        self._drivers = drivers = gpu_drivers(settings.gpu_drivers)
        self._published, self._details = None, None
        if api:
            self._published = PublishedDevices(api, settings.node_name, on_change, drivers)
        if api and settings.claim_details:
            self._details = ClaimDetails(api, on_change, drivers)
        self._pods = _pods(settings, api, on_change)
        self._folders = _folders(settings)
        self._bindings: Bindings = {}
        self._parts = [watch for watch in (self._published, self._details, self._pods) if watch]

    def start(self) -> None:
        for part in self._parts:
            part.start()

    def stop(self) -> None:
        for part in self._parts:
            part.stop()

    def seen(self, observation: Observation) -> None:
        """Take note of what the kubelet names, so that its claims are read."""
        if self._details is not None and observation.containers is not None:
            self._details.want(observation.containers)

    def published(self) -> Published | None:
        """Return which GPUs the driver offers, None while that is not known."""
        return self._published.published() if self._published else None

    def adopt(self, report: NodeHealth) -> None:
        """Go on from the names that the agent before this one has reported."""
        self._bindings = {**reported_bindings(report), **self._bindings}

    def with_names(self, report: NodeHealth) -> NodeHealth:
        """Return the report with what its GPUs are called while nothing is published."""
        devices = self._published.devices() if self._published else ()
        if self._published and self._published.published() is not None:
            self._bindings = bind(self._bindings, devices, report)
        # Also where slices are not known (yet): names of a stored report may have lost their
        # hardware meanwhile.
        return with_last_published(report, self._bindings, devices)

    def holders(self, observation: Observation | None, report: NodeHealth) -> Holders:
        """Return who holds what as of an observation; nobody while there is none."""
        if observation is None or observation.containers is None:
            return Holders()
        published = self._published.devices() if self._published else ()
        known = Known(
            published=known_devices(self._bindings, published, report),
            hardware=of_report(report.gpus),
            details=self._details.details() if self._details else {},
            pods=self._pods.facts() if self._pods else {},
            uids=self._folders.uids() if self._folders else {},
            resource_names=self._resource_names,
            drivers=self._drivers,
        )
        return self._joiner.join(observation.containers, known)

    def sources(self) -> tuple[SourceHealth, ...]:
        parts = (*self._parts, *([self._folders] if self._folders else []))
        return tuple(part.source() for part in parts)


def _folders(settings: Settings) -> PodFolders | None:
    if settings.pod_log_dir is None or not (settings.kubernetes and settings.processes):
        return None
    return PodFolders(settings.pod_log_dir)


def _pods(settings: Settings, client: Client | None, on_change: Callable[[], None]) -> Pods | None:
    if client is None or not (settings.pod_labels or settings.pod_uid):
        return None
    return Pods(
        client,
        settings.node_name,
        on_change,
        labels=settings.pod_labels,
        allow=settings.pod_label_allow,
    )
