"""Panels on ResourceClaims by state and reason, from the explainer. Pure.

Only the replica that leads exports claims, and not while it cannot trust its watches. Then nothing
is 0: a count is 0 only where the explainer has looked at all claims.
"""

from dashboards import links, stats
from dashboards.panel import (
    BLUE,
    GREEN,
    ORANGE,
    PLAIN,
    RED,
    UNKNOWN,
    BarGauge,
    Column,
    Meaning,
    Query,
    Stat,
    Step,
    Table,
    TimeSeries,
)
from dashboards.promql import filled, of_cluster, once

NO_DATA = "no explainer data"
_UNKNOWN = f"Unknown: {NO_DATA}"
_NAMESPACES = 'dra_claim_namespace=~"$namespace"'
_CLAIMS = f'{_NAMESPACES}, dra_claim_name=~"$claim"'
_NOT_RUNNING = 'state=~"Pending|Binding|Preparing|Deleting"'
_LOOKED = of_cluster("draguard_explainer_rows_dropped", 'family="claims"')
_NONE = f"0 * max({_LOOKED})"
"""0 where the explainer has looked at all claims, and nothing where it has not."""
_PENDING = 'state="Pending", reason!="NoPod"'
"""What a pod waits for; a claim that no pod uses is never allocated."""
_WAITING = (
    "dra_claim_namespace, dra_claim_name, pod_name, pod_claim, dra_device_class, state, reason"
)
COLOURS = {
    "Pending": ORANGE,
    "Binding": "dark-orange",
    "Preparing": "dark-blue",
    "Running": GREEN,
    "Allocated": BLUE,
    "Unused": PLAIN,
    "Deleting": "dark-red",
}


def _counted(matchers: str) -> str:
    """Select claims once, however often they were scraped."""
    key = "dra_claim_namespace, dra_device_class, dra_driver_name, state, reason"
    return once(key, of_cluster("draguard_claims", matchers))


def _since(matchers: str) -> str:
    """Return how long each of the oldest waiting claims has been in its state."""
    key = (
        "dra_claim_namespace, dra_claim_name, pod_name, pod_claim, dra_device_class, state, reason"
    )
    since = once(key, of_cluster("draguard_claim_since_timestamp_seconds", matchers))
    return f"time() - {since}"


def pending() -> Stat:
    """Return how many claims of all namespaces wait for a device."""
    return stats.number(
        "Pending claims",
        "ResourceClaims without a device that a pod waits for. The claim dashboard lists them "
        f"with reasons. {_UNKNOWN}.",
        f"sum({_counted(_PENDING)}) or {_NONE}",
        stats.NOTABLE,
        empty=NO_DATA,
    )


def longest() -> Stat:
    return stats.number(
        "Longest pending",
        "How long the oldest claim has waited for a device, of those that a pod waits for.",
        f"max({_since(f'{_CLAIMS}, {_PENDING}')})",
        (Step(-3600, PLAIN), Step(600, ORANGE), Step(3600, RED)),
        empty="none of these claims is pending",
        unit="s",
        none="None, or no explainer data",
    )


def explainer() -> Stat:
    """Return whether there is anybody who knows why claims wait."""
    leads = f"max by (cluster) ({of_cluster('draguard_explainer_leader')})"
    return stats.state(
        "Explainer",
        "Whether the explainer knows the states of claims. Blind: it leads, and cannot trust its "
        "watches; what is below is unknown then.",
        f"min({leads} + on (cluster) (0 * max by (cluster) ({_LOOKED}) + 1) or {leads})",
        (
            Meaning(2, "knows all", GREEN),
            Meaning(1, "blind", UNKNOWN),
            Meaning(0, "no leader", RED),
        ),
        empty=NO_DATA,
        none="no data",
    )


def states() -> Stat:
    return Stat(
        title="Claims by state",
        says="ResourceClaims of these namespaces. **Pending**: not allocated. **Binding**: "
        "allocated, and its pod has no node yet. **Preparing**: its pod is on a node and does not "
        "run yet. **Running**. **Allocated**: reserved for a pod group, or for pods that have "
        "ended. **Unused**: allocated, and reserved for nothing. **Deleting**. States without a "
        "claim are not shown.",
        queries=(
            Query(
                expr=f"sum by (state) ({_counted(_NAMESPACES)})",
                legend="{{state}}",
                empty=f"there is no claim, or {NO_DATA}",
            ),
        ),
        unit="short",
        decimals=0,
        steps=(Step(0, PLAIN),),
        filled=True,
        named=True,
        colours=COLOURS,
        none="No claim, or no explainer data",
        width=12,
        height=stats.SIZE,
    )


