"""What the process that asks and the one that evaluates say to each other: lines of JSON. Pure."""

import msgspec

from allocation.selectors.answers import Answer
from allocation.selectors.device import SelectedDevice

LONGEST_LINE = 64 * 2**20


class Question(msgspec.Struct, frozen=True, gc=False):
    """One expression over some devices."""

    expression: str
    devices: tuple[SelectedDevice, ...]


class Reply(msgspec.Struct, frozen=True, gc=False):
    answers: tuple[Answer, ...]
    """In the order of the devices."""
