"""Expressions of several dashboards: scopes, joins without double counting, what is known.

Every selector filters by `cluster` and every aggregation keeps it where it can matter. Both
replicas export a family of the remediator, so each is taken once (`max by`) before it is counted.
Pure.
"""

import msgspec

CLUSTER = 'cluster=~"$cluster"'


class Scope(msgspec.Struct, frozen=True):
    """The subject of a dashboard, as label matchers for each program's series."""

    exporter: str
    remediator: str

    def seen(self, family: str, matchers: str = "") -> str:
        """Select a family of the exporter that names a node or GPU."""
        return _selector(family, self.exporter, matchers)

    def done(self, family: str, matchers: str = "") -> str:
        """Select a family of the remediator that names a node or GPU."""
        return _selector(family, self.remediator, matchers)


FLEET = Scope(CLUSTER, CLUSTER)
NODE = Scope(f'{CLUSTER}, Hostname="$node"', f'{CLUSTER}, node="$node"')
DEVICE = Scope(f'{CLUSTER}, UUID="$uuid"', f'{CLUSTER}, UUID="$uuid"')
HELD = Scope(f'{CLUSTER}, UUID=~"$held"', f'{CLUSTER}, UUID=~"$held"')
"""The GPUs of the chosen claims."""
INCIDENTS = Scope(
    f'{CLUSTER}, Hostname=~"$node"', f'{CLUSTER}, node=~"$node", incident=~"$incident"'
)

LEADING = f"max by (cluster) (draguard_remediator_leader{{{CLUSTER}}}) == 1"
"""1 where a remediator leads; without a leader, the absence of incidents means nothing."""
NONE_OPEN = f"0 * ({LEADING})"
"""0 where a remediator leads, and nothing where none does."""


def of_cluster(family: str, matchers: str = "") -> str:
    """Select a family that names neither node nor GPU."""
    return _selector(family, CLUSTER, matchers)


def _selector(family: str, scope: str, matchers: str) -> str:
    return f"{family}{{{', '.join(part for part in (scope, matchers) if part)}}}"


def once(labels: str, selector: str) -> str:
    """Take what both replicas export, or several rows of one thing, once."""
    return f"max by (cluster, {labels}) ({selector})"


def filled(expr: str, label: str, word: str) -> str:
    """Put a word where a label is empty.

    Tables join their queries on the labels that all of them have, and a query of whole GPUs
    alone would have none for the slice.
    """
    return f'label_replace({expr}, "{label}", "{word}", "{label}", "")'


def or_none_open(counted: str) -> str:
    """Turn an empty count into 0 if a remediator leads; otherwise it stays empty."""
    return f"sum({counted}) or sum({NONE_OPEN})"


def at_nodes(family: str, matchers: str = "") -> str:
    """Label a family that names no node with the node of its metrics page, as `Hostname`.

    It has the same `instance` as the GPUs of its page. A page without a GPU has the node that the
    scrape names (a target label `node`, as our PodMonitor sets it), or none. An address that moved
    to another node belongs to both nodes for minutes; one of them is used.
    """
    series = of_cluster(family, matchers)
    named = label_node(series)
    nodes = once("instance, Hostname", of_cluster("draguard_gpu_info"))
    newest = f"topk by (cluster, instance) (1, {nodes})"
    joined = f"{series} * on (cluster, instance) group_left (Hostname) {newest}"
    return f"({joined}) or on (cluster, instance, source) {named}"


def once_at_nodes(labels: str, pages: str) -> str:
    """Take the pages of one node once; `pages` as `at_nodes` gives them.

    While a pod is replaced, a node has two. Pages of no known node are distinguished by their
    address.
    """
    joined = f'label_join({pages}, "Hostname", "{_BETWEEN}", "Hostname", "instance")'
    first = f"{_BETWEEN}*([^{_BETWEEN}]*)(?s:.*)"
    named = f'label_replace({joined}, "Hostname", "$1", "Hostname", "{first}")'
    return once(f"Hostname, {labels}", named)


_BETWEEN = r"\t"
"""In no name of a host, nor in an address."""


def at_node(family: str, matchers: str = "") -> str:
    """Select a family of the page itself for the node of the `node` variable, as `at_nodes`."""
    gpus = NODE.seen("draguard_gpu_info")
    by_gpus = f"{of_cluster(family, matchers)} and on (cluster, instance) {gpus}"
    chosen = ", ".join(part for part in ('node="$node"', matchers) if part)
    return f"({of_cluster(family, chosen)} or ({by_gpus}))"


