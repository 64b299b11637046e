"""docs/policy.md is complete, and every policy in it is sound."""

from collections.abc import Iterator

import msgspec
import pytest
from msgspec import inspect

from remediator.policy.limits import Limits, described
from remediator.policy.reading import read
from remediator.policy.schema import PolicyText
from remediator.policy.table import SHIPPED
from tests.remediator.policy.policy_examples import DOCUMENT, EXAMPLE, RECIPES


def keys(kind: inspect.Type) -> Iterator[str]:
    if isinstance(kind, inspect.Metadata):
        yield from keys(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from keys(one)
    elif isinstance(kind, inspect.VarTupleType):
        yield from keys(kind.item_type)
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield field.encode_name
            yield from keys(field.type)


def test_every_key_class_and_limit_has_its_line() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    lines = [line.partition(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    told = {line.strip("| `").rpartition(".")[2] for line in lines}

    assert {*keys(inspect.type_info(PolicyText))} <= told
    assert {row.fault_class for row in SHIPPED} <= told
    assert all(f"| `{path}` |" in text for path, _, _ in described(Limits()))
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
