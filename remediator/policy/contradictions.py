"""Finds keys of a policy file that exclude or need each other.

Reads the document as it is written, so it finds these even if other values are refused.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from remediator.diagnose.fault import SEVERITY
from remediator.policy.section import show_value
from remediator.policy.table import CEILINGS, HIGHEST
from remediator.policy.yaml_document import Path, Problem

_Mapping = Mapping[str, Any]


def contradictions(whole: Any) -> Iterator[Problem]:
    """Yield the contradictions in a whole document."""
    yield from _check_ceilings((), whole)
    for path, override in _entries(whole, "overrides"):
        yield from _check_ceilings(path, override)
        if _is_empty(override.get("match")):
            why = "names nothing; give any of deviceClass, driver, pool, node"
            yield (*path, "match"), f"{why}, or write what holds everywhere outside overrides"
        if _is_empty(override.get("defaults")) and _is_empty(override.get("classes")):
            yield path, "changes nothing; give defaults or classes"
    names: set[object] = set()
    for path, window in _entries(whole, "maintenance"):
        yield from _check_exactly_one(path, window, "nodes", "pools")
        given = [window.get(key) is not None for key in ("from", "until")]
        if window.get("weekly") is not None:
            if any(given):
                yield path, "give either from and until, or weekly"
        elif not all(given):
            yield path, "give from and until, or weekly"
        name = window.get("name")
        if isinstance(name, str) and name.strip() in names - {""}:
            yield (*path, "name"), f"{show_value(name)} is another window's name"
        names |= {name.strip()} if isinstance(name, str) else set()
    for path, exempt in _entries(whole, "exempt"):
        yield from _check_exactly_one(path, exempt, "devices", "nodes", "pools")


def _entries(whole: Any, key: str) -> Iterator[tuple[Path, _Mapping]]:
    """Yield the mappings of a list with their paths; other entries are refused elsewhere."""
    stated = _value_at(whole, key)
    for index, entry in enumerate(cast("list[object]", stated) if isinstance(stated, list) else ()):
        if isinstance(entry, dict):
            yield (key, index), cast("_Mapping", entry)


def _value_at(stated: Any, *path: str) -> Any:
    for key in path:
        stated = cast("_Mapping", stated).get(key) if isinstance(stated, dict) else None
    return stated


def _check_ceilings(path: Path, stated: Any) -> Iterator[Problem]:
    for fault_class in SEVERITY:
        ceiling = _value_at(stated, "classes", fault_class, "ceiling")
        highest = CEILINGS.index(HIGHEST.get(fault_class, "NoExecute"))
        if ceiling in CEILINGS[highest + 1 :]:
            why = (
                f"{ceiling} is not possible for {fault_class}: under it running work may finish; "
                f"one of {', '.join(CEILINGS[: highest + 1])}"
            )
            yield (*path, "classes", fault_class, "ceiling"), why


def _is_empty(stated: Any) -> bool:
    if isinstance(stated, dict):
        return all(map(_is_empty, cast("_Mapping", stated).values()))
    return stated in (None, "")


def _check_exactly_one(path: Path, stated: _Mapping, *keys: str) -> Iterator[Problem]:
    if sum(stated.get(key) is not None for key in keys) != 1:
        yield path, f"give exactly one of {', '.join(keys)}; write an entry for each"
