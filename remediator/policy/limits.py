"""How much may be disrupted at once and restricted in all: caps per ground, rates, correlation.

The unit is one physical GPU, whatever number of slices it has. `evict` counts
flow: GPUs whose pods are being deleted now, and how many began lately. `taint`
counts stock: GPUs that stand with NoSchedule or more, so capacity that is lost.
Many sick nodes are still kept from new work while evictions are deferred, and
boards that wait for their repair stop no eviction. Healing is never limited.

```yaml
budget:
  evict:
    {node: 2, deviceClass: 25%, domain: 4, cluster: {share: 5%, atLeast: 4, atMost: 16},
     rate: {count: 8, within: 10m}}
  taint: {node: 16, cluster: {share: 10%, atLeast: 24}}
  correlation: {nodes: 3, within: 10m, after_change: 30m, taint: none}
```

Pure.
"""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Literal, TypeVar, cast, get_args

import msgspec

from remediator.policy.duration import duration, spelled
from remediator.policy.error import PolicyError

Ground = Literal["node", "pool", "class", "domain", "product", "cluster"]
"""What GPUs are counted over. `pool`: a driver's pool (NVIDIA's has one per node); `class`: a
DeviceClass through which they are claimed, or were while their open incident stood, so its cap
bounds how much of one class's running work is moved at once; `domain`: GPUs that one NVLink
fabric joins, across nodes; `product`: GPUs of one model under one driver version."""
GROUNDS: tuple[Ground, ...] = get_args(Ground)

KEYS: Mapping[Ground, str] = {
    "node": "node",
    "pool": "pool",
    "class": "deviceClass",
    "domain": "domain",
    "cluster": "cluster",
}
"""Grounds that have caps, as the policy file calls them, from the narrowest to the widest."""
WORDS: Mapping[Ground, str] = {
    "node": "node",
    "pool": "pool",
    "class": "DeviceClass",
    "domain": "NVLink domain",
    "product": "product",
    "cluster": "the cluster",
}


class Cap(msgspec.Struct, frozen=True):
    """At most so many GPUs of a ground: a number, or a part of those that the ground has."""

    amount: float
    percent: bool = False
    least: int = 1
    """GPUs: what a part is at least, so that a small cluster has room, too."""
    most: int | None = None
    """GPUs: what a part is at most."""

    def of(self, total: int) -> int:
        """Return the cap in GPUs; a part is rounded down, and 0 % is 0.

        A total of 0 means that nobody could count: a part of that is its least.
        """
        if not self.percent:
            return int(self.amount)
        part = max(self.least, int(total * self.amount / 100)) if self.amount else 0
        return part if self.most is None else min(part, self.most)

    def __str__(self) -> str:
        if not self.percent:
            return f"{int(self.amount)}"
        least = f", at least {self.least}" if self.least != 1 else ""
        return f"{self.amount:g}%{least}" + ("" if self.most is None else f", at most {self.most}")


LONGEST_RATE = timedelta(hours=24)
"""No rate looks back further, so that decisions need no older incident that is closed."""


class Rate(msgspec.Struct, frozen=True):
    """At most so many GPUs newly evicted from, or tainted, within any time of this length."""

    count: int
    within: timedelta

    def __str__(self) -> str:
        return f"{self.count} in {spelled(self.within)}"


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """The caps of one harm; None: this ground has no cap."""

    node: Cap | None = None
    pool: Cap | None = None
    device_class: Cap | None = None
    domain: Cap | None = None
    cluster: Cap | None = None
    rate: Rate | None = None

    def by_ground(self) -> tuple[tuple[Ground, Cap], ...]:
        """Return the caps that there are, from the narrowest ground to the widest."""
        known: list[tuple[Ground, Cap | None]] = [
            (ground, getattr(self, _FIELDS[ground])) for ground in KEYS
        ]
        return tuple((ground, cap) for ground, cap in known if cap is not None)


_FIELDS: Mapping[Ground, str] = {**{ground: ground for ground in KEYS}, "class": "device_class"}


