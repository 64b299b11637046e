"""Label sets as text, in dcgm-exporter's names and order.

A device is one series however many hold it: labels on which all its owners agree
ride on the series, the others are left to `draguard_device_allocation_info`, which
has one row per holder. So no sum over devices counts one twice. Pure.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from exporter.agent.join.claims import Holder
from exporter.agent.join.pod_facts import first_within
from exporter.model.readings import NodePart

Pairs = Iterable[tuple[str, str]]

Preset = Literal["drop-in", "lean", "full"]
"""`drop-in`: as dcgm-exporter. `lean`: only what a device is told apart by; the rest is on info
rows. `full`: all that is known of the owner."""

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_]")
_OLD_NAMES = {
    "UUID": "uuid",
    "pod": "pod_name",
    "namespace": "pod_namespace",
    "container": "container_name",
}
_CACHED = 512
"""Label texts kept from page to page; a node has a few hundred. Each past owner that is kept takes
some 9 KiB where pods have 30 labels."""
PAGE_POD_LABEL_BYTES = 16 << 20
"""What labels of pods may take of a page, about: it is in memory four times and more."""


class Options(msgspec.Struct, frozen=True):
    """How labels are chosen and spelled."""

    node: str = ""
    preset: Preset = "drop-in"
    old_namespace: bool = False
    hostname_label: Literal["Hostname", "hostname", "none"] = "Hostname"
    replace_blanks: bool = False
    """Blanks in model names become dashes."""
    pod_uid: bool = False

    def named(self, name: str) -> str:
        """Return a label's name under dcgm-exporter's `-o`."""
        return _OLD_NAMES.get(name, name) if self.old_namespace else name

    @property
    def host(self) -> tuple[str, str]:
        """The label that names the node; with an empty value where none is requested."""
        if self.hostname_label == "none":
            return "Hostname", ""
        return self.hostname_label, self.node

    def model(self, product: str) -> str:
        return product.replace(" ", "-") if self.replace_blanks else product


def text(pairs: Pairs) -> str:
    """Return `a="b",c="d"`; empty values are left out, as Prometheus reads them as absent."""
    return ",".join([f'{name}="{_escaped(value)}"' for name, value in pairs if value])


def _escaped(value: str) -> str:
    # Hardly any value needs it, and looking for the three is ten times as fast.
    if '"' in value or "\\" in value or "\n" in value:
        return value.translate(_ESCAPES)
    return value


def joined(*parts: str) -> str:
    return ",".join(part for part in parts if part)


def nvml_bus_id(bus_id: str) -> str:
    """Spell a bus id as NVML and dcgm-exporter do: `00000000:3B:00.0`."""
    domain, _, rest = bus_id.partition(":")
    return f"{domain:0>8}:{rest}".upper() if rest else bus_id


class Identity(msgspec.Struct, frozen=True):
    """What a device is told apart by."""

    index: int
    uuid: str
    bus_id: str = ""
    product: str = ""
    profile: str = ""
    gi: int | None = None
    ci: int | None = None
    """Only where its GPU instance has several compute instances."""
    link: int | None = None


@lru_cache(_CACHED)
def device(options: Options, identity: Identity) -> str:
    """Return the labels of a GPU or a MIG slice."""
    lean = options.preset == "lean"
    return text(
        (
            ("gpu", str(identity.index)),
            (options.named("UUID"), identity.uuid),
            ("pci_bus_id", "" if lean else nvml_bus_id(identity.bus_id)),
            ("device", "" if lean else f"nvidia{identity.index}"),
            ("modelName", "" if lean else options.model(identity.product)),
            *_instance(identity),
            options.host,
        )
    )


@lru_cache(_CACHED)
def nvlink(options: Options, identity: Identity) -> str:
    """Return the labels of an NVLink, which dcgm-exporter spells otherwise."""
    lean = options.preset == "lean"
    return text(
        (
            ("nvlink", str(identity.link)),
            ("gpu", str(identity.index)),
            ("gpu_uuid", identity.uuid),
            ("pci_bus_id", "" if lean else nvml_bus_id(identity.bus_id)),
            ("device", "" if lean else f"nvidia{identity.index}"),
            ("model_name", "" if lean else options.model(identity.product)),
            *_instance(identity),
            options.host,
        )
    )


def node_part(options: Options, part: NodePart) -> str:
    """Return the labels of an NVSwitch, a link of one, a CPU or a core."""
    number, of = str(part.id), str(part.of)
    pairs = {
        "switch": (("nvswitch", f"nvswitch{number}"),),
        "link": (("nvlink", number), ("nvswitch", f"nvswitch{of}")),
        "cpu": (("cpu", number), ("cpu_serial", part.serial)),
        "core": (("cpucore", number), ("cpu", of)),
    }[part.kind]
    shown = pairs[:1] if options.preset == "lean" and part.kind == "cpu" else pairs
    return text((*shown, options.host))


def _instance(identity: Identity) -> Pairs:
    yield "GPU_I_PROFILE", identity.profile
    yield "GPU_I_ID", "" if identity.gi is None else str(identity.gi)
    yield "GPU_CI_ID", "" if identity.ci is None else str(identity.ci)


def holder_pairs(holder: Holder) -> dict[str, str]:
    """Return the labels that dcgm-exporter gives the series of a device that a pod holds."""
    pairs = {
        "pod": holder.pod,
        "namespace": holder.namespace,
        "container": holder.container,
        "vgpu": holder.replica,
    }
    if holder.dra is not None:
        pairs |= {
            "dra_claim_name": holder.dra.claim,
            "dra_claim_namespace": holder.dra.claim_namespace,
            "dra_driver_name": holder.dra.driver,
            "dra_pool_name": holder.dra.pool,
            "dra_device_name": holder.dra.device,
        }
    return pairs


def claim_pairs(holder: Holder) -> dict[str, str]:
    """Return what is known of a holder beyond that."""
    return {
        "dra_claim_uid": holder.claim_uid,
        "dra_request_name": holder.request,
        "dra_device_class": holder.device_class,
        "dra_share_id": holder.dra.share_id if holder.dra else "",
        "pod_uid": holder.pod_uid,
        "pod_group": holder.pod_group,
        "resource": holder.resource,
    }


def agreed(
    holders: Iterable[Holder], pairs: Callable[[Holder], Mapping[str, str]] = holder_pairs
) -> Mapping[str, str]:
    """Return the labels that are the same for all holders."""
    first, *others = [pairs(holder) for holder in holders] or [{}]
    return {
        name: value
        for name, value in first.items()
        if all(other.get(name) == value for other in others)
    }


@lru_cache(_CACHED)
def attributes(options: Options, owners: Sequence[Holder], mig_uuid: str) -> str:
    """Return the labels of whom a device was given to; `mig_uuid` "" for a whole GPU.

    `owners` must leave out those with admin access: they only look on.
    """
    if options.preset == "lean":
        return ""

    def pairs(holder: Holder) -> dict[str, str]:
        found = holder_pairs(holder)
        if mig_uuid and holder.dra is not None:
            found |= {"dra_mig_profile": holder.profile, "dra_mig_device_uuid": mig_uuid}
        if options.preset == "full":
            return found | claim_pairs(holder)
        return found | ({"pod_uid": holder.pod_uid} if options.pod_uid else {})

    shared = agreed(owners, pairs)
    return text(sorted((options.named(name), value) for name, value in shared.items()))


@lru_cache(_CACHED)
def pod_pairs(
    options: Options, owners: Sequence[Holder], most_bytes: int
) -> tuple[tuple[tuple[str, str], ...], int]:
    """Return the pods' own labels that all owners agree on, under names that shadow none of ours.

    Those stay that fit, in the order of their keys; the number is of those that do not.

    A name is spelled with `_` for what Prometheus does not allow. Where two labels of
    a pod come out as one name, each gets the prefix `label_` and a suffix
    `_conflict1`, `_conflict2`, in the order of their keys; one that would hide a label
    of this page gets the prefix alone.
    """
    if options.preset == "lean":
        return (), 0
    pairs = agreed(owners, lambda holder: dict(_pod_labels(holder))).items()
    first = first_within(pairs, most_bytes)
    return first, len(pairs) - len(first)


def _pod_labels(holder: Holder) -> Pairs:
    spelled: dict[str, list[str]] = {}
    for key, value in sorted(holder.pod_labels):
        name = _NOT_IN_A_NAME.sub("_", key)
        spelled.setdefault(f"_{name}" if name[:1].isdigit() else name, []).append(value)
    for name, values in spelled.items():
        if len(values) > 1:
            for number, value in enumerate(values, start=1):
                yield f"label_{name}_conflict{number}", value
        else:
            # Names that begin with two underscores are Prometheus's own.
            reserved = name in RESERVED or name.startswith(("__", "dra_", "DCGM_", "label_"))
            yield f"label_{name}" if reserved or not name else name, values[0]


RESERVED = frozenset(
    (
        "gpu",
        "UUID",
        "uuid",
        "pci_bus_id",
        "device",
        "modelName",
        "GPU_I_PROFILE",
        "GPU_I_ID",
        "GPU_CI_ID",
        "Hostname",
        "hostname",
        "nvlink",
        "nvswitch",
        "gpu_uuid",
        "model_name",
        "pod",
        "namespace",
        "container",
        "pod_name",
        "pod_namespace",
        "container_name",
        "pod_uid",
        "pod_group",
        "vgpu",
        "resource",
        "hpc_job",
        "err_code",
        "err_msg",
        "window_size_in_ms",
        "xid",
        "clock_event",
        "health_watch",
        "health_error_category",
        "health_error_code",
        "health_error_severity",
        "peer_gpu",
        "link_status",
        "le",
        "quantile",
        "job",
        "instance",
    )
)
"""Names of labels that a series may have by itself or get from Prometheus."""
