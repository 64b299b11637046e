"""What commands read of a cluster, as the API server stores it at one moment. Values only. Pure."""

from datetime import datetime

import msgspec

from exporter.model.node_health import NodeDeviceHealth
from exporter.model.resource_slices import ResourceSlice
from kubeapi.lease import Lease
from remediator.controller.feature_gates import StatedRule
from remediator.model.claim import Claim
from remediator.model.incident import Incident
from remediator.model.node import RawNode


class Objects(msgspec.Struct, frozen=True, kw_only=True):
    """What was not requested is empty."""

    server: str
    at: datetime
    """When it was read, by the server's clock where that tells, else by ours."""
    reports: tuple[NodeDeviceHealth, ...] = ()
    incidents: tuple[Incident, ...] = ()
    dra_version: str | None = None
    """Of ResourceSlice; None where the cluster has no Dynamic Resource Allocation."""
    slices: tuple[ResourceSlice, ...] = ()
    claims: tuple[Claim, ...] = ()
    rule_version: str | None = None
    """Of DeviceTaintRule; None where rules are not served."""
    rules: tuple[StatedRule, ...] = ()
    leases: tuple[Lease, ...] = ()
    nodes: tuple[RawNode, ...] = ()
    stopped: str = ""
    """Who pulled the emergency stop and why."""
    unseen: tuple[str, ...] = ()
    """What could not be read and is gone on without, each in a sentence: a right is missing, or
    the namespace."""
    missing: frozenset[str] = frozenset()
    """Names of those, as they were requested: their fields are empty and mean nothing."""
    unreadable: tuple[str, ...] = ()
    """Collections with objects that were left out: how many, and some names."""
