"""The memory of a process: made once for a key, the last few only, nothing large, and every time without a key."""

from __future__ import annotations

from glassformer.data import memory_cache as memory
from glassformer.data.memory_cache import MemoryCache


def test_made_once_and_the_oldest_is_forgotten() -> None:
    made: list[str] = []
    remembered = MemoryCache[str](2, len)

    def get(key: str) -> str:
        return remembered.get(key, lambda: made.append(key) or f"of {key}")

    assert [get(key) for key in ("a", "b", "a", "c", "a", "b")] == ["of a", "of b", "of a", "of c", "of a", "of b"]
    assert made == ["a", "b", "c", "b"]
    remembered.clear()
    get("a")
    assert made[-1] == "a"


def test_without_a_key_and_too_large_it_is_made_every_time(monkeypatch) -> None:
    made: list[int] = []
    remembered = MemoryCache[str](2, len)
    monkeypatch.setattr(memory, "LARGEST", 3)
    for key, content in ((None, "a"), (None, "a"), ("b", "four"), ("b", "four")):
        remembered.get(key, lambda content=content: made.append(1) or content)
    assert len(made) == 4
