"""Container runtimes and driver versions of the nodes with GPUs, as checks."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from draguard.connection.errors import forbidden
from draguard.doctor.check import Check, bad, ok, unknown, warn
from draguard.phrases import count, some
from exporter.model.node_health import NodeDeviceHealth
from kubeapi.client import ApiError
from kubeapi.types import ObjectMeta, kubernetes_case
from remediator.controller.emergency import FORBIDDEN

_VERSION = re.compile(r"v?(\d+)\.(\d+)")
_CDI: Mapping[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "containerd": ((1, 7), (2, 0)),
    "cri-o": ((1, 23), (1, 23)),
}
"""By runtime: the first version that injects CDI devices, and the first that does so by default.
containerd 1.7 needs `enable_cdi = true`; one before 1.7 leaves the devices out without an error."""
_FIRST_DRIVERS: tuple[tuple[re.Pattern[str], str, int], ...] = (
    (re.compile(r"\bG?B300\b"), "Blackwell Ultra", 575),
    (re.compile(r"\bG?B[12]00\b|RTX PRO .*Blackwell"), "Blackwell", 570),
    (re.compile(r"\bG?H(100|200|20|800)\b"), "Hopper", 520),
    (re.compile(r"\bL(4|20|40S?)\b"), "Ada", 520),
    (re.compile(r"\bA(2|10G?|16|30|40|100|800)\b"), "Ampere", 450),
)
"""Product name, architecture, and the first driver release that has it: that of the first CUDA
toolkit for it (12.8, 11.8, 11.0 in NVIDIA's "CUDA Toolkit, Driver, and Architecture Matrix" of
2025-08-04; 12.9 for Blackwell Ultra from its release notes). A lower limit: single products need
more, such as HGX B200 570.133.20 (GPU Operator, platform support)."""
_RECOVERY_ACTION = 565
"""First driver release that reports a recovery action (docs/metrics.md)."""
_DRA_DRIVER = 580
"""The least that NVIDIA documents for its DRA driver for GPUs, together with Kubernetes 1.34.2 and
CDI (GPU Operator documentation, dra-intro-install.rst, read 2026-11-26)."""


class _NodeInfo(msgspec.Struct, frozen=True, rename=kubernetes_case):
    container_runtime_version: str = ""
    os_image: str = ""


class _NodeStatus(msgspec.Struct, frozen=True, rename=kubernetes_case):
    node_info: _NodeInfo = _NodeInfo()


class Node(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    status: _NodeStatus = _NodeStatus()

    @property
    def runtime(self) -> str:
        """Return `containerd://2.1.0`; "" where the kubelet does not say."""
        return self.status.node_info.container_runtime_version


def nodes(
    read: Callable[[], Iterable[Node]],
    reports: Iterable[NodeDeviceHealth],
    publishing: Iterable[str],
) -> Iterator[Check]:
    """Check the nodes that report or publish GPUs. Raises ApiError."""
    reports, publishing = tuple(reports), frozenset(publishing)
    with_gpus = {*publishing, *(report.metadata.name for report in reports)}
    try:
        found = read()
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        yield unknown("container runtimes", forbidden(error.message), "docs/cli.md, Rights")
    else:
        yield from runtimes([node for node in found if node.metadata.name in with_gpus])
    yield from drivers(reports, publishing)


def runtimes(found: Iterable[Node]) -> Iterator[Check]:
    """Judge whether each node's container runtime gives containers the devices of claims (CDI)."""
    about = "container runtimes"
    by_runtime: dict[str, list[str]] = {}
    for node in found:
        by_runtime.setdefault(node.runtime, []).append(node.metadata.name)
    good: list[str] = []
    for runtime, names in sorted(by_runtime.items()):
        name, _, version = runtime.partition("://")
        read, known = _VERSION.match(version), _CDI.get(name)
        where = f"{name} {version} on {some(names)}".lstrip()
        if known is None or read is None:
            says = f"whether {where} does CDI is unknown" if name else f"unknown on {some(names)}"
            yield unknown(about, says, "check that it does the Container Device Interface")
            continue
        able, by_default = known
        numbers = int(read[1]), int(read[2])
        if numbers < able:
            old = f"{where} does not do CDI: containers start without the devices of their claims"
            yield bad(about, old, f"upgrade to {name} {by_default[0]}.{by_default[1]}")
        elif numbers < by_default:
            off = f"{where} does CDI only with enable_cdi = true in its configuration"
            remedy = f"check it there, or upgrade to {name} {by_default[0]}.{by_default[1]}"
            yield warn(about, off, remedy)
        else:
            good.append(f"{name} {version} on {count(len(names), 'node', 'nodes')}")
    if good:
        yield ok(about, f"{', '.join(good)}: CDI is on by default")


def drivers(
    reports: Iterable[NodeDeviceHealth], publishing: Collection[str] = ()
) -> Iterator[Check]:
    """Compare the driver of each node with those of the others, with its GPUs and the DRA driver.

    `publishing` has the nodes of which a DRA driver publishes GPUs.
    """
    about = "driver"
    by_version: dict[str, list[str]] = {}
    too_old: dict[tuple[str, str, int], list[str]] = {}
    for report in reports:
        version, node = report.status.driver_version, report.metadata.name
        if not version:
            continue
        by_version.setdefault(version, []).append(node)
        for product in sorted({gpu.product for gpu in report.status.gpus if gpu.product}):
            found = next((row for row in _FIRST_DRIVERS if row[0].search(product)), None)
            if found is not None and release_of(version) < found[2]:
                too_old.setdefault((version, found[1], found[2]), []).append(node)
    for (version, architecture, first), names in sorted(too_old.items()):
        says = f"{version} on {some(names)} is older than its GPUs ({architecture})"
        yield bad(about, says, f"install driver R{first} or newer")
    for version, names in sorted(by_version.items()):
        yield from _old(about, version, names, publishing)
    yield from _matrix(about, by_version)


def _old(
    about: str, version: str, names: Sequence[str], publishing: Collection[str]
) -> Iterator[Check]:
    """Say what a driver of these nodes is too old for."""
    if 0 < release_of(version) < _RECOVERY_ACTION:
        says = f"{version} on {some(names)} reports no recovery action"
        yield warn(about, says, f"R{_RECOVERY_ACTION} or newer does; without it evidence is weaker")
    with_dra = [name for name in names if name in publishing]
    if with_dra and 0 < release_of(version) < _DRA_DRIVER:
        says = f"{version} on {some(with_dra)} is older than NVIDIA's DRA driver requires"
        yield warn(about, says, f"install driver R{_DRA_DRIVER} or newer")


def _matrix(about: str, by_version: Mapping[str, Sequence[str]]) -> Iterator[Check]:
    """Say how many nodes have which driver, and which nodes are the odd ones."""
    sizes = Counter({version: len(names) for version, names in by_version.items()})
    matrix = ", ".join(
        f"{version} on {count(number, 'node', 'nodes')}" for version, number in sizes.most_common()
    )
    if len(by_version) > 1:
        (common, _), *_ = sizes.most_common()
        odd = [name for version, names in by_version.items() if version != common for name in names]
        remedy = f"finish the upgrade, or roll it back, on {some(sorted(odd))}"
        yield warn(about, f"versions differ: {matrix}", remedy)
    elif by_version:
        yield ok(about, matrix)


def release_of(version: str) -> int:
    """Return 580 of `580.65.06`, 0 where it is no number."""
    first = version.partition(".")[0]
    return int(first) if first.isdecimal() else 0
