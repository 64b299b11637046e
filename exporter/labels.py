"""Label sets as text, in dcgm-exporter's names and order.

A device is one series however many hold it: labels on which all its holders
agree ride on the series, the others are left to
`draguard_device_allocation_info`, which has one row per holder. So no sum over
devices counts one twice. Pure.
"""

from collections.abc import Iterable, Mapping

from exporter.claims import Holder

Pairs = Iterable[tuple[str, str]]

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def text(pairs: Pairs) -> str:
    """Return `a="b",c="d"`; empty values are left out, as Prometheus reads them as absent."""
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs if value)


def joined(*parts: str) -> str:
    return ",".join(part for part in parts if part)


def nvml_bus_id(bus_id: str) -> str:
    """Spell a bus id as NVML and dcgm-exporter do: `00000000:3B:00.0`."""
    domain, _, rest = bus_id.partition(":")
    return f"{domain:0>8}:{rest}".upper() if rest else bus_id


def holder_pairs(holder: Holder) -> dict[str, str]:
    pairs = {"pod": holder.pod, "namespace": holder.namespace, "container": holder.container}
    if holder.dra is not None:
        pairs |= {
            "dra_claim_name": holder.dra.claim,
            "dra_claim_namespace": holder.dra.claim_namespace,
            "dra_driver_name": holder.dra.driver,
            "dra_pool_name": holder.dra.pool,
            "dra_device_name": holder.dra.device,
        }
    return pairs


def agreed(holders: Iterable[Holder]) -> Mapping[str, str]:
    """Return the labels that are the same for all holders."""
    first, *others = [holder_pairs(holder) for holder in holders] or [{}]
    return {
        name: value
        for name, value in first.items()
        if all(other.get(name) == value for other in others)
    }
