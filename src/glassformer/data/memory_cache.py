"""A small in-memory cache, keyed by checksums: a study's worker runs many trials on the same data.

Cached objects are shared and must not be modified.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar, final

T = TypeVar("T")

LARGEST = 64 << 20
"""The largest cached object, in bytes."""


@final
class MemoryCache(Generic[T]):
    """The last ``most`` objects, each of at most LARGEST bytes by ``size``."""

    def __init__(self, most: int, size: Callable[[T], int]) -> None:
        self._most, self._size = most, size
        self._objects: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable | None, make: Callable[[], T]) -> T:
        """The cached object, or the result of ``make``. Key None: never cached."""
        if key is None:
            return make()
        with self._lock:
            if key in self._objects:
                self._objects.move_to_end(key)
                return self._objects[key]
        made = make()
        if self._size(made) <= LARGEST:
            with self._lock:
                self._objects[key] = made
                while len(self._objects) > self._most:
                    self._objects.popitem(last=False)
        return made

    def clear(self) -> None:
        """Empties the cache."""
        with self._lock:
            self._objects.clear()
