"""The tables of docs/remediator-metrics.md, from those that the remediator's page is made from."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from remediator.controller.metric_table import OWN_FAMILIES
from remediator.metrics.families import CLUSTER_FAMILIES
from remediator.metrics.lifecycle import LIFECYCLE_FAMILIES
from serving.families import Family
from tools.generated_docs.table import Tables


def _rows(families: Iterable[Family]) -> Iterator[Sequence[str]]:
    yield "metric", "type", "labels", "what it says"
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        yield f"`{family.full_name}`", family.kind, labels, family.text


TABLES: Tables = {
    "families": partial(_rows, OWN_FAMILIES),
    "lifecycle-families": partial(_rows, LIFECYCLE_FAMILIES),
    "cluster-families": partial(_rows, CLUSTER_FAMILIES),
}
