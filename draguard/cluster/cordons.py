"""Cordons into DeviceTaintRules that stand, each by itself; each one's end is told.

Two people may be at it at once, and the API server may refuse one of several or
keep silent. So a write that lost a race looks again before it is repeated, one
that failed ends no other, and one that nobody answered is not called undone.
"""

from collections.abc import Sequence

import msgspec

from draguard.cluster.cordon_rule import (
    CORDONED_BY,
    WHY,
    Cordon,
    device_of,
    is_maintenance,
    label_value,
    manifest,
)
from draguard.cluster.listing import listed
from draguard.cluster.objects import Objects
from draguard.phrases import some
from kubeapi.client import ApiError, Client, Conflict, NotFound
from remediator.controller.feature_gates import StatedRule
from remediator.controller.versions import GROUP
from remediator.model.taint_rule import EFFECTS

RULES = "devicetaintrules"
FAILED = "NOT"
"""How `Changed.done` begins where nothing was done, or nobody knows."""
TRIES = 4
"""How often a write is tried that somebody else comes before."""
UNTRIED = f"{FAILED} tried: the server does not answer"
_NOBODY_THERE = (401, 403)


class Changed(msgspec.Struct, frozen=True):
    device: str
    effect: str
    rule: str
    done: str
    """`cordoned`, `already cordoned by ...`, `uncordoned`, `would be ...`, `NOT ...: why`."""

    @property
    def failed(self) -> bool:
        return self.done.startswith(FAILED)


def rules_path(objects: Objects) -> str:
    return f"/apis/{GROUP}/{objects.rule_version}/{RULES}"


def all_stand(
    client: Client, objects: Objects, cordons: Sequence[Cordon], *, dry: bool
) -> tuple[Changed, ...]:
    """Make every cordon stand, or say of each why it does not.

    Raises ApiError where the very first shows that the caller may do none of it.
    """
    changed: list[Changed] = []
    silent = False
    for one in cordons:
        if silent:
            changed.append(_changed(one, UNTRIED))
            continue
        try:
            changed.append(_stand(client, objects, one, dry=dry))
        except ApiError as error:
            if not changed and error.status in _NOBODY_THERE:
                raise
            silent = error.status is None
            changed.append(_changed(one, f"{FAILED} {'verified as ' * silent}cordoned: {error}"))
    return tuple(changed)


def _changed(cordon: Cordon, done: str) -> Changed:
    return Changed(str(cordon.target.name), cordon.effect, cordon.name, done)


def _stand(client: Client, objects: Objects, cordon: Cordon, *, dry: bool) -> Changed:
    """Make one cordon stand, or raise one that stands; it is never lowered here."""
    stored = standing(objects.rules, cordon)
    for left in reversed(range(TRIES)):
        if stored is not None and _reaches(stored, cordon):
            name, effect = stored.metadata.name, stored.spec.taint.effect
            return Changed(str(cordon.target.name), effect, name, stood(stored))
        if dry:
            return _changed(cordon, "would be cordoned")
        try:
            _write(client, objects, cordon, stored)
        except (Conflict, NotFound):
            if not left:
                raise
            stored = _look_again(client, objects, cordon, stored)
        else:
            return _changed(cordon, "cordoned")
    raise AssertionError("the last try returns or raises")


def _write(client: Client, objects: Objects, cordon: Cordon, stored: StatedRule | None) -> None:
    path = rules_path(objects)
    if stored is None:
        client.create(path, manifest(cordon, objects.rule_version or "", objects.at))
        return
    seen = {"uid": stored.metadata.uid, "resourceVersion": stored.metadata.resource_version}
    change = {"metadata": seen, "spec": {"taint": {"effect": cordon.effect}}}
    client.merge_patch(f"{path}/{stored.metadata.name}", change)


