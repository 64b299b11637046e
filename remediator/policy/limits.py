"""How many GPUs may be disrupted at once and restricted in all: caps, rates, correlation.

The unit is one physical GPU, whatever number of slices it has. `evict` counts flow: GPUs whose pods
are being evicted now, and how many began lately. `taint` counts stock: GPUs with NoSchedule or
more, so capacity that is lost. While evictions are deferred, many sick nodes are still kept from
new work. Boards that wait for their repair defer no eviction. Untaints are never limited.

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

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal, get_args

import msgspec

from remediator.policy.duration import spell

Ground = Literal["node", "pool", "class", "domain", "product", "cluster"]
"""What GPUs are counted over. `pool`: a driver's pool; NVIDIA's driver has one per node. `class`: a
DeviceClass through which GPUs are claimed, or were since their open incident began. So its cap
bounds how much running work of one class is disrupted at once. `domain`: GPUs that one NVLink
fabric joins across nodes. `product`: GPUs of one model under one driver version."""
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
    """At most so many GPUs of a ground: a number, or a share of those that the ground has."""

    amount: float
    percent: bool = False
    least: int = 1
    """GPUs: a share is never less, so that a small cluster has room, too."""
    most: int | None = None
    """GPUs: a share is never more; None: no such bound."""

    def of(self, total: int) -> int:
        """Return the cap in GPUs; a share is rounded down, and 0 % is 0.

        A total of 0 means that the GPUs could not be counted: a share of that is its least.
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
"""No rate looks back further, so decisions need no closed incident that began earlier."""


class Rate(msgspec.Struct, frozen=True):
    """At most so many GPUs newly tainted or evicted from, in any period of this length."""

    count: int
    within: timedelta

    def __str__(self) -> str:
        return f"{self.count} in {spell(self.within)}"


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """The caps of one action, tainting or eviction; None: this ground has no cap."""

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
    """When many faults look like one cause outside the GPUs, so that evictions are deferred."""

    nodes: int = 3
    """The same cause, new on so many nodes within `within`; 0: never."""
    within: timedelta = timedelta(minutes=10)
    """Evictions are deferred until no further node has joined for as long."""
    after_change: timedelta = timedelta(minutes=30)
    """After the node's driver or agent changed, or the policy did; 0s: never."""
    taint: Cap | None = None
    """Tainted GPUs of one product and driver version beyond which a wave of one cause defers
    NoSchedule, too. None: it never does. In a real wave (power, cooling, a switch) the GPUs are
    sick, and one that is not tainted gets the next job. NoSchedule ends no pod, and `taint` bounds
    it."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The whole `budget` of a policy; the defaults are the shipped one."""

    evict: Caps = Caps(
        node=Cap(2),
        device_class=Cap(25, percent=True),
        domain=Cap(4),
        cluster=Cap(5, percent=True, least=4, most=16),
        rate=Rate(8, timedelta(minutes=10)),
    )
    """A third sick GPU in one machine points to the machine. The cluster's least is what two nodes
    may use, so that one node leaves room for another even in the smallest cluster."""
    taint: Caps = Caps(node=Cap(16), cluster=Cap(10, percent=True, least=24))
    """Nearly every machine has fewer GPUs than the node's cap. The cluster's least is higher: a
    machine that fails as a whole, or invents GPUs, leaves room for 8 elsewhere."""
    correlation: Correlation = Correlation()


LIFTED = Limits(
    evict=Caps(), taint=Caps(), correlation=Correlation(nodes=0, after_change=timedelta())
)
"""Limits that defer nothing."""


def describe_limits(limits: Limits) -> tuple[tuple[str, str, str], ...]:
    """Return each limit as (path, value, meaning), for a page, an explanation or the log."""
    found: list[tuple[str, str, str]] = []
    for action, verb, counted in (
        ("evict", "evicted from", "GPUs with evictions, not Drained yet"),
        ("taint", "tainted", "tainted GPUs of existing nodes"),
    ):
        caps: Caps = getattr(limits, action)
        for ground, key in KEYS.items():
            cap: Cap | None = getattr(caps, _FIELDS[ground])
            where = f"in {WORDS[ground]}" if ground == "cluster" else f"per {WORDS[ground]}"
            meaning = f"{counted}: {where}"
            found.append((f"budget.{action}.{key}", "none" if cap is None else str(cap), meaning))
        rate = "none" if caps.rate is None else str(caps.rate)
        found.append((f"budget.{action}.rate", rate, f"GPUs newly {verb}, in any such period"))
    correlation = limits.correlation
    return (
        *found,
        (
            "budget.correlation.nodes",
            str(correlation.nodes),
            "nodes with one new cause: evictions wait",
        ),
        ("budget.correlation.within", spell(correlation.within), "counting period"),
        (
            "budget.correlation.after_change",
            spell(correlation.after_change),
            "after a change of driver, agent or policy: evictions wait",
        ),
        (
            "budget.correlation.taint",
            "none" if correlation.taint is None else str(correlation.taint),
            "tainted GPUs of one product and driver version, beyond which one new cause defers "
            "NoSchedule, too",
        ),
    )
