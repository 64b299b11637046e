"""Each reason of the condition `Deferred` is named wherever users look it up."""

from pathlib import Path
from typing import get_args

import pytest

from remediator.metrics.families import CLUSTER_FAMILIES
from remediator.metrics.lifecycle import LIFECYCLE_FAMILIES
from remediator.plan.stages import DeferredBy

ROOT = Path(__file__).parents[2]
REASONS: tuple[DeferredBy, ...] = get_args(DeferredBy)
PLACES = ("docs/remediation.md", "dashboards/json/draguard-remediation.json")


@pytest.mark.parametrize("place", PLACES)
def test_it_is_in_the_documents_and_the_dashboard(place: str) -> None:
    text = (ROOT / place).read_text(encoding="utf-8")

    assert [reason for reason in REASONS if reason not in text] == []


def test_it_is_in_the_text_of_each_metric_with_that_label() -> None:
    families = (*CLUSTER_FAMILIES, *LIFECYCLE_FAMILIES)
    texts = [family.text for family in families if "Blindness" in family.text]

    assert len(texts) == 2
    assert [reason for reason in REASONS if any(reason not in text for text in texts)] == []
