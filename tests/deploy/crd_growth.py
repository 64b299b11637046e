"""What a CRD's schema no longer takes that an earlier one took. Pure."""

from collections.abc import Iterator
from math import inf
from typing import Any

Json = dict[str, Any]
UPPER = ("maxLength", "maxItems", "maxProperties", "maximum")
LOWER = ("minLength", "minItems", "minProperties", "minimum")
_SAME = ("type", "format", "pattern", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")


def narrowings(old: Json, new: Json) -> list[str]:
    """Return a sentence for each way in which a CRD refuses or drops what the old one stored."""
    found: list[str] = []
    after = {version["name"]: version for version in new["spec"]["versions"]}
    for version in old["spec"]["versions"]:
        name = version["name"]
        if name not in after or not after[name]["served"]:
            found.append(f"{name} is not served any more")
            continue
        before, now = (each["schema"]["openAPIV3Schema"] for each in (version, after[name]))
        found.extend(_narrowed(before, now, name))
    return found


def _narrowed(old: Json, new: Json, at: str) -> Iterator[str]:
    yield from (
        f"{at}: {key} {old[key]} is {new.get(key)}"
        for key in _SAME
        if key in old and old[key] != new.get(key) and not (key == "pattern" and key not in new)
    )
    yield from (f"{at}: a new {key}" for key in ("format", "pattern") if key in set(new) - set(old))
    yield from (f"{at}: a lower {key}" for key in UPPER if new.get(key, inf) < old.get(key, inf))
    yield from (f"{at}: a higher {key}" for key in LOWER if new.get(key, -inf) > old.get(key, -inf))
    if "enum" in new and not set(new["enum"]) >= set(old.get("enum", [object()])):
        yield f"{at}: fewer values"
    if demanded := set(new.get("required", ())) - set(old.get("required", ())):
        yield f"{at}: requires {', '.join(sorted(demanded))}"
    rules = [rule["rule"] for rule in old.get("x-kubernetes-validations", ())]
    for rule in new.get("x-kubernetes-validations", ()):
        if rule["rule"] not in rules:
            yield f"{at}: a new rule {rule['rule']}"
    for name, below in old.get("properties", {}).items():
        if name in new.get("properties", {}):
            yield from _narrowed(below, new["properties"][name], f"{at}.{name}")
        else:
            yield f"{at}.{name}: gone"
    for key in ("items", "additionalProperties"):
        if isinstance(old.get(key), dict):
            yield from _narrowed(old[key], new.get(key, {}), f"{at}[]")
