"""What the GPU nodes have, as a preset of the chart's `stack`, beside the installed one."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from draguard.cluster.installation import Workload, find_agents
from draguard.doctor.check import Check, ok, unknown, warn
from draguard.doctor.nodes import Node
from draguard.phrases import count, some
from kubeapi.client import Client, NotFound
from kubeapi.discovery import served

ABOUT = "stack"
LABEL = "draguard.dev/stack"
"""The chart writes the chosen preset here, on each DaemonSet."""
UNTRIED = "untried on real hardware"
_DEFAULT = "gpu-operator"
"""The preset that the chart's defaults are."""
_RELEASE = "meta.helm.sh/release-name"
_CLASS = "/apis/node.k8s.io/v1/runtimeclasses/nvidia"
_WITH_CLASS, _WITHOUT_CLASS = "RuntimeClass nvidia", "no RuntimeClass nvidia"
_OPENSHIFT, _NOT_OPENSHIFT = "API config.openshift.io", "no API config.openshift.io"
_PUBLISHED = "GPUs published by a DRA driver"
_CLASSIC = "nvidia.com/gpu.deploy.device-plugin="
_KARPENTER = "karpenter.k8s.aws/instance-gpu-manufacturer=nvidia"
_NODE_GROUP = "eks.amazonaws.com/nodegroup="
_AMAZON_LINUX, _BOTTLEROCKET = "OS image Amazon Linux 2023", "OS image Bottlerocket"


class Stack(msgspec.Struct, frozen=True):
    name: str
    evidence: tuple[tuple[str, ...], ...]
    """Each line is enough: the signs that a node has, or their beginnings."""
    tried: bool = False
    """Whether the preset ran on real nodes of this stack, with GPUs."""


STACKS = (
    Stack("gpu-operator", ((_CLASSIC, _WITH_CLASS, _NOT_OPENSHIFT),)),
    # The second line: a ClusterPolicy with the NRI plugin, which removes the RuntimeClass.
    Stack(
        "gpucluster",
        (
            ("nvidia.com/gpu.deploy.dra-driver=",),
            (_CLASSIC, _WITHOUT_CLASS, _NOT_OPENSHIFT),
        ),
    ),
    Stack("driver-only", ((_PUBLISHED, _WITHOUT_CLASS, _NOT_OPENSHIFT),)),
    Stack("gke", (("cloud.google.com/gke-accelerator=nvidia",),)),
    Stack("eks", ((_KARPENTER, _AMAZON_LINUX), (_NODE_GROUP, _AMAZON_LINUX))),
    Stack(
        "eks-auto",
        (
            ("eks.amazonaws.com/instance-gpu-manufacturer=nvidia",),
            (_KARPENTER, _BOTTLEROCKET),
            (_NODE_GROUP, _BOTTLEROCKET),
        ),
    ),
    Stack("aks", (("kubernetes.azure.com/accelerator=nvidia",),)),
    Stack("openshift", ((_OPENSHIFT,),)),
)
"""The chart's presets, with what distinguishes them; tests/deploy/stacks/ has the sources."""
_TRIED = {stack.name for stack in STACKS if stack.tried}
_GPU_LABELS = (
    "nvidia.com/gpu.present=true",
    "feature.node.kubernetes.io/pci-10de.present=true",
    "feature.node.kubernetes.io/pci-0302_10de.present=true",
    "feature.node.kubernetes.io/pci-0300_10de.present=true",
    "kubernetes.azure.com/accelerator=nvidia",
    "eks.amazonaws.com/instance-gpu-manufacturer=nvidia",
    _KARPENTER,
    "cloud.google.com/gke-accelerator=",
)
"""Labels of nodes with GPUs: the chart's exporter.nodeSelectorTerms."""
_Fitting = tuple[tuple[str, tuple[str, ...]], ...]
_UNSELECTED = "no DaemonSet of Draguard selects"
_CHOOSE = "docs/install.md, What your nodes have"
_POOLS = (
    "the `stack` of each pool, and `stack` itself for gke or openshift (docs/install.md, "
    "Nodes that differ)"
)


class Group(msgspec.Struct, frozen=True):
    """Nodes that show the same."""

    evidence: Mapping[str, tuple[str, ...]]
    """By the name of a stack that they may be: the line of the table that they fit."""
    nodes: int
    signs: frozenset[str] = frozenset()
    """All that these nodes show, with whole values."""
    chosen: frozenset[str] = frozenset()
    """Stacks of the DaemonSets that select these nodes."""
    names: tuple[str, ...] = ()

    def words(self) -> str:
        each = (
            f"{name} ({', '.join(self._quoted(sign) for sign in line)}"
            f"{'' if name in _TRIED else f'; {UNTRIED}'})"
            for name, line in self.evidence.items()
        )
        return f"{' or '.join(each)} on {count(self.nodes, 'node', 'nodes')}"

    def _quoted(self, sign: str) -> str:
        """Return a label as the nodes have it; of one whose value does not count, the key."""
        if "=" not in sign or sign.endswith("="):
            return sign.rstrip("=")
        return some(sorted(each for each in self.signs if each.startswith(sign)))


def stack(
    client: Client, namespace: str, nodes: Iterable[Node], publishing: Collection[str]
) -> Iterator[Check]:
    """Compare the stack of the nodes with the installed one. Raises ApiError."""
    installed = find_agents(client, namespace)
    groups = found_on(nodes, publishing, cluster_signs(client), installed)
    yield judged(groups, installed, namespace)