def _look_again(
    client: Client, objects: Objects, cordon: Cordon, stored: StatedRule | None
) -> StatedRule | None:
    """Return what stands under the name now; who may list rules need not be allowed to get one."""
    name = stored.metadata.name if stored else cordon.name
    params = {"fieldSelector": f"metadata.name={name}"}
    found, _ = listed(client, rules_path(objects), StatedRule, params)
    return standing(found, cordon)


def stood(stored: StatedRule) -> str:
    """Say whose cordon stands already: what was asked for now is not what is written there."""
    notes = stored.metadata.annotations
    by = notes.get(CORDONED_BY) or "an unknown user"
    return f"already cordoned by {by}: {notes.get(WHY) or 'no reason given'}"


def standing(rules: Sequence[StatedRule], cordon: Cordon) -> StatedRule | None:
    """Return the stored cordon for maintenance of the same device."""
    same = (r for r in rules if is_maintenance(r) and device_of(r) == cordon.target.name)
    return next(same, None)


def taint_value(rules: Sequence[StatedRule], cordon: Cordon) -> str:
    """Return the value of the taint: raising a cordon leaves that of whoever made it."""
    stored = standing(rules, cordon)
    return stored.spec.taint.value if stored else label_value(cordon.by)


def _reaches(stored: StatedRule, cordon: Cordon) -> bool:
    effect = stored.spec.taint.effect
    return effect in EFFECTS and EFFECTS.index(effect) >= EFFECTS.index(cordon.effect)


def take_away(
    client: Client, objects: Objects, cordons: Sequence[StatedRule], *, dry: bool
) -> tuple[Changed, ...]:
    """Delete exactly the cordons that were seen, and say of each what became of it.

    Raises as `all_stand` does.
    """
    changed: list[Changed] = []
    silent = False
    for one in cordons:
        done = "would be uncordoned" if dry else UNTRIED if silent else "uncordoned"
        try:
            if done == "uncordoned":
                _delete(client, objects, one)
        except ApiError as error:
            if not changed and error.status in _NOBODY_THERE:
                raise
            silent = error.status is None
            done = f"{FAILED} {'verified as ' * silent}uncordoned: {error}"
        effect, name = one.spec.taint.effect, one.metadata.name
        changed.append(Changed(str(device_of(one)), effect, name, done))
    return tuple(changed)


def _delete(client: Client, objects: Objects, one: StatedRule) -> None:
    try:
        exactly = {"preconditions": {"uid": one.metadata.uid}}
        client.delete(f"{rules_path(objects)}/{one.metadata.name}", exactly)
    except NotFound:
        return  # somebody else has taken it away


def looked_at(
    client: Client, objects: Objects, cordons: Sequence[StatedRule], changed: Sequence[Changed]
) -> tuple[Changed, ...]:
    """Return what became of each, seen with our own eyes: asked for is not yet gone."""
    try:
        found, unreadable = listed(client, rules_path(objects), StatedRule)
    except ApiError as error:
        return tuple(_unseen(one, str(error)) for one in changed)
    left = {one.metadata.name: one.metadata.uid for one in found}
    pairs = zip(cordons, changed, strict=True)
    if unreadable:
        hidden = f"this version cannot read {some(unreadable)}"
        return tuple(_unseen(one, hidden) for one in changed)
    return tuple(_seen(one, cordon.metadata.uid, left) for cordon, one in pairs)


def _unseen(one: Changed, why: str) -> Changed:
    done = one.done if one.failed else f"{FAILED} verified as removed: {why}"
    return msgspec.structs.replace(one, done=done)


def _seen(one: Changed, uid: str, left: dict[str, str]) -> Changed:
    now = left.get(one.rule)
    if now is None:
        return msgspec.structs.replace(one, done="uncordoned")
    if now != uid:
        again = f"{FAILED} uncordoned: another user has cordoned it again"
        return msgspec.structs.replace(one, done=again)
    if one.failed:
        return one
    keeps = f"{FAILED} uncordoned: it still exists, a finalizer blocks its deletion"
    return msgspec.structs.replace(one, done=keeps)
