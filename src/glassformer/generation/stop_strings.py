"""Stop strings for generation: whether one of them has appeared in the new ids, and the text before it.

Made for ``generate(..., stop=StopStrings(tokenizer.decode, ["\\n\\n"]))``. Knows no model and imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from glassformer.foundation.errors import BadArgument

SPARE_TOKENS = 8
"""Extra tokens decoded beyond the longest string: the first ones may be incomplete characters or special tokens."""


@final
class StopStrings:
    """Called after every new id, so it decodes only the end of the text, given that a token has at least one byte."""

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
