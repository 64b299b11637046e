"""What others have done to the devices of an incident, in words: shown, never fought. Pure."""

from remediator.model.incident import FOREIGN_LIMIT
from remediator.plan.board import Board

WORD_LIMIT = 160
"""Characters of one entry: names and values are written by others."""


def in_words(board: Board) -> tuple[str, ...]:
    """Return taints in the slice, others' rules, and cordons of the node; the last one counts."""
    mine = {
        device.device
        for device in board.inventory
        if board.uuid in (device.uuid, device.parent_uuid)
    }
    taints = [
        f"taint {taint.key}={taint.value}:{taint.effect} on {device.device.device}"
        for device in board.inventory
        if device.device in mine
        for taint in device.taints
    ]
    rules = [
        f"rule {rule.name}: {rule.key}:{rule.effect}{' on some devices' * rule.narrowed}"
        for rule in board.rules.foreign
    ]
    found = sorted({text[:WORD_LIMIT] for text in (*taints, *rules, *board.machine.cordons)})
    if len(found) <= FOREIGN_LIMIT:
        return tuple(found)
    left = len(found) - FOREIGN_LIMIT + 1
    return (*found[: FOREIGN_LIMIT - 1], f"and {left} more")
