"""Streaming decoding: ids that arrive one by one -> chunks of text that no later id will change. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from glassformer.generation.stop_strings import StopStrings

HELD = 8
"""The number of ids held back when the text need not be exact."""

Decode = Callable[[Sequence[int]], str]


@final
class PiecesOfText:
    """Emits the stable part of a growing text: no incomplete characters, no possible beginning of a stop string.

    ``settled``: how many of the ids have a text that no later id can change (``Tokenizer.settled``). ``exact``: the rest is
    held back, however long. Otherwise all but the last ``HELD`` ids are emitted as decoded so far, even if later ids would
    move a space in that.
    """

    def __init__(
        self,
        decode: Decode,
        hand_on: Callable[[str], None],
        stop: StopStrings,
        settled: Callable[[Sequence[int]], int] = len,
        *,
        exact: bool = True,
    ) -> None:
        self._decode, self._hand_on, self._stop, self._settled, self._exact = decode, hand_on, stop, settled, exact
        self._ids: list[int] = []
        self._handed = ""

    def __call__(self, row: int, token_id: int) -> None:
        self._ids.append(token_id)
        ready = max(self._settled(self._ids), 0 if self._exact else len(self._ids) - HELD)
        text = self._decode(self._ids[:ready]).rstrip("\N{REPLACEMENT CHARACTER}")
        certain = self._stop.cut(text)
        if certain == text:
            certain = text[: len(text) - max((_overhang(text, string) for string in self._stop.strings), default=0)]
        self._give(certain)

    def finish(self) -> None:
        """Emits what was held back."""
        self._give(self._stop.cut(self._decode(self._ids)))

    def _give(self, text: str) -> None:
        new = text[_same_signs(text, self._handed) :]
        if new:
            self._hand_on(new)
            self._handed += new


def _same_signs(text: str, before: str) -> int:
    """Where the content of ``before`` ends in ``text``; spaces may have moved."""
    if text.startswith(before) or before.startswith(text):
        return min(len(before), len(text))
    signs = sum(not sign.isspace() for sign in before)
    for place, sign in enumerate(text):
        if not signs:
            return place
        signs -= not sign.isspace()
    return len(text)


def _overhang(text: str, string: str) -> int:
    """How many characters at the end of ``text`` may be the beginning of ``string``."""
    return next((n for n in range(min(len(string) - 1, len(text)), 0, -1) if text.endswith(string[:n])), 0)
