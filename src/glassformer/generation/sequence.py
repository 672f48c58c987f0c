"""One sequence being generated: its ids, the window of them the model sees, and when it ends.

The window rule: a sequence of n ids is seen whole while n is at most the context C. Beyond it the beginning is dropped in
strides of half a context, so that at every moment the model sees the last ids, more than C/2 and at most C of them, and
must read them anew only once per stride. The window depends on n alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal

Reason = Literal["length", "stop id", "stop"]
Stop = Callable[[int, list[int]], bool]
"""(prompt_index, new ids so far) -> whether the sequence ends here. Called after each new id; must not change the list."""
OnToken = Callable[[int, int], None]
"""(prompt_index, id): called for each id as soon as it is known. Ids of one prompt come in order."""


@dataclass(frozen=True)
class Generated:
    """The new ids of one prompt, and why they end: enough of them, a stop id (not among them), or the caller's word."""

    ids: list[int]
    reason: Reason


def window_start(length: int, context: int) -> int:
    """The first id the model sees of a sequence of ``length`` ids."""
    if length <= context:
        return 0
    stride = max(1, context // 2)
    return -(-(length - context) // stride) * stride


@dataclass(kw_only=True, slots=True)
class TokenSequence:
    """A prompt (``prompt_index``: which of them) and the ids generated after it. ``seed`` is what its randomness is derived
    from, ``start`` where its window begins, ``watched`` whether anybody looks at single ids."""

    prompt_index: int
    ids: list[int]
    seed: int
    context: int
    max_new_tokens: int
    stop_ids: Collection[int] = ()
    stop: Stop | None = None
    on_token: OnToken | None = None
    new_ids: list[int] = field(default_factory=list)
    reason: Reason | None = None
    start: int = field(init=False)
    watched: bool = field(init=False)

    def __post_init__(self) -> None:
        self.watched = bool(self.stop_ids) or self.stop is not None or self.on_token is not None
        self.start = window_start(len(self.ids), self.context)
        if self.max_new_tokens == 0:
            self.reason = "length"

    @property
    def window(self) -> list[int]:
        return self.ids[self.start :]

    @property
    def window_length(self) -> int:
        return len(self.ids) - self.start

    @property
    def remaining(self) -> int:
        return self.max_new_tokens - len(self.new_ids)

    @property
    def room(self) -> int:
        """How many ids can be chosen from this window; the last of them makes it move."""
        return self.context - self.window_length + 1

    def accept_all(self, tokens: list[int]) -> None:
        """Adds ids chosen from this window, up to the window's end or the sequence's; those beyond are dropped."""
        if self.watched:
            for token in tokens[: self.room]:
                if self.reason is None:
                    self.accept(token)
        elif self.reason is None:
            taken = tokens[: min(self.remaining, self.room)]
            self.ids += taken
            self.new_ids += taken
            self.start = window_start(len(self.ids), self.context)
            self.reason = "length" if self.remaining == 0 else None

    def accept(self, token: int) -> None:
        """Adds one id and sees whether the sequence ends with it."""
        if token in self.stop_ids:
            self.reason = "stop id"
            return
        self.ids.append(token)
        self.new_ids.append(token)
        self.start = window_start(len(self.ids), self.context)
        if self.on_token is not None:
            self.on_token(self.prompt_index, token)
        if self.stop is not None and self.stop(self.prompt_index, self.new_ids):
            self.reason = "stop"
        elif self.remaining == 0:
            self.reason = "length"
