"""PromQL that gives series of different pages the same names for the same things.

The exporter calls a node `Hostname` where a series is of a device, and leaves its name to the
scrape (a target label `node`) where it is of the page; the remediator says `node`. Alerts have
`cluster`, `node`, `UUID`: no pod, port, value or XID code, so that nothing but another thing is
another alert.
"""

DEVICE = ("cluster", "node", "UUID")
NODE = ("cluster", "node")
BOARD = ("cluster", "UUID")
"""A GPU wherever it is, for what is said of it by more than one node."""
SLICE = (*DEVICE, "GPU_I_ID")
CLAIM = ("cluster", "dra_claim_namespace", "dra_claim_name")

_BETWEEN = r"\t"
"""In no name of Kubernetes, host or address."""


def named(expr: str) -> str:
    """Return the vector with a label `node`: its own, else `Hostname`, else `instance`."""
    joined = f'label_join({expr}, "node", "{_BETWEEN}", "node", "Hostname", "instance")'
    first = f"{_BETWEEN}*([^{_BETWEEN}]*)(?s:.*)"
    return f'label_replace({joined}, "node", "$1", "node", "{first}")'


def by(labels: tuple[str, ...], expr: str, operation: str = "max") -> str:
    """Return one sample for each thing that the labels name, whoever scraped it, however often."""
    return f"{operation} by ({', '.join(labels)}) (\n  {expr}\n)"


def of(labels: tuple[str, ...], expr: str, operation: str = "max") -> str:
    """Return `by` of an exporter's series, which name their node each in its own way."""
    return by(labels, named(expr), operation)


def on(labels: tuple[str, ...]) -> str:
    """Return the matching of two sides that have these labels."""
    return f"on ({', '.join(labels)})"
