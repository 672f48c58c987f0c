"""Texts that end at a string: new ids -> whether one of the strings has appeared, and the text cut before it.

Made for ``generate(..., stop=StopStrings(tokenizer.decode, ["\\n\\n"]))``. Knows no model and imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from glassformer.foundation.errors import BadArgument

SPARE_TOKENS = 8
"""Tokens decoded beyond the longest string: the first ones may be half a character, or marks without text."""


@final
class StopStrings:
    """Called after every new id, so it looks only at the end of the text: a token is at least one byte of it."""

    def __init__(self, decode: Callable[[Sequence[int]], str], strings: Sequence[str]) -> None:
        if "" in strings:
            raise BadArgument("stop", "", "an empty string would end every text at once; leave it out")
        self.decode, self.strings = decode, tuple(strings)
        self.tokens = max((len(string.encode()) for string in strings), default=0) + SPARE_TOKENS

    def __call__(self, row: int, new_ids: list[int]) -> bool:
        """Whether the text of the new ids holds one of the strings."""
        if not self.strings:
            return False
        end = self.decode(new_ids[-self.tokens :])
        return any(string in end for string in self.strings)

    def cut(self, text: str) -> str:
        """The text before the first of the strings in it."""
        places = [place for string in self.strings if (place := text.find(string)) >= 0]
        return text[: min(places)] if places else text
