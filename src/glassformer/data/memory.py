"""A sum of what a thing is made from, and how to make it -> the thing; a process remembers the last few it made.

The worker of a study trains and evaluates many trials on the same data, one after the other. What it is given is shared:
nobody may change it. Nothing is written down; knows nothing of what is remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar, final

T = TypeVar("T")

LARGEST = 64 << 20
"""Bytes of the largest thing that is remembered."""


@final
class Memory(Generic[T]):
    """The last ``most`` things made, each of at most LARGEST bytes by ``size``."""

    def __init__(self, most: int, size: Callable[[T], int]) -> None:
        self._most, self._size = most, size
        self._things: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable | None, make: Callable[[], T]) -> T:
        """What ``make`` gave for this key before, or gives now. None: not known well enough, so it is made every time."""
        if key is None:
            return make()
        with self._lock:
            if key in self._things:
                self._things.move_to_end(key)
                return self._things[key]
        made = make()
        if self._size(made) <= LARGEST:
            with self._lock:
                self._things[key] = made
                while len(self._things) > self._most:
                    self._things.popitem(last=False)
        return made

    def clear(self) -> None:
        """Forgets all of it."""
        with self._lock:
            self._things.clear()
