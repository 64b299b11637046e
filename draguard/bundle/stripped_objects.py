"""Stored objects without what may hold secrets and what helps no reader. Pure.

Environment variables keep their names. Their values are left out, whatever they are called.
"""

from typing import Any, cast

LEFT_OUT = "<left out>"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation: the object as it was written, with all values."""
HIDDEN = "left out with --pseudonyms: it may name pods that no longer exist"
Document = dict[str, Any]
_NAMING = {
    "timeline": {"text"},
    "conditions": {"message"},
    "xids": {"process", "message"},
    "sxids": {"message"},
}
"""Lists in incidents and reports, and their free text."""
_END_OF_LOG = "terminated", "message"
"""In the state of a container; the kubelet takes it from the log of one that wrote none."""


def stripped(content: Document) -> Document:
    """Return an object as it goes into a bundle."""
    meta: Document = {**content.get("metadata", {})}
    meta.pop("managedFields", None)
    if notes := meta.get("annotations"):
        meta["annotations"] = {name: text for name, text in notes.items() if name != _LAST_APPLIED}
    rest = {key: _without_values(value) for key, value in content.items() if key != "metadata"}
    return {"metadata": meta, **rest}


def without_texts(content: object) -> object:
    """Return an object without the texts that may name pods which no longer exist."""
    if isinstance(content, dict):
        found = cast("Document", content)
        return {key: _hidden(value, key) for key, value in found.items()}
    if isinstance(content, list):
        return [without_texts(item) for item in cast("list[object]", content)]
    return content


def without_ends(content: object, key: str = "") -> object:
    """Return a pod without what its containers said last: it may name users' pods."""
    if isinstance(content, dict):
        found = cast("Document", content)
        return {
            name: HIDDEN if (key, name) == _END_OF_LOG else without_ends(value, name)
            for name, value in found.items()
        }
    if isinstance(content, list):
        return [without_ends(item) for item in cast("list[object]", content)]
    return content


def _hidden(content: object, key: str) -> object:
    fields = _NAMING.get(key)
    if fields is None or not isinstance(content, list):
        return without_texts(content)
    return [
        {name: HIDDEN if name in fields and text else text for name, text in item.items()}
        for item in cast("list[Document]", content)
    ]


def _without_values(content: object) -> object:
    if isinstance(content, dict):
        found = cast("dict[str, object]", content)
        return {
            key: _env(cast("list[object]", value))
            if key == "env" and isinstance(value, list)
            else _without_values(value)
            for key, value in found.items()
        }
    if isinstance(content, list):
        return [_without_values(item) for item in cast("list[object]", content)]
    return content


def _env(variables: list[object]) -> list[object]:
    return [
        {**cast("Document", variable), "value": LEFT_OUT}
        if isinstance(variable, dict) and "value" in variable
        else variable
        for variable in variables
    ]
