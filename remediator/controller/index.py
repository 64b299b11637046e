"""Finds objects by their node, GPU or pool without a look at all others."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")
Key = tuple[str, str]
"""What kind of thing, and its name: ("node", "node-a"), ("pool", "gpu.nvidia.com/node-a")."""


class Buckets(Generic[T]):
    """Objects by name under each of their keys; the caller knows what was there before."""

    def __init__(self, keys: Callable[[T], Iterable[Key]]) -> None:
        self._keys = keys
        self._by: dict[Key, dict[str, T]] = {}

    def move(self, name: str, old: T | None, new: T | None) -> None:
        for key in self._keys(old) if old is not None else ():
            bucket = self._by.get(key)
            if bucket is not None:
                bucket.pop(name, None)
                if not bucket:
                    del self._by[key]
        for key in self._keys(new) if new is not None else ():
            self._by.setdefault(key, {})[name] = new  # pyright: ignore[reportArgumentType] - not None here

    def under(self, keys: Iterable[Key]) -> dict[str, T]:
        """Return the objects under any of the keys, by name."""
        return {name: item for key in keys for name, item in self._by.get(key, {}).items()}


class Index(Buckets[T]):
    """The objects themselves as well."""

    def __init__(self, keys: Callable[[T], Iterable[Key]]) -> None:
        super().__init__(keys)
        self._all: dict[str, T] = {}
        self._copy: tuple[T, ...] | None = None

    def put(self, name: str, new: T | None) -> T | None:
        """Store an object, or forget it; return what was there."""
        old = self._all.pop(name, None)
        if new is not None:
            self._all[name] = new
        self._copy = None
        self.move(name, old, new)
        return old

    def get(self, name: str) -> T | None:
        return self._all.get(name)

    def all(self) -> tuple[T, ...]:
        if self._copy is None:
            self._copy = tuple(self._all.values())
        return self._copy
