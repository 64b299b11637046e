"""The tables of docs/explainer.md, from the explainer's flags and the tables of its page."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import get_args, get_type_hints

from allocation.explainer.families import CLAIM_FAMILIES, DURATION_FAMILIES, OWN_FAMILIES
from allocation.explainer.settings import Settings
from tools.generated_docs.remediator_metrics import family_rows
from tools.generated_docs.table import Tables


def _flags() -> Iterator[Sequence[str]]:
    yield "flag", "default", "meaning"
    standard = Settings()
    for name, hint in get_type_hints(Settings, include_extras=True).items():
        kind, meta = get_args(hint)
        default, flag = getattr(standard, name), name.replace("_", "-")
        if kind is bool:
            yield f"`--[no-]{flag}`", "on" if default else "off", meta.description
        else:
            yield f"`--{flag}`", "" if default in ("", None) else f"`{default}`", meta.description


TABLES: Tables = {
    "flags": _flags,
    "claim-families": partial(family_rows, (*CLAIM_FAMILIES, *DURATION_FAMILIES)),
    "own-families": partial(family_rows, OWN_FAMILIES),
}
