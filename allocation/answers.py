"""What expressions say of published devices, evaluated once for each set of values that they read.

A cluster has tens of thousands of devices of a few kinds: they differ in their UUID and bus ID,
which hardly a selector reads. Pure but for its memory, which lives as long as one look.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from allocation.model.claims import Selector
from allocation.model.slices import PublishedDevice, ResourceSlice, selected_device
from allocation.reasons import Reason, Why
from allocation.selectors.answers import Answer, not_evaluated
from allocation.selectors.device import SelectedDevice, names_read

Evaluate = Callable[[str, Sequence[SelectedDevice]], Sequence[Answer]]
"""Says what an expression makes of devices: `selectors.evaluator.Evaluator.answers`."""
Selectors = tuple[Selector, ...]
Kept = tuple[Reason, ...]
"""The selectors that keep a device away; () for none."""
_Key = tuple[object, ...]
_Names = tuple[str, ...]


class _Expression:
    """One expression on the devices of one driver."""

    def __init__(self, text: str) -> None:
        self._names = names_read(text)
        self._read: dict[tuple[_Names, _Names], tuple[_Names, _Names]] = {}
        """By the names that a device has, of attributes and of capacity: those that it reads."""
        self.known: dict[_Key, Answer] = {}

    def key(self, device: PublishedDevice) -> _Key:
        """Return what it reads of a device."""
        names, amounts = self._names_of(device)
        values = map(device.attributes.__getitem__, names)
        if not amounts:
            return (device.allow_multiple_allocations, names, *values)
        sizes = [device.capacity[name].value for name in amounts]
        return (device.allow_multiple_allocations, names, *values, amounts, *sizes)

    def cut(self, device: PublishedDevice) -> PublishedDevice:
        """Return the device with what it reads alone: no more may matter."""
        names, amounts = self._names_of(device)
        return msgspec.structs.replace(
            device,
            attributes={name: device.attributes[name] for name in names},
            capacity={name: device.capacity[name] for name in amounts},
        )

    def _names_of(self, device: PublishedDevice) -> tuple[_Names, _Names]:
        every = (tuple(device.attributes), tuple(device.capacity))
        found = self._read.get(every)
        if found is None:
            words = self._names
            names, amounts = (
                [each for each in some if words is None or each.rpartition("/")[2] in words]
                for some in every
            )
            found = self._read[every] = (tuple(names), tuple(amounts))
        return found


class OutOfTimeError(Exception):
    """There is no time, or no room, to find out what expressions say."""


def go_on(_size: int) -> None:
    """Never stop."""


class Answers:
    """Remembers what each expression said, and of which slice, by its name.

    `check` gets how much is remembered at each step, and may raise OutOfTimeError.
    """

    def __init__(self, evaluate: Evaluate, check: Callable[[int], None] = go_on) -> None:
        self._evaluate, self._check = evaluate, check
        self._same: dict[tuple[Kept, ...], tuple[Kept, ...]] = {}
        """Slices of a fleet are alike: so are their answers."""
        self._evaluated = 0
        self._expressions: dict[tuple[str, str], _Expression] = {}
        self._kept: dict[tuple[str, Selectors, Selectors], tuple[Kept, ...]] = {}

    def __len__(self) -> int:
        """Return how much it remembers: of slices and their selectors, and of devices."""
        return len(self._kept) + self._evaluated

    def check(self) -> None:
        """Raise OutOfTimeError where there is no time, or no room, to go on."""
        self._check(len(self))

    def reasons(
        self, given: ResourceSlice, of_class: Selectors, of_request: Selectors
    ) -> tuple[Kept, ...]:
        """Return for each device of a slice which selectors keep it away, in their order."""
        key = (given.metadata.name, of_class, of_request)
        self.check()
        if key not in self._kept:
            sources: tuple[tuple[Why, Selectors], ...] = (
                ("ClassSelector", of_class),
                ("RequestSelector", of_request),
            )
            found: list[Kept] = [()] * len(given.spec.devices)
            for why, selectors in sources:
                for selector in selectors:
                    text = selector.cel.expression if selector.cel else ""
                    answers = self.of(text, given) if text else [_OTHER] * len(found)
                    for place, answer in enumerate(answers):
                        if answer.says == "NoMatch":
                            found[place] += (Reason(why, text),)
                        elif answer.says != "Matches":
                            found[place] += (Reason(_DOUBTS[answer.says], text, (answer.why,)),)
            every = tuple(found)
            self._kept[key] = self._same.setdefault(every, every)
        return self._kept[key]

    def of(self, expression: str, given: ResourceSlice) -> list[Answer]:
        """Return what an expression says of each device of a slice."""
        driver, devices = given.spec.driver, given.spec.devices
        one = self._expressions.get((expression, driver))
        if one is None:
            one = self._expressions[expression, driver] = _Expression(expression)
        keys = [one.key(device) for device in devices]
        with suppress(KeyError):
            return [one.known[key] for key in keys]
        new = {
            key: device for key, device in zip(keys, devices, strict=True) if key not in one.known
        }
        self._evaluated += len(new)
        selected = {key: selected_device(driver, one.cut(each)) for key, each in new.items()}
        known = {key: each for key, each in selected.items() if not isinstance(each, str)}
        found = self._evaluate(expression, tuple(known.values()))
        one.known |= dict(zip(known, found, strict=True))
        one.known |= {
            key: not_evaluated(each) for key, each in selected.items() if isinstance(each, str)
        }
        return [one.known[key] for key in keys]


_OTHER = not_evaluated("the selector is no CEL expression")
_DOUBTS: Mapping[str, Why] = {"Fails": "SelectorFails", "NotEvaluated": "NotEvaluated"}
"""By what an expression says of a device."""
