"""What was given and is carried as it is: settings without effect, unchecked rows."""

from typing import Literal

import msgspec

Source = Literal["flag", "environment", "file"]

Reason = Literal["NeedsDcgm", "NotSupported", "OneInterval", "Unknown"]
"""`NeedsDcgm`: chooses what DCGM alone tells, which is off. `NotSupported`: known, and done
otherwise or not at all; the log says which. `OneInterval`: all fields are sampled at one interval
here. `Unknown`: in no release of dcgm-exporter that is known."""


class Ignored(msgspec.Struct, frozen=True):
    """A setting that was given and changes nothing here."""

    source: Source
    name: str
    """As it was written: a flag without its dashes, a variable, a key with its path."""
    reason: Reason
    message: str
    """What to use instead."""


class WrittenRow(msgspec.Struct, frozen=True):
    """One row of counters that is not in a counters file."""

    line: int
    name: str
    type: str
    help: str
