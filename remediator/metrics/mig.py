"""Nodes whose MIG geometry is not what their label requests, as samples. Pure.

The label names a configuration in a file of NVIDIA's MIG manager, which Draguard does not read. Of
the names that the GPU Operator ships, those for all GPUs alike tell the geometry themselves.
"""

import re
from collections.abc import Iterable

import msgspec

from exporter.model.node_health import NodeDeviceHealth
from remediator.model.node import NodeFacts
from serving.families import Rows, labels

_PROFILE = re.compile(r"all-(\d+g\.\d+gb[.\w+]*)")
"""`all-1g.10gb`; with `.me` where NVML has `+me`."""


class MigRequest(msgspec.Struct, frozen=True):
    """A node with a label for a geometry, and its report, where there is one."""

    facts: NodeFacts
    report: NodeDeviceHealth | None = None


def mig_rows(nodes: Iterable[MigRequest]) -> Rows:
    """Return what each node's label requests, and on how many GPUs it is not so."""
    known = tuple(nodes)
    states = {
        labels(node.facts.name, node.facts.mig_config, node.facts.mig_state or "none"): 1.0
        for node in known
    }
    counts = ((labels(node.facts.name), _count_differing(node)) for node in known)
    return {
        "node_mig_config": states,
        "node_mig_config_differs_gpus": {
            node: float(count) for node, count in counts if count is not None
        },
    }


def _count_differing(node: MigRequest) -> int | None:
    """Return the GPUs that differ from the request; None where that cannot be judged.

    A GPU whose MIG mode is unknown is not counted: most GPUs without MIG report no mode.
    """
    config = node.facts.mig_config
    gpus = node.report.status.gpus if node.report else ()
    modes = [gpu for gpu in gpus if gpu.presence == "Present" and gpu.mig is not None]
    if config in ("all-disabled", "all-enabled"):
        return sum(gpu.mig is not (config == "all-enabled") for gpu in modes)
    if (named := _PROFILE.fullmatch(config)) is None:
        return None
    # As the labels spell a profile, which may hold no `+`.
    spelled = ({part.profile.replace("+", ".") for part in gpu.instances} for gpu in modes)
    return sum(profiles != {named[1]} for profiles in spelled)
