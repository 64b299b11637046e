"""Names of users' pods, claims and namespaces into pseudonyms, the same in all of a bundle. Pure.

A name counts wherever it stands as a whole word. Only names that were given are known: a text may
hold others, of pods that are long gone.
"""

import re
from collections.abc import Iterable
from typing import cast

_WORD = re.compile(r"(?<![\w.-])[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?![\w-])")
"""A name of Kubernetes, or what may be several of them joined by dots."""
KEPT = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""Namespaces that each cluster has: their names say nothing of its users."""


_API = frozenset(
    (
        *("claim", "class", "device", "driver", "gpu", "gpus", "mig", "node", "nodes", "nvidia"),
        *("pod", "pods", "pool", "request", "true", "false", "none", "ok", "bad", "unknown"),
        *("suspect", "pending", "contained", "fabric", "memory", "lost", "draguard", "enforce"),
        *("agent", "exporter", "sensor", "remediator", "explainer", "status", "spec"),
        *("metadata", "default"),
    )
)
"""Words of the API and of Draguard: as a name one says nothing, and elsewhere it is needed."""
_DOMAINS = (".nvidia.com", ".k8s.io", ".kubernetes.io", ".draguard.dev")
"""How names of drivers, API groups and keys end."""


class Pseudonyms:
    """By kind of name, in the order in which they were given."""

    def __init__(self, kept: Iterable[str] = ()) -> None:
        self._kept = KEPT | _API | {*kept}
        self._known: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def learn(self, kind: str, names: Iterable[str]) -> None:
        """Give each name a pseudonym, such as `pod-3`; a name of two kinds keeps its first."""
        for name in names:
            if name and name not in self._kept and name not in self._known:
                self._counts[kind] = self._counts.get(kind, 0) + 1
                self._known[name] = f"{kind}-{self._counts[kind]}"

    def text(self, text: str) -> str:
        """Return a text with pseudonyms for the names in it."""
        return _WORD.sub(lambda word: self._of(word[0]), text)

    def _of(self, word: str) -> str:
        if f".{word}".endswith(_DOMAINS):
            return word
        if word in self._known or "." not in word:
            return self._known.get(word, word)
        return ".".join(self._known.get(part, part) for part in word.split("."))

    def object(self, content: object) -> object:
        """Return decoded JSON with pseudonyms in its values; keys are words of the API."""
        if isinstance(content, str):
            return self.text(content)
        if isinstance(content, dict):
            found = cast("dict[str, object]", content)
            return {key: self.object(value) for key, value in found.items()}
        if isinstance(content, list):
            return [self.object(item) for item in cast("list[object]", content)]
        return content
