"""Reads one NVML handle in one pass: each call once, all field values in one, nothing twice.

What went wrong with the handle is remembered: a lost GPU is not queried again in
the pass, and what it does not have is not queried in the next ones either.
"""

from collections.abc import Collection, Hashable, Iterable
from functools import cache
from typing import Any

from exporter.model.readings import Values
from exporter.sensor.nvml import library as nvml
from exporter.sensor.nvml.library import Caller, FieldAnswer, NvmlError
from exporter.sensor.nvml.table import Call, Field, Source, Table
from exporter.sensor.nvml.units import text_of

FieldKey = tuple[int, int]
"""NVML field id, scope id."""
_ASK_AGAIN = 20
"""Passes after which a call that is not supported is tried again."""
_SENSELESS = (AttributeError, IndexError, TypeError, ValueError, ZeroDivisionError)


class Lacking:
    """What a handle said that it does not have."""

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}
        self._passes = 0

    def begin_pass(self) -> bool:
        """Return whether everything is requested again in this pass."""
        self._passes += 1
        again = self._passes % _ASK_AGAIN == 0
        if again:
            self._codes.clear()
        return again

    def clear(self) -> None:
        """Forget all, because the device is another one now (MIG, driver)."""
        self._codes.clear()

    def code(self, key: Hashable) -> int | None:
        return self._codes.get(key)

    def add(self, key: Hashable, code: int) -> None:
        self._codes[key] = code


class Tally:
    """How many answers were refused because they make no sense."""

    def __init__(self) -> None:
        self.refused = 0


class Fields:
    """One handle in one pass."""

    def __init__(
        self, call: Caller, index: int, handle: Any, lacking: Lacking, tally: Tally
    ) -> None:
        self._call = call
        self._index = index
        self._handle = handle
        self._lacking = lacking
        self._tally = tally
        self._answers_by_call: dict[Hashable, Any] = {}
        self._answers: dict[FieldKey, FieldAnswer] = {}
        self._values: dict[Hashable, int | float | str | None] = {}
        self.lost = False
        self.error = ""

    def get(self, name: str, *arguments: int) -> Any:
        """Return what a call on the handle says, None when it does not; queried once a pass."""
        return self._once((name, arguments), name, self._handle, *arguments)

    def about_node(self, name: str, *arguments: int) -> Any:
        """Return what a call without a handle says."""
        return self._once((name, arguments), name, *arguments)

    def lacks(self, name: str, *arguments: int) -> bool:
        """Say whether the handle has said that it has no such call."""
        return self._lacking.code((name, arguments)) is not None

    def ask(self, name: str, *arguments: Any) -> Any:
        """Make a call whatever was said before; a lost GPU is not queried."""
        if self.lost:
            return None
        try:
            return self._call(self._index, name, *arguments)
        except NvmlError as error:
            self._note(error)
            return None

    def prefetch(self, keys: Iterable[FieldKey]) -> None:
        """Read field values in one call."""
        desired = [key for key in dict.fromkeys(keys) if key not in self._answers]
        requested = [key for key in desired if self._lacking.code(key) is None]
        self._answers |= {key: FieldAnswer(self._lacking.code(key) or 0) for key in desired}
        if requested and not self.lost:
            self._answers |= self._field_values(requested)

    def answer(self, key: FieldKey) -> FieldAnswer | None:
        """Return a field value's answer, None when it could not be requested at all."""
        if key not in self._answers:
            self.prefetch([key])
        found = self._answers.get(key)
        return None if found is None or (found.code == 0 and found.value is None) else found

    def value(self, sources: Iterable[Source]) -> int | float | str | None:
        """Return what the first source that has it tells, in DCGM's unit."""
        for source in sources:
            if source not in self._values:
                if isinstance(source, Field):
                    number = field_number(source.name)
                    answer = None if number is None else self.answer((number, source.scope))
                    raw = answer.value if answer and answer.code == nvml.SUCCESS else None
                else:
                    raw = self._raw(source)
                taken = text_of(raw) if source.unit is None else source.unit.take(raw)
                self._tally.refused += raw is not None and taken is None
                # A string that is not filled in is no value.
                self._values[source] = None if taken == "" else taken
            found = self._values[source]
            if found is not None:
                return found
        return None

    def whole(self, sources: Iterable[Source]) -> int | None:
        """Return a value that DCGM gives as an integer."""
        found = self.value(sources)
        return found if isinstance(found, int) else None

    def values(self, table: Table, desired: Collection[int]) -> Values:
        """Return the requested fields of a table; what cannot be read is left out."""
        known = [number for number in table if number in desired]
        self.prefetch(keys_of(source for number in known for source in table[number]))
        found = {number: self.value(table[number]) for number in known}
        return {number: value for number, value in found.items() if value is not None}

    def _once(self, key: Hashable, name: str, *arguments: Any) -> Any:
        if key in self._answers_by_call:
            return self._answers_by_call[key]
        if self.lost or self._lacking.code(key) is not None:
            return None
        self._answers_by_call[key] = None
        try:
            self._answers_by_call[key] = self._call(self._index, name, *arguments)
        except NvmlError as error:
            self._note(error)
            if error.lacking:
                self._lacking.add(key, error.code)
        return self._answers_by_call[key]

    def _note(self, error: NvmlError) -> None:
        if error.useless:
            raise error
        self.lost = self.lost or error.lost
        self._tally.refused += error.refused
        if not error.absent and not self.error:
            self.error = str(error)

    def _field_values(self, keys: list[FieldKey]) -> dict[FieldKey, FieldAnswer]:
        try:
            answers = self._call(self._index, "nvmlDeviceGetFieldValues", self._handle, keys)
        except NvmlError as error:
            unknown = error.code == nvml.INVALID_ARGUMENT
            if unknown and len(keys) > 1:
                # An old driver may refuse all because of one that it does not know.
                singly = [self._field_values([key]) for key in keys]
                return {key: found for answers in singly for key, found in answers.items()}
            if not unknown:
                self._note(error)
            answers = [FieldAnswer(error.code)] * len(keys) if unknown or error.absent else []
        found = dict(zip(keys, answers, strict=False))
        for key, answer in found.items():
            self.lost = self.lost or answer.code == nvml.LOST
            self._tally.refused += answer.code == nvml.REFUSED
            if answer.code in (*nvml.LACKING, nvml.INVALID_ARGUMENT):
                self._lacking.add(key, answer.code)
        return found

    def _raw(self, source: Call) -> Any:
        ask = self.about_node if source.node else self.get
        if (answer := ask(source.name, *source.arguments)) is None:
            return None
        try:
            return source.pick(answer)
        except _SENSELESS:
            self._tally.refused += 1
            return None


@cache
def field_number(name: str) -> int | None:
    """Return the id of an NVML_FI_* field, None when this nvidia-ml-py does not have it."""
    return nvml.number_of(name)


def keys_of(sources: Iterable[Source]) -> list[FieldKey]:
    """Return the field values among some sources."""
    fields = (source for source in sources if isinstance(source, Field))
    numbered = ((field_number(field.name), field.scope) for field in fields)
    return [(number, scope) for number, scope in numbered if number is not None]
