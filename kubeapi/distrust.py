"""Whether what a watch has brought can be trusted now."""

from time import monotonic
from typing import Any

from kubeapi.reflector import Reflector
from kubeapi.versions import Versioned

WATCH_SILENT = 150.0
"""Seconds without an event, a bookmark or a list. A watch that is silent for 90 s is listed anew,
so after 150 s the API server has not answered."""
WATCH_DEAD = 90.0
"""Seconds of silence after which a watch is opened again."""


def distrust(watch: Reflector[Any]) -> str:
    """Return why the copy of a collection cannot be trusted now, "" when it can.

    The text has no changing number: the incident repeats it, and would be written each time.
    """
    if not watch.synced:
        return f"{watch.resource} have not been listed yet"
    if watch.refused:
        return f"the API server refuses to list or watch {watch.resource} ({watch.status})"
    if monotonic() - watch.last_contact > WATCH_SILENT:
        return f"no event received of {watch.resource} for more than {WATCH_SILENT:g} s"
    return ""


def distrust_versioned(kind: Versioned[Any], words: str) -> str:
    """Return the same of a kind that clusters serve under different versions."""
    if kind.reflector is None or kind.version is None:
        return f"{words} are not served"
    return distrust(kind.reflector)