def by_class() -> BarGauge:
    waiting = filled(_counted(f"{_NAMESPACES}, {_NOT_RUNNING}"), "dra_device_class", "not known")
    return BarGauge(
        title="Waiting claims by DeviceClass",
        says="Claims that are Pending, Binding, Preparing or Deleting. mixed: a claim of several "
        "classes. not known: no claim exists yet.",
        queries=(
            Query(
                expr=f"sum by (dra_device_class) ({waiting})",
                legend="{{dra_device_class}}",
                empty=f"no claim waits, or {NO_DATA}",
            ),
        ),
        unit="short",
        decimals=0,
        none="None waits, or no explainer data",
        width=12,
        height=stats.SIZE,
    )


def over_time() -> tuple[TimeSeries, ...]:
    """Return what waits and why, for how long, and how long claims took."""
    reasons = _counted(f"{_NAMESPACES}, {_NOT_RUNNING}")
    ages = once(
        "dra_claim_namespace, state, reason, age",
        of_cluster("draguard_claims_older", f"{_NAMESPACES}, {_NOT_RUNNING}"),
    )
    families = (f"draguard_claim_{step}_seconds_bucket" for step in ("allocation", "start"))
    took = (
        once("dra_device_class, instance, le", f"rate({of_cluster(family)}[$__rate_interval])")
        for family in families
    )
    return (
        TimeSeries(
            title="Waiting claims by reason",
            says="Claims that are Pending, Binding, Preparing or Deleting, by the reason of "
            "`draguard why`; docs/claims.md explains each. NoPod: no pod uses the claim. The line "
            "none shows that the explainer has looked; without it the number is unknown.",
            queries=(
                Query(
                    expr=f"sum by (state, reason) ({reasons})",
                    legend="{{state}} {{reason}}",
                    empty=f"no claim waits, or {NO_DATA}",
                ),
                _quiet(),
            ),
            unit="short",
            decimals=0,
            stepped=True,
            none=_UNKNOWN,
            width=8,
            height=7,
        ),
        TimeSeries(
            title="Waiting claims by age",
            says="Claims that have been Pending, Binding, Preparing or Deleting for longer than "
            "that. Each is in every line that it is older than.",
            queries=(
                Query(
                    expr=f"sum by (age) ({ages})",
                    legend="over {{age}}",
                    empty=f"no claim has waited for a minute, or {NO_DATA}",
                ),
                _quiet(),
            ),
            unit="short",
            decimals=0,
            stepped=True,
            none=_UNKNOWN,
            width=8,
            height=7,
        ),
        TimeSeries(
            title="Time to allocation and start",
            says="90 % of the claims took at most this long, by DeviceClass, of all namespaces. "
            "Allocated: from the claim's creation. Started: from its allocation until its pod "
            "runs. A gap: no claim got so far.",
            # The quantile of no samples is NaN. `>= 0` drops it: comparing NaN gives false.
            queries=tuple(
                Query(
                    expr=f"histogram_quantile(0.9, sum by (dra_device_class, le) ({rates})) >= 0",
                    legend=f"{{{{dra_device_class}}}} {word}",
                    empty=f"no claim got so far in this time, or {NO_DATA}",
                )
                for rates, word in zip(took, ("allocated", "started"), strict=True)
            ),
            unit="s",
            none="No claim got so far, or no explainer data",
            width=8,
            height=7,
        ),
    )


def _quiet() -> Query:
    return Query(expr=_NONE, legend="none", empty=NO_DATA)


def oldest() -> Table:
    return Table(
        title="Oldest waiting claims",
        says="The 500 claims that wait for longest. Without a name: no claim exists yet for what "
        "the pod names or requests. `draguard why POD` explains each.",
        queries=(Query(expr=_since(_CLAIMS), value="age", empty=f"no claim waits, or {NO_DATA}"),),
        none="None waits (unknown without explainer data)",
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="dra_claim_namespace", title="Namespace"),
            Column(source="dra_claim_name", title="Claim", none="-", links=(links.TO_CLAIM,)),
            Column(source="pod_name", title="Pod", none="-"),
            Column(source="pod_claim", title="Claim in the pod", none="-"),
            Column(source="dra_device_class", title="DeviceClass", none="-"),
            Column(source="state", title="State", width=100),
            Column(source="reason", title="Reason", width=160),
            Column(source="age", title="Since", unit="s", width=120),
        ),
        sort="Since",
        width=24,
        height=7,
    )