def label_node(expr: str) -> str:
    """Spell the node as device series do."""
    return f'label_replace({expr}, "Hostname", "$1", "node", "(.+)")'


def age(family: str) -> str:
    """Return seconds since the times of a family of timestamps."""
    return f"time() - {of_cluster(family)}"


RECENTLY = "1h"
"""For how long a GPU is listed after its last export, whatever happened to its exporter."""
LONG_AGO = ("2h", "6h", "1d")
"""Earlier times at which it is looked up. One sample at each costs less than a day of samples."""


def known_recently(selector: str) -> str:
    """Select what was exported at any time of the last hour; its value is 1."""
    return f"present_over_time({selector}[{RECENTLY}])"


def known_long_ago(selector: str) -> str:
    """Select what was exported at one of the moments before that."""
    return " or ".join(f"{selector} offset {ago}" for ago in LONG_AGO)


NUMBER = "GPU"
"""A label that is made here, so that Prometheus sorts lines by number and not by UUID."""


def number(scope: Scope) -> str:
    """Return 1 for each GPU that has or had an index of NVML, the latest one as label `NUMBER`.

    A lost GPU has no index any more, but users know it by the index that it had.
    """
    shown = scope.seen("draguard_gpu_info", 'gpu!=""')
    indices = f"2 * {shown} or {known_recently(shown)} or {known_long_ago(shown)}"
    latest = f"topk by (cluster, UUID) (1, {once('UUID, gpu', indices)})"
    return (
        f'label_replace(group by (cluster, UUID, gpu) ({latest}), "{NUMBER}", "$1", "gpu", "(.+)")'
    )


def numbered(expr: str, scope: Scope) -> str:
    """Give rows of GPUs their number as label `NUMBER`, `?` where there never was one."""
    found = f"({expr}) * on (cluster, UUID) group_left ({NUMBER}) {number(scope)}"
    return filled(f"{found} or on (cluster, UUID) ({expr})", NUMBER, "?")


_GPU_KEY = "cluster, Hostname, UUID"
DEVICE_KEY = f"{_GPU_KEY}, GPU_I_ID"
"""The labels of a device: a GPU, or one slice of it, at a node; boards move."""


def holders(scope: Scope = FLEET, matchers: str = "", *, ago: str = "", within: str = "") -> str:
    """Return one row for each claim and device, however many pods and containers share it.

    Admin access holds nothing. `ago` selects the holders that long ago, `within` those at any time
    since.
    """
    chosen = ", ".join(part for part in ('dra_claim_name!=""', 'admin!="true"', matchers) if part)
    rows = scope.seen("draguard_device_allocation_info", chosen)
    rows = f"{rows} offset {ago}" if ago else rows
    rows = f"present_over_time({rows}[{within}])" if within else rows
    claim = "dra_claim_namespace, dra_claim_name"
    return once(f"Hostname, UUID, GPU_I_PROFILE, GPU_I_ID, {claim}", rows)


def of_holders(value: str, held: str, keep: str = "") -> str:
    """Give each claim the value of each device that it holds; `value` has one row per device."""
    return f"{held} * on ({DEVICE_KEY}) group_left ({keep}) ({value})"


def of_holders_gpus(value: str, held: str, keep: str = "") -> str:
    """Do as `of_holders` for what a GPU has and its slices do not: temperature, power, health."""
    return f"{held} * on ({_GPU_KEY}) group_left ({keep}) ({value})"


_PLACE = "Hostname, UUID, gpu, GPU_I_PROFILE, GPU_I_ID"


def busy(scope: Scope, window: str = "", by: str = _PLACE) -> str:
    """Return the utilization of GPUs and slices, 0 to 1.

    It is the counter of the engines if there is one (each slice has its own), else NVML's coarser
    utilization, which slices do not have.
    """

    def read(family: str) -> str:
        selector = scope.seen(family)
        taken = f"avg_over_time({selector}[{window}])" if window else selector
        return once(by, taken)

    coarse = read("DCGM_FI_DEV_GPU_UTIL")
    return f"{read('DCGM_FI_PROF_GR_ENGINE_ACTIVE')} or {coarse} / 100"


def memory_share(scope: Scope, by: str) -> str:
    """Return the share of a device's memory in use, 0 to 1."""
    used = once(by, scope.seen("DCGM_FI_DEV_FB_USED"))
    free = once(by, scope.seen("DCGM_FI_DEV_FB_FREE"))
    kept = once(by, scope.seen("DCGM_FI_DEV_FB_RESERVED"))
    return f"{used} / ({used} + {free} + ({kept} or 0 * {used}))"
