"""Which kinds cannot be trusted on a node: an object that it rests on cannot be read."""

from collections.abc import Iterable
from typing import Any

from exporter.model.device import GpuDrivers
from exporter.model.resource_slices import ResourceSlice
from kubeapi.versions import Versioned
from remediator.model.claim import Claim
from remediator.model.taint_rule import RawRule, parse
from remediator.plan.view import NodeView


def unreadable_slices(kind: Versioned[ResourceSlice], node: str, drivers: GpuDrivers) -> str:
    """Return why a node's slices cannot be trusted: one of them cannot be read as it is now.

    A slice keeps its node and its driver for life. A foreign one is not trusted anyway.
    """
    return _unreadable(
        kind,
        (
            key
            for key, published in _last_good(kind)
            if published.spec.node_name == node and published.spec.driver in drivers
        ),
    )


def unreadable_claims(kind: Versioned[Claim], view: NodeView) -> str:
    own = (device for device in view.slices.devices if not device.foreign)
    pools = {(device.device.driver, device.device.pool) for device in own}
    pools |= {(rule.device.driver, rule.device.pool) for rule in view.stored.rules}
    return _unreadable(
        kind,
        (
            key
            for key, claim in _last_good(kind)
            if any((result.driver, result.pool) in pools for result in claim.results)
        ),
    )


def unreadable_rules(kind: Versioned[Any], node: str) -> str:
    def of_node(raw: RawRule) -> bool:
        rule = parse(raw)
        return rule is not None and rule.node == node

    return _unreadable(kind, (key for key, raw in _last_good(kind) if of_node(raw)))


def _last_good(kind: Versioned[Any]) -> Iterable[tuple[str, Any]]:
    """Yield the last readable copy of each object that cannot be read now.

    An object that could never be read has no copy: its devices count as not published.
    """
    watch = kind.reflector if kind.version is not None else None
    if watch is None or not watch.unreadable:
        return
    known = watch.items()
    yield from ((key, known[key]) for key in watch.unreadable if key in known)


def _unreadable(kind: Versioned[Any], keys: Iterable[str]) -> str:
    names = sorted(keys)
    if not names:
        return ""
    return f"{kind.resource} {', '.join(names[:3])} cannot be read; the log says what is wrong"
