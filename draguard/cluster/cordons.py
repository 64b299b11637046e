"""Cordons into DeviceTaintRules, each by itself, and the outcome of each.

Two users may work on the same device, and the API server may refuse one of several or not answer.
So after a write conflict the rule is read again before the next try. A refused write does not stop
the others. A write without an answer is reported as not verified, and the rest are not tried.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from draguard.cluster.cordon_rule import (
    CORDONED_BY,
    REASON,
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
from kubeapi.versions import GROUP
from remediator.controller.feature_gates import StatedRule
from remediator.model.taint_rule import EFFECTS

RULES = "devicetaintrules"
FAILED = "NOT"
"""How `Changed.done` begins if nothing was done, or that is unknown."""
MADE = "cordoned"
"""`Changed.done` of what `draguard uncordon` may remove again: it was no cordon before."""
STANDING = "already cordoned by"
UNTRIED = f"{FAILED} tried: the server does not answer"
TRIES = 4
"""How often a write is tried if other writes conflict with it."""
_NO_RIGHTS = (401, 403)


class Changed(msgspec.Struct, frozen=True):
    device: str
    effect: str
    rule: str
    done: str
    """`cordoned`, `already cordoned by ...`, also after `raised; `, `uncordoned`, `would be ...`,
    `NOT ...: why`."""

    @property
    def failed(self) -> bool:
        return self.done.startswith(FAILED)


def rules_path(objects: Objects) -> str:
    return f"/apis/{GROUP}/{objects.rule_version}/{RULES}"


def cordon_all(
    client: Client, objects: Objects, cordons: Sequence[Cordon], *, dry: bool
) -> tuple[Changed, ...]:
    """Create or raise every cordon, and return the outcome of each.

    Raises ApiError if the first write shows that the caller may write none of them.
    """
    changed: list[Changed] = []
    unanswered = False
    for cordon in cordons:
        if unanswered:
            changed.append(_changed(cordon, UNTRIED))
            continue
        try:
            changed.append(_put_in_place(client, objects, cordon, dry=dry))
        except ApiError as error:
            if not changed and error.status in _NO_RIGHTS:
                raise
            unanswered = error.status is None
            done = f"{FAILED} {'verified as ' * unanswered}cordoned: {error}"
            changed.append(_changed(cordon, done))
    return tuple(changed)


def _changed(cordon: Cordon, done: str) -> Changed:
    return Changed(str(cordon.target.name), cordon.effect, cordon.name, done)


def _put_in_place(client: Client, objects: Objects, cordon: Cordon, *, dry: bool) -> Changed:
    """Create one cordon, or raise the effect of the stored one; it is never lowered here."""
    path = rules_path(objects)
    stored = stored_cordon(objects.rules, cordon)
    for left in reversed(range(TRIES)):
        effect = stored.spec.taint.effect if stored else ""
        if stored and effect in EFFECTS and EFFECTS.index(effect) >= EFFECTS.index(cordon.effect):
            stated = already_cordoned(stored)
            return Changed(str(cordon.target.name), effect, stored.metadata.name, stated)
        if dry:
            return _changed(cordon, "would be cordoned")
        try:
            if stored is None:
                client.create(path, manifest(cordon, objects.rule_version or "", objects.at))
            else:
                meta = stored.metadata
                seen = {"uid": meta.uid, "resourceVersion": meta.resource_version}
                change = {"metadata": seen, "spec": {"taint": {"effect": cordon.effect}}}
                client.merge_patch(f"{path}/{meta.name}", change)
        except (Conflict, NotFound):
            if not left:
                raise
            # By a list: the right to list rules does not include the right to get one.
            name = stored.metadata.name if stored else cordon.name
            params = {"fieldSelector": f"metadata.name={name}"}
            stored = stored_cordon(listed(client, path, StatedRule, params)[0], cordon)
        else:
            return _changed(cordon, f"raised; {already_cordoned(stored)}" if stored else MADE)
    raise AssertionError("the last try returns or raises")


def already_cordoned(stored: StatedRule) -> str:
    """Return the creator and the reason of the stored cordon, not of the one requested now."""
    notes = stored.metadata.annotations
    by = notes.get(CORDONED_BY) or "an unknown user"
    return f"{STANDING} {by}: {notes.get(REASON) or 'no reason given'}"


def stored_cordon(rules: Sequence[StatedRule], cordon: Cordon) -> StatedRule | None:
    """Return the stored cordon for maintenance of the same device."""
    same = (r for r in rules if is_maintenance(r) and device_of(r) == cordon.target.name)
    return next(same, None)


def taint_value(rules: Sequence[StatedRule], cordon: Cordon) -> str:
    """Return the value of the taint: raising a cordon keeps that of its creator."""
    stored = stored_cordon(rules, cordon)
    return stored.spec.taint.value if stored else label_value(cordon.by)


def uncordon_all(
    client: Client, objects: Objects, cordons: Sequence[StatedRule], *, dry: bool
) -> tuple[Changed, ...]:
    """Delete exactly the cordons that were read, and return the outcome of each.

    Raises as `cordon_all` does.
    """
    changed: list[Changed] = []
    unanswered = False
    for cordon in cordons:
        done = "would be uncordoned" if dry else UNTRIED if unanswered else "uncordoned"
        try:
            if done == "uncordoned":
                exactly = {"preconditions": {"uid": cordon.metadata.uid}}
                with suppress(NotFound):  # another user has removed it
                    client.delete(f"{rules_path(objects)}/{cordon.metadata.name}", exactly)
        except ApiError as error:
            if not changed and error.status in _NO_RIGHTS:
                raise
            unanswered = error.status is None
            done = f"{FAILED} {'verified as ' * unanswered}uncordoned: {error}"
        effect, name = cordon.spec.taint.effect, cordon.metadata.name
        changed.append(Changed(str(device_of(cordon)), effect, name, done))
    return tuple(changed)


def verified(
    client: Client, objects: Objects, cordons: Sequence[StatedRule], changed: Sequence[Changed]
) -> tuple[Changed, ...]:
    """Return each outcome after a look at what remains: a requested deletion may not be done."""
    try:
        found, unreadable = listed(client, rules_path(objects), StatedRule)
        hidden = f"this version cannot read {some(unreadable)}" if unreadable else ""
    except ApiError as error:
        found, hidden = [], str(error)
    left = {rule.metadata.name: rule.metadata.uid for rule in found}
    outcomes: list[Changed] = []
    for cordon, outcome in zip(cordons, changed, strict=True):
        uid = left.get(outcome.rule)
        if hidden:
            done = outcome.done if outcome.failed else f"{FAILED} verified as removed: {hidden}"
        elif uid is None:
            done = "uncordoned"
        elif uid != cordon.metadata.uid:
            done = f"{FAILED} uncordoned: another user has cordoned it again"
        elif outcome.failed:
            done = outcome.done
        else:
            done = f"{FAILED} uncordoned: it still exists, a finalizer blocks its deletion"
        outcomes.append(msgspec.structs.replace(outcome, done=done))
    return tuple(outcomes)
