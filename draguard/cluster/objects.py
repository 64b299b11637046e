"""What commands read of a cluster, as the API server stores it at one moment. Values only. Pure."""

from datetime import datetime

import msgspec

from exporter.model.device import NVIDIAS, GpuDrivers
from exporter.model.node_health import NodeDeviceHealth
from exporter.model.resource_slices import ResourceSlice, SliceDevice, inventory
from kubeapi.lease import Lease
from remediator.controller.feature_gates import StatedRule
from remediator.model.claim import Claim
from remediator.model.incident import Incident
from remediator.model.node import RawNode


class Objects(msgspec.Struct, frozen=True, kw_only=True):
    """What was not requested is empty."""

    server: str
    at: datetime
    """When it was read: by the server's clock if that is known, else by the local clock."""
    reports: tuple[NodeDeviceHealth, ...] = ()
    incidents: tuple[Incident, ...] = ()
    dra_version: str | None = None
    """Of ResourceSlice; None where the cluster has no Dynamic Resource Allocation."""
    slices: tuple[ResourceSlice, ...] = ()
    gpu_drivers: GpuDrivers = NVIDIAS
    """Of the leader, as its Lease records them; else NVIDIA's are assumed."""
    assumed: str = ""
    """That and why, where it makes devices foreign; "" where it does not."""
    claims: tuple[Claim, ...] = ()
    rule_version: str | None = None
    """Of DeviceTaintRule; None where rules are not served."""
    rules: tuple[StatedRule, ...] = ()
    leases: tuple[Lease, ...] = ()
    nodes: tuple[RawNode, ...] = ()
    stopped: str = ""
    """The user and the reason of the emergency stop; "" if it is not set."""
    no_namespace: bool = False
    """Whether the namespace that was named as Draguard's does not exist."""
    unseen: tuple[str, ...] = ()
    """What could not be read, one sentence each: a missing right, a namespace that does not exist,
    or `assumed`."""
    missing: frozenset[str] = frozenset()
    """Collections that the caller may not read; their fields are empty and mean nothing."""
    unreadable: tuple[str, ...] = ()
    """Collections with objects that were left out: how many, and some names."""

    @property
    def rules_served(self) -> bool:
        """Whether DeviceTaintRules are served, as far as the caller may know."""
        return self.rule_version is not None or "rules" in self.missing

    def unread(self) -> frozenset[str]:
        """Return the collections that count devices of which not every object could be read."""
        resources = {
            "slices": "resourceslices",
            "claims": "resourceclaims",
            "rules": "devicetaintrules",
        }
        return frozenset(
            name
            for name, resource in resources.items()
            if name in self.missing or any(resource in text for text in self.unreadable)
        )

    def published(self) -> tuple[SliceDevice, ...]:
        """Return what the slices publish; see `foreign` of each device."""
        return inventory(self.slices, self.gpu_drivers)

    def gpus(self) -> tuple[SliceDevice, ...]:
        """Return what drivers of GPUs publish."""
        return tuple(part for part in self.published() if not part.foreign)
