"""The parts of every mapping in a policy file: described keys, and refusals with a reason.

`validation` makes a sentence of a refusal. Any other error of pydantic means a value of a wrong
type.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

REFUSED = "refused"
"""The kind of an error whose message is the reason."""
_LONGEST_SHOWN = 80
"""Characters of a wrong value."""


class Section(BaseModel):
    """A mapping of the file. A key that is left out is None, an unknown one is refused.

    Built at its first use, which saves a fifth of the time from the start to the first policy.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def key(
    kind: str, what: str = "", why: str = "", *, written: str | None = None, default: Any = None
) -> Any:
    """Describe a key: the kind of its value, what it does and why; its name in the file."""
    extra: JsonDict = {"why": why}
    return Field(default, title=kind, description=what, json_schema_extra=extra, alias=written)


def keys(section: type[Section]) -> dict[str, FieldInfo]:
    """Return the keys of a section as they are written."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def refusal(why: str) -> PydanticCustomError:
    return PydanticCustomError(REFUSED, "{why}", {"why": why})


def wrong_type() -> PydanticCustomError:
    return PydanticCustomError("type", "another type")


def show_value(value: object) -> str:
    """Return a wrong value as text for a sentence."""
    if isinstance(value, dict):
        return "a mapping"
    if value is None:
        return "nothing"
    text = "a list" if isinstance(value, list) else repr(value)
    if len(text) <= _LONGEST_SHOWN:
        return text
    quote = text[0] if isinstance(value, str) else ""
    return f"{text[:_LONGEST_SHOWN]}...{quote}"
