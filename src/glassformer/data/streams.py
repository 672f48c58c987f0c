"""Ids that arrive one by one -> text for a reader, and whether a stop string has appeared. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

Decode = Callable[[Sequence[int]], str]


@final
class StopStrings:
    """Says of a growing text whether one of the strings is in it."""

    def __init__(self, decode: Decode, strings: Sequence[str]) -> None:
        self._decode, self._strings = decode, [string for string in strings if string]

    def __call__(self, row: int, new_ids: list[int]) -> bool:
        text = self._decode(new_ids)
        return any(string in text for string in self._strings)


@final
class PiecesOfText:
    """Hands on what is certain of a growing text: no half characters, nothing that may turn out to be a stop string."""

    def __init__(self, decode: Decode, hand_on: Callable[[str], None], stop: Sequence[str] = ()) -> None:
        self._decode, self._hand_on, self._stop = decode, hand_on, [string for string in stop if string]
        self._ids: list[int] = []
        self._handed = 0

    def __call__(self, row: int, token_id: int) -> None:
        self._ids.append(token_id)
        text = self._decode(self._ids).rstrip("\N{REPLACEMENT CHARACTER}")
        certain = cut_at(text, self._stop)
        if certain == text:
            certain = text[: len(text) - max((_overhang(text, string) for string in self._stop), default=0)]
        self._give(certain)

    def finish(self) -> None:
        """Hands on what was held back."""
        self._give(cut_at(self._decode(self._ids), self._stop))

    def _give(self, text: str) -> None:
        if len(text) > self._handed:
            self._hand_on(text[self._handed :])
            self._handed = len(text)


def cut_at(text: str, strings: Sequence[str]) -> str:
    """The text up to the first of the strings."""
    ends = [text.find(string) for string in strings if string and string in text]
    return text[: min(ends)] if ends else text


def _overhang(text: str, string: str) -> int:
    """How many characters at the end of ``text`` may be the beginning of ``string``."""
    return next((n for n in range(min(len(string) - 1, len(text)), 0, -1) if text.endswith(string[:n])), 0)
