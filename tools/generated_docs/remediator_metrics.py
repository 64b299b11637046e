"""The tables of docs/remediator-metrics.md, from those that the remediator's page is made from."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from remediator.controller.metric_table import OWN_FAMILIES
from remediator.metrics.families import CLUSTER_FAMILIES
from remediator.metrics.lifecycle import LIFECYCLE_FAMILIES
from serving.families import Family
from tools.generated_docs.table import Tables


def family_rows(families: Iterable[Family]) -> Iterator[Sequence[str]]:
    """Yield the rows of a table of metrics."""
    yield "metric", "type", "labels", "what it says"
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        yield f"`{family.full_name}`", family.kind, labels, family.text


TABLES: Tables = {
    "families": partial(family_rows, OWN_FAMILIES),
    "lifecycle-families": partial(family_rows, LIFECYCLE_FAMILIES),
    "cluster-families": partial(family_rows, CLUSTER_FAMILIES),
}
