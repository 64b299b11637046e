"""docs/policy.md is complete, and every policy in it is sound."""

from collections.abc import Iterator
from typing import get_args

import msgspec
import pytest

from remediator.policy.limits import Limits, describe_limits
from remediator.policy.load import read
from remediator.policy.schema import PolicyText
from remediator.policy.section import Section, keys
from remediator.policy.table import SHIPPED
from tests.remediator.policy.policy_examples import DOCUMENT, EXAMPLE, RECIPES


def written(section: type[Section]) -> Iterator[str]:
    """Yield every key; those of the budget are from `describe_limits`."""
    for name, field in keys(section).items():
        yield name
        for below in sections(field.annotation) if name != "budget" else ():
            yield from written(below)


def sections(annotation: object) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for part in get_args(annotation):
        yield from sections(part)


def test_every_key_class_and_limit_has_its_line() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    lines = [line.partition(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    reported = {line.strip("| `").rpartition(".")[2] for line in lines}

    assert len({*written(PolicyText)}) > 40
    assert {*written(PolicyText)} <= reported
    assert {row.fault_class for row in SHIPPED} <= reported
    assert all(f"| `{path}` |" in text for path, _, _ in describe_limits(Limits()))
    assert all(row.why in text for row in SHIPPED)


@pytest.mark.parametrize("text", [EXAMPLE, *RECIPES])
def test_every_policy_in_the_document_is_sound(text: str) -> None:
    assert read(text)


def test_the_recipes_do_what_they_promise() -> None:
    dry_run, one_pool, maintenance, nothing = map(read, RECIPES)

    assert dry_run.row("contained").mode == "dry-run"
    assert dry_run.row("gpu").mode == "incident-only"
    assert one_pool.row("gpu").mode == "incident-only"
    assert msgspec.structs.asdict(one_pool.overrides[0].match)["pools"] == ("rack7-*",)
    assert maintenance.maintenance[0].name == "firmware"
    assert {row.mode for row in nothing.rows} == {"off"}
