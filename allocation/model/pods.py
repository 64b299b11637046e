"""What a pod lets the scheduler choose of the nodes, before any device is looked at. Pure.

Cordon, taints, node selector and required node affinity are read here, as the plugins of
kube-scheduler 1.37 do it. Memory, CPU, topology and what other plugins want are not: the message of
the condition PodScheduled has them.
"""

from typing import Literal

import msgspec

from allocation.model.claims import BLOCKING, Toleration
from allocation.model.nodes import Node, NodeSelector, NodeTaint
from kubeapi.types import NamespacedMeta

NodeWhy = Literal["NodeCordoned", "NodeNotReady", "NodeTainted", "NodeAffinity"]
_CORDON = NodeTaint("node.kubernetes.io/unschedulable", effect="NoSchedule")
_NOT_READY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


class NodeAffinity(msgspec.Struct, frozen=True, gc=False):
    required: NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_affinity: NodeAffinity = NodeAffinity()


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    tolerations: tuple[Toleration, ...] = ()


class WaitingPod(msgspec.Struct, frozen=True, gc=False):
    metadata: NamespacedMeta
    spec: PodSpec = PodSpec()

    def why_not_on(self, node: Node) -> tuple[NodeWhy, str] | None:
        """Return why the pod does not run on a node, and by what; None: nothing here keeps it.

        Raises NodeSelectorError.
        """
        spec = self.spec
        taints = (*((_CORDON,) if node.unschedulable else ()), *node.taints)
        for taint in taints:
            blocks = taint.effect in BLOCKING
            if blocks and not any(each.tolerates(taint) for each in spec.tolerations):
                if taint.key == _CORDON.key:
                    return "NodeCordoned", ""
                if taint.key in _NOT_READY:
                    return "NodeNotReady", taint.key
                return "NodeTainted", taint.key
        for key, value in spec.node_selector.items():
            if node.labels.get(key) != value:
                return "NodeAffinity", f"{key}={value}"
        required = spec.affinity.node_affinity.required
        if required is not None and not node.meets(required):
            return "NodeAffinity", "nodeAffinity"
        return None