def cluster_signs(client: Client) -> tuple[str, ...]:
    """Return what the whole cluster shows. Raises ApiError."""
    try:
        client.get(_CLASS)
        runtime_class = _WITH_CLASS
    except NotFound:
        runtime_class = _WITHOUT_CLASS
    openshift = served(client, "config.openshift.io", "clusterversions", ("v1",))
    return runtime_class, _OPENSHIFT if openshift else _NOT_OPENSHIFT


def found_on(
    nodes: Iterable[Node],
    publishing: Collection[str],
    cluster: Sequence[str],
    installed: Sequence[Workload] = (),
) -> tuple[Group, ...]:
    """Group the nodes with GPUs by what they may be, and by what selects them. Pure.

    `publishing` has the nodes of which a DRA driver publishes GPUs.
    """
    alike: dict[tuple[_Fitting, frozenset[str]], dict[str, tuple[str, ...]]] = {}
    for node in nodes:
        signs = _signs(node, publishing)
        if _PUBLISHED in signs or any(sign.startswith(_GPU_LABELS) for sign in signs):
            chosen = frozenset(_chosen(each) for each in installed if each.selects(node.metadata))
            same = alike.setdefault((_fitting([*signs, *cluster]), chosen), {})
            same[node.metadata.name] = signs
    return tuple(
        Group(
            dict(fitting),
            len(each),
            frozenset(chain.from_iterable(each.values())),
            chosen,
            tuple(each),
        )
        for (fitting, chosen), each in alike.items()
    )


def _chosen(workload: Workload) -> str:
    return workload.metadata.labels.get(LABEL, _DEFAULT)


def judged(groups: Sequence[Group], installed: Sequence[Workload], namespace: str) -> Check:
    """Judge the exporter's DaemonSets by the nodes with GPUs. Pure."""
    evident = [group for group in groups if group.evidence]
    if not evident:
        nothing = (
            "nothing on the GPU nodes shows the stack"
            if groups
            else "no node has a label of GPU nodes"
        )
        return unknown(ABOUT, nothing, f"if nodes have GPUs: {_CHOOSE}")
    looks = f"looks like {'; '.join(group.words() for group in evident)}"
    if not installed:
        choice = " or ".join(f"--set stack={name}" for name in _everywhere(evident))
        return ok(ABOUT, f"{looks}; no DaemonSet here: install with {choice or _POOLS}")
    if any(_own_values(workload) for workload in installed):
        return ok(ABOUT, f"{looks}; the exporter has values of its own, which are not judged")
    chosen = sorted({_chosen(workload) for workload in installed})
    # A node that no DaemonSet selects is judged by all of them.
    misfits = [
        group for group in evident if group.evidence.keys().isdisjoint(group.chosen or chosen)
    ]
    says = f"{looks}; installed is {', '.join(chosen)}"
    if len(chosen) > 1:
        for group in misfits:
            has = f"{some(group.names)} has {', '.join(sorted(group.chosen))}"
            says += f"; {has if group.chosen else f'{_UNSELECTED} {some(group.names)}'}"
    if not misfits:
        return ok(ABOUT, says)
    if all(len(group.evidence) > 1 for group in misfits):
        return unknown(ABOUT, says, f"if the exporter is not ready, choose one: {_CHOOSE}")
    return warn(ABOUT, says, _remedy(evident, installed, namespace))


def _remedy(evident: Iterable[Group], installed: Sequence[Workload], namespace: str) -> str:
    names = _everywhere(evident)
    if len(installed) > 1 or not names:
        return f"set {_POOLS}"
    release = installed[0].metadata.annotations.get(_RELEASE)
    if not release:
        return f"render the chart again with --set stack={names[0]}"
    flags = f"-n {namespace} --reset-then-reuse-values --set stack={names[0]}"
    return f"helm upgrade {release} deploy/helm/draguard {flags}"


def _everywhere(evident: Iterable[Group]) -> list[str]:
    """Return the stacks that every node may be."""
    return [
        stack.name for stack in STACKS if all(stack.name in group.evidence for group in evident)
    ]


def _signs(node: Node, publishing: Collection[str]) -> tuple[str, ...]:
    labels = (f"{key}={value}" for key, value in node.metadata.labels.items())
    published = (_PUBLISHED,) if node.metadata.name in publishing else ()
    return (*labels, f"OS image {node.status.node_info.os_image}", *published)


def _fitting(signs: Sequence[str]) -> _Fitting:
    fitting = {
        stack.name: line
        for stack in STACKS
        for line in reversed(stack.evidence)
        if all(any(sign.startswith(needed) for sign in signs) for needed in line)
    }
    if len(fitting) > 1:  # Operators and clouds publish GPUs by DRA as well.
        fitting.pop("driver-only", None)
    return tuple(fitting.items())


def _own_values(workload: Workload) -> bool:
    """Whether it was not rendered with a preset alone: its values were set one by one."""
    spec = workload.spec.template.spec
    if LABEL in workload.metadata.labels:
        return spec.runtime_class_name not in {"", "nvidia"}
    return spec.runtime_class_name != "nvidia" or bool(spec.security_context.se_linux_options)
