"""What the kernel reads of a GPU on PCI, into the report.

A GPU that reads ones fell off the bus; one that answered in this boot and is no
longer listed is gone from it. What was taken away on purpose, and what cannot be
read, is Unknown. Pure: time comes in.
"""

import msgspec

from exporter.agent.report import gpu_state
from exporter.agent.report.inventory import Bus
from exporter.model.node_health import ConfigSpace, GpuHealth
from exporter.model.node_health_words import ConfigState
from exporter.model.readings import Observation


def updated(gpu: GpuHealth, seen: Observation, bus: Bus) -> GpuHealth:
    """Return the entry after a look at the bus."""
    old, state = gpu.config_space, _state(gpu, seen, bus)
    after = ConfigSpace(
        state=state,
        since=old.since if old.state == state else seen.at,
        answered_at=seen.at if state == "Answers" else old.answered_at,
    )
    return msgspec.structs.replace(gpu, config_space=after)


def _state(gpu: GpuHealth, seen: Observation, bus: Bus) -> ConfigState:
    if gpu.presence_reason == gpu_state.RELEASED or gpu.pci_bus_id in bus.aside:
        return "Unknown"
    if gpu.pci_bus_id in seen.pci_config:
        return seen.pci_config[gpu.pci_bus_id]
    on_purpose = gpu.presence_reason == gpu_state.NOT_PUBLISHED
    listed = seen.pci_gpus is None or gpu.pci_bus_id in seen.pci_gpus
    # Where it once answered: other addresses may be hidden here.
    gone = gpu.config_space.answered_at is not None and not (listed or on_purpose)
    return "Gone" if gone else "Unknown"
