"""Ids that arrive one by one -> pieces of text for a reader, each piece certain when it is handed on. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from glassformer.data.stop_strings import StopStrings

Decode = Callable[[Sequence[int]], str]


@final
class PiecesOfText:
    """Hands on what is certain of a growing text: no half characters, nothing that may turn out to be a stop string.

    ``settled``: how many of the ids have a text that no later id can change (``Tokenizer.settled``).
    """

    def __init__(
        self,
        decode: Decode,
        hand_on: Callable[[str], None],
        stop: StopStrings,
        settled: Callable[[Sequence[int]], int] = len,
    ) -> None:
        self._decode, self._hand_on, self._stop, self._settled = decode, hand_on, stop, settled
        self._ids: list[int] = []
        self._handed = 0

    def __call__(self, row: int, token_id: int) -> None:
        self._ids.append(token_id)
        text = self._decode(self._ids[: self._settled(self._ids)]).rstrip("\N{REPLACEMENT CHARACTER}")
        certain = self._stop.cut(text)
        if certain == text:
            certain = text[: len(text) - max((_overhang(text, string) for string in self._stop.strings), default=0)]
        self._give(certain)

    def finish(self) -> None:
        """Hands on what was held back."""
        self._give(self._stop.cut(self._decode(self._ids)))

    def _give(self, text: str) -> None:
        if len(text) > self._handed:
            self._hand_on(text[self._handed :])
            self._handed = len(text)


def _overhang(text: str, string: str) -> int:
    """How many characters at the end of ``text`` may be the beginning of ``string``."""
    return next((n for n in range(min(len(string) - 1, len(text)), 0, -1) if text.endswith(string[:n])), 0)
