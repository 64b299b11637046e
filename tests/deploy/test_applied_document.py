"""What docs/security.md says of rights is what the roles say, and its commands work."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy import grants, rendered
from tests.deploy.grants import Grant

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"
ACCOUNTS = ("draguard-agent", "draguard-remediator", "draguard-explainer", "draguard-cleanup")
SETTINGS = {
    "": (),
    "`exporter.podLabels.enabled`": ("exporter.podLabels.enabled=true",),
    "`remediator.deletePods`": ("remediator.deletePods=true",),
    "`remediator.nodeConditions.enabled`": ("remediator.nodeConditions.enabled=true",),
}
Row = tuple[str, str, str, str, str]


def written() -> set[Row]:
    """Return the rows of the table, without what each is for."""
    section = DOCUMENT.read_text(encoding="utf-8").partition("\n## The rights\n")[2]
    table = section.partition("\n## ")[0]
    found = (line.split("|")[1:6] for line in table.splitlines() if line.startswith("| draguard-"))
    return {(a.strip(), b.strip(), c.strip(), d.strip(), e.strip()) for a, b, c, d, e in found}


def of_roles() -> Iterator[Row]:
    shipped = rendered.objects()
    for setting, values in SETTINGS.items():
        objects = rendered.objects(values)
        for account in ACCOUNTS:
            had = grants.of_account(shipped, account) if setting else frozenset[Grant]()
            yield from _rows(account, grants.of_account(objects, account) - had, setting)


def _rows(account: str, granted: frozenset[Grant], setting: str) -> Iterator[Row]:
    verbs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for grant in granted:
        what = f"{grant.resource}.{grant.group}" if grant.group else grant.resource
        where = "its namespace" if grant.namespace else "cluster"
        verbs[f"{what} {grant.name}".strip(), where].append(grant.verb)
    for (what, where), may in verbs.items():
        yield account, what, ", ".join(sorted(may)), where, setting


@pytest.mark.usefixtures("helm_built")
def test_the_table_of_rights_is_that_of_the_roles() -> None:
    assert written() == set(of_roles())