class Correlation(msgspec.Struct, frozen=True, kw_only=True):
    """When many faults look like one that is not the GPUs' own, so that nobody is moved for it."""

    nodes: int = 3
    """The same cause, new on so many nodes within `within`; 0: never."""
    within: timedelta = timedelta(minutes=10)
    """Also how long no further node must join for the hold to end."""
    after_change: timedelta = timedelta(minutes=30)
    """After the node's driver or agent changed, or the policy did; 0s: never."""
    taint: Cap | None = None
    """Of one product and driver version: what may stand tainted before a wave of one cause defers
    NoSchedule, too. None: it never does. A real wave (power, cooling, a switch) has sick GPUs, and
    what is not tainted gets the next job; NoSchedule ends no pod, and `taint` bounds it."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The whole `budget` of a policy, as shipped unless said otherwise."""

    evict: Caps = Caps(
        node=Cap(2),
        device_class=Cap(25, percent=True),
        domain=Cap(4),
        cluster=Cap(5, percent=True, least=4, most=16),
        rate=Rate(8, timedelta(minutes=10)),
    )
    """A third sick GPU in one machine is the machine's fault. The least of the cluster is what two
    nodes may do, so that in the smallest cluster, too, one node leaves room for another."""
    taint: Caps = Caps(node=Cap(16), cluster=Cap(10, percent=True, least=24))
    """The node's cap is more than nearly any machine has. The least of the cluster is more than
    that: a machine that fails as a whole, or invents GPUs, leaves room for 8 elsewhere."""
    correlation: Correlation = Correlation()


LIFTED = Limits(
    evict=Caps(), taint=Caps(), correlation=Correlation(nodes=0, after_change=timedelta())
)
"""Limits that hold nothing back."""


def limits_of(raw: Mapping[str, object], shipped: Limits | None = None) -> Limits:
    """Read the `budget` of a policy; what it leaves out stays as shipped.

    The flat keys of the first release are read too. Raises PolicyError with the
    path and what may be written there.
    """
    read = shipped or Limits()
    sections = {name: value for name, value in raw.items() if name not in FLAT}
    found = _struct("budget", sections, _SECTIONS, read)
    for name, (harm, ground) in FLAT.items():
        if name in raw:
            cap = _cap(f"budget.{name}", raw[name], None)
            caps = msgspec.structs.replace(getattr(found, harm), **{ground: cap})
            found = msgspec.structs.replace(found, **{harm: caps})
    return found


FLAT: Mapping[str, tuple[Literal["evict", "taint"], Literal["node", "cluster"]]] = {
    "evict_gpus_per_node": ("evict", "node"),
    "evict_gpus_per_cluster": ("evict", "cluster"),
    "taint_gpus_per_cluster": ("taint", "cluster"),
}
"""Keys of the first release, by what they are called now."""


def described(limits: Limits) -> tuple[tuple[str, str, str], ...]:
    """Return each limit as (path, value, meaning), for a page, an explanation or the log."""
    found: list[tuple[str, str, str]] = []
    for harm, verb, counted in (
        ("evict", "evicted from", "GPUs that are being evicted from, not Drained yet"),
        ("taint", "tainted", "GPUs that stand tainted, of nodes that are there"),
    ):
        caps: Caps = getattr(limits, harm)
        for ground, key in KEYS.items():
            cap: Cap | None = getattr(caps, _FIELDS[ground])
            meaning = f"{counted}: of {('' if ground == 'cluster' else 'one ') + WORDS[ground]}"
            found.append((f"budget.{harm}.{key}", "none" if cap is None else str(cap), meaning))
        rate = "none" if caps.rate is None else str(caps.rate)
        found.append((f"budget.{harm}.rate", rate, f"GPUs newly {verb}, in any such time"))
    hold = limits.correlation
    return (
        *found,
        ("budget.correlation.nodes", str(hold.nodes), "nodes with one new cause: hold evictions"),
        ("budget.correlation.within", spelled(hold.within), "the time they count in"),
        (
            "budget.correlation.after_change",
            spelled(hold.after_change),
            "after a change of driver, agent or policy: hold evictions",
        ),
        (
            "budget.correlation.taint",
            "none" if hold.taint is None else str(hold.taint),
            "GPUs of one product and driver version that stand tainted before one new cause defers "
            "NoSchedule, too",
        ),
    )


_CAP = re.compile(r"(\d+(?:\.\d+)?)%|(\d+)")

S = TypeVar("S", bound=msgspec.Struct)
_Reader = Callable[[str, object, object], object]
"""Takes the path, what is written there and what is shipped; returns what holds."""


