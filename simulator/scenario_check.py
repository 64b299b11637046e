"""Checks that need the whole scenario, given as drafts; the first error is raised.

Settings that must be there, things that must differ, instances that must fit:
the same rules and sentences as in `ini/scenario_check.c`. Pure.
"""

from collections.abc import Sequence

from simulator.gpu import Event, Instance
from simulator.scenario_draft import Draft
from simulator.scenario_words import LineError

_NEEDED = ("product", "uuid", "serial", "minor", "pci")
_UNIQUE = ("uuid", "minor", "pci")


def check_gpu(draft: Draft, before: Sequence[Draft]) -> None:
    """Raise LineError when a section lacks something or clashes with one `before` it."""
    for name in _NEEDED:
        if getattr(draft, name) in (None, ""):
            raise LineError(f"[gpu {draft.index}] has no {name}; add {name} = ...")
    for other in before:
        for name in _UNIQUE:
            if getattr(draft, name) == getattr(other, name):
                raise LineError(
                    f"[gpu {draft.index}] has the {name} of [gpu {other.index}]; give it another"
                )
    if draft.instances and not draft.mig:
        raise LineError(f"[gpu {draft.index}] has instances but MIG is off; set mig = on")
    for count, instance in enumerate(draft.instances):
        _check_instance(draft.index, instance, draft.instances[:count])
    _check_links(draft)


def _check_links(draft: Draft) -> None:
    if draft.product is None:
        return
    there = draft.product.nvlink_count
    for link in sorted(draft.links):
        if link >= there:
            raise LineError(
                f"[gpu {draft.index}] has no link {link}; {draft.product.name} has {there}"
            )


def _check_instance(index: int, instance: Instance, before: Sequence[Instance]) -> None:
    where = f"[gpu {index}]: gi={instance.gi}"
    if instance.start not in instance.profile.starts:
        raise LineError(
            f"{where} of profile {instance.profile.name} cannot start at {instance.start}; "
            "see its placements"
        )
    for other in before:
        if instance.gi == other.gi or instance.uuid == other.uuid:
            raise LineError(f"{where} is there twice or shares a uuid; change one")
        end, other_end = (part.start + part.profile.size for part in (instance, other))
        if instance.start < other_end and other.start < end:
            raise LineError(f"[gpu {index}]: gi={other.gi} and gi={instance.gi} overlap; move one")


def check_events(events: Sequence[Event], gpus: int) -> None:
    """Raise LineError when an event names a GPU that is not there."""
    for event in events:
        if event.gpu >= gpus:
            raise LineError(
                f"event {event.number} names gpu={event.gpu}, which is not there; "
                f"add [gpu {event.gpu}]"
            )
