"""PromQL that gives series of different components the same label names.

The exporter has the node as `Hostname` on device series, and as the target label `node` on its
other series; the remediator has `node`. Alerts have `cluster`, `node`, `UUID`. They have no pod,
port, value or XID code, because a change of these would be another alert.
"""

DEVICE = ("cluster", "node", "UUID")
NODE = ("cluster", "node")
BOARD = ("cluster", "UUID")
"""A GPU on any node, for alerts that concern several nodes."""
SLICE = (*DEVICE, "GPU_I_ID")
CLAIM = ("cluster", "dra_claim_namespace", "dra_claim_name")

_BETWEEN = r"\t"
"""Occurs in no Kubernetes name, host name or address."""


def named(expr: str) -> str:
    """Return the vector with a label `node`: its own, else `Hostname`, else `instance`."""
    joined = f'label_join({expr}, "node", "{_BETWEEN}", "node", "Hostname", "instance")'
    first = f"{_BETWEEN}*([^{_BETWEEN}]*)(?s:.*)"
    return f'label_replace({joined}, "node", "$1", "node", "{first}")'


def by(labels: tuple[str, ...], expr: str, operation: str = "max") -> str:
    """Return one sample for each set of these labels, however often it was scraped."""
    return f"{operation} by ({', '.join(labels)}) (\n  {expr}\n)"


def of(labels: tuple[str, ...], expr: str, operation: str = "max") -> str:
    """Return `by` of an exporter's series, with a uniform label `node`."""
    return by(labels, named(expr), operation)


def on(labels: tuple[str, ...]) -> str:
    """Return the vector matching on these labels."""
    return f"on ({', '.join(labels)})"