def _struct(path: str, raw: object, fields: Mapping[str, tuple[str, _Reader]], old: S) -> S:
    """Return `old` with what is written under a path, each key read by its own reader."""
    if not isinstance(raw, Mapping):
        raise PolicyError(f"{path}: {raw!r} is no mapping; write any of {', '.join(fields)}")
    said: dict[str, object] = {}
    for key, value in cast("Mapping[object, object]", raw).items():
        if key not in fields:
            raise PolicyError(f"{path}.{key} is not known; write any of {', '.join(fields)}")
        name, reader = fields[str(key)]
        said[name] = reader(f"{path}.{key}", value, getattr(old, name, None))
    return msgspec.structs.replace(old, **said)


def _cap(path: str, raw: object, old: object) -> Cap | None:
    del old
    if raw is None or raw == "none":
        return None
    if isinstance(raw, Mapping):
        return _bounded(path, cast("Mapping[object, object]", raw))
    found = None if isinstance(raw, bool) else _CAP.fullmatch(str(raw).strip())
    amount = float(found[1] or found[2]) if found else -1.0
    percent = found is not None and found[1] is not None
    if found is None or (percent and amount > 100):
        raise PolicyError(
            f"{path}: {raw!r} is no number of GPUs; write 2, 25% (of those there are), "
            "{share: 25%, atLeast: 2, atMost: 16}, 0 (nothing may be done) or none (no cap)"
        )
    return Cap(amount, percent=percent)


class _Bounds(msgspec.Struct, frozen=True):
    share: Cap | None = None
    least: int = 1
    most: int | None = None


def _bounded(path: str, raw: Mapping[object, object]) -> Cap:
    """Read a part with bounds. It is written whole: what it leaves out is no bound."""
    fields: Mapping[str, tuple[str, _Reader]] = {
        "share": ("share", _cap),
        "atLeast": ("least", _count),
        "atMost": ("most", _count),
    }
    found = _struct(path, raw, fields, _Bounds())
    if found.share is None or not found.share.percent:
        raise PolicyError(f"{path}.share is no percentage; write {{share: 25%, atLeast: 2}}")
    if found.most is not None and found.most < found.least:
        raise PolicyError(f"{path}.atMost: {found.most} is less than atLeast ({found.least})")
    return Cap(found.share.amount, percent=True, least=found.least, most=found.most)


def _count(path: str, raw: object, old: object) -> int:
    del old
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 0:
        raise PolicyError(f"{path}: {raw!r} is no count; write a whole number from 0 on")
    return raw


def _time(path: str, raw: object, old: object) -> timedelta:
    del old
    try:
        return duration(str(raw))
    except ValueError as error:
        raise PolicyError(f"{path}: {error}") from error


def _rate(path: str, raw: object, old: object) -> Rate | None:
    if raw is None or raw == "none":
        return None
    fields: Mapping[str, tuple[str, _Reader]] = {
        "count": ("count", _count),
        "within": ("within", _time),
    }
    standing = old if isinstance(old, Rate) else Rate(0, timedelta(minutes=10))
    rate = _struct(path, raw, fields, standing)
    if not isinstance(old, Rate) and "count" not in cast("Mapping[str, object]", raw):
        raise PolicyError(f"{path}.count is missing; write {{count: 8, within: 10m}} or none")
    if not rate.within:
        raise PolicyError(f"{path}.within is no time at all; write 10m, or none for the rate")
    if rate.within > LONGEST_RATE:
        raise PolicyError(f"{path}.within: {spelled(rate.within)} is longer than 24h")
    return rate


def _caps(path: str, raw: object, old: object) -> Caps:
    fields: dict[str, tuple[str, _Reader]] = {
        KEYS[ground]: (field, _cap) for ground, field in _FIELDS.items()
    }
    return _struct(path, raw, {**fields, "rate": ("rate", _rate)}, cast("Caps", old))


def _correlation(path: str, raw: object, old: object) -> Correlation:
    fields: Mapping[str, tuple[str, _Reader]] = {
        "nodes": ("nodes", _count),
        "within": ("within", _time),
        "after_change": ("after_change", _time),
        "taint": ("taint", _cap),
    }
    found = _struct(path, raw, fields, cast("Correlation", old))
    if found.nodes == 1:
        raise PolicyError(
            f"{path}.nodes: 1 would let any one node hold all others; write 2 or more, "
            "or 0 for never"
        )
    return found


_SECTIONS: Mapping[str, tuple[str, _Reader]] = {
    "evict": ("evict", _caps),
    "taint": ("taint", _caps),
    "correlation": ("correlation", _correlation),
}
