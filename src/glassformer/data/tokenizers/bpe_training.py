"""Byte-pair encoding from scratch: words and their counts -> merges; text -> ids by the merges; ids -> bytes.

Training starts from single symbols and repeatedly merges the most frequent adjacent pair into a new token. Encoding applies
the same merges in the same order. That is all of ``train`` and ``BytePairs.merge``.

Both represent a word as a string with one character per token, ``chr(id)``. So a pair is a string of two characters, merging
is ``str.replace``, and the lower pair of ids is the lower string.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import repeat
from operator import add
from typing import NamedTuple, final

from glassformer.data.tokenizers.pretokenization import Level
from glassformer.foundation.errors import ConfigError, DataError

MAX_VOCAB = sys.maxunicode + 1
"""The number of characters, and so the largest vocabulary."""

Merge = tuple[int, int, int]
"""(left, right, what they become), as ids."""


class Step(NamedTuple):
    """One merge in one word: its rank, the position of the new token, and the word's ids after it."""

    rank: int
    place: int
    word: tuple[int, ...]


def train(
    words: Mapping[str, int],
    level: Level,
    *,
    vocab: int,
    min_count: int = 1,
    special: Sequence[str] = (),
    unknown: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> BytePairs:
    """Learns merges until there are ``vocab`` tokens, or no pair occurs ``min_count`` times.

    Ids: the special tokens, the alphabet, then each merge's token. Of pairs that occur equally often, the one with the
    lower left id is merged first, then the one with the lower right id. ``progress`` gets (tokens so far, vocab).
    """
    tokens = list(dict.fromkeys([*special, *level.alphabet(words)]))  # a special token may be one of the symbols
    if not any(words.values()):
        raise DataError(
            "There is no word to learn from: the training text is empty or only white space; give one with words.",
            reason="nothing-to-learn",
        )
    if vocab < len(tokens):
        raise ConfigError(
            f"tokenizer.vocab={vocab} is smaller than the base alphabet: {len(tokens) - len(special)} {level.name} symbols and "
            f"{len(special)} special tokens; use vocab {len(tokens)} or more"
            + ("." if level.complete else ", or level: byte, which needs 256 symbols for any text."),
            reason="vocab-too-small",
        )
    ids = {token: token_id for token_id, token in enumerate(tokens)}
    spelled = [_spell(level.symbols(word), ids) for word in words]
    merges = []
    for merge in learn(spelled, list(words.values()), tokens, vocab=vocab, min_count=min_count):
        merges.append(merge)
        if progress is not None and len(merges) % 100 == 0:
            progress(len(tokens), vocab)
    if progress is not None:
        progress(vocab, vocab)
    return BytePairs(level, tuple(tokens), tuple(merges), tuple(special), unknown)


def learn(words: list[str], counts: Sequence[int], tokens: list[str], *, vocab: int, min_count: int = 1) -> Iterator[Merge]:
    """Yields the merges one by one; modifies ``words`` (the i-th occurs ``counts[i]`` times) and extends ``tokens``.

    Pair counts are updated incrementally, and only words that contain the pair are touched. A priority queue yields the pair
    with the highest count; outdated entries are detected when they are popped.
    """
    count_of = counts.__getitem__
    ids = {token: chr(token_id) for token_id, token in enumerate(tokens)}

    where: dict[str, list[int]] = defaultdict(list)  # pair -> the words it is in, once for each time
    for place, word in enumerate(words):
        for pair in map(add, word, word[1:]):
            where[pair].append(place)
    total: dict[str, int] = defaultdict(int, {pair: sum(map(count_of, places)) for pair, places in where.items()})
    queue = [(-total[pair], pair, places) for pair, places in where.items()]
    heapify(queue)

    while queue and len(tokens) < vocab:
        queued, pair, places = heappop(queue)
        if -queued != total[pair]:
            heappush(queue, (-total[pair], pair, places))
            continue
        if total[pair] < max(min_count, 1):
            break
        left, right = pair[0], pair[1]
        text = tokens[ord(left)] + tokens[ord(right)]
        if text not in ids:
            ids[text] = chr(len(tokens))
            tokens.append(text)
        merged = ids[text]
        yield ord(left), ord(right), ord(merged)

        before, after = _replace(words, places, pair, merged)
        born: dict[str, list[int]] = defaultdict(list)
        for neighbour, at in before.items():
            count = sum(map(count_of, at))
            total[neighbour + left] -= count
            total[neighbour + merged] += count
            born[neighbour + merged] += at
        for neighbour, at in after.items():
            count = sum(map(count_of, at))
            total[right + neighbour] -= count
            total[merged + neighbour] += count
            born[merged + neighbour] += at
        for new, at in born.items():
            heappush(queue, (-total[new], new, at))


def _replace(words: list[str], places: list[int], pair: str, merged: str) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Merges ``pair`` in the words at ``places``; returns the tokens before and after it, with their words.

    A word is listed once per occurrence. Neighbours are those met from left to right: in ``abab`` the first ``ab`` is
    followed by ``a``, the second preceded by the merged ``ab``.
    """
    before: dict[str, list[int]] = defaultdict(list)
    after: dict[str, list[int]] = defaultdict(list)
    for place in places:
        parts = words[place].split(pair)
        last = len(parts) - 2  # -1 when another merge consumed the pair's tokens
        for index in range(last + 1):
            if parts[index] or index > 0:
                before[parts[index][-1:] or merged].append(place)
            if parts[index + 1] or index < last:
                after[parts[index + 1][:1] or pair[0]].append(place)
        words[place] = merged.join(parts)
    return before, after


def _spell(symbols: Iterable[str], ids: Mapping[str, int]) -> str:
    return "".join([chr(ids[symbol]) for symbol in symbols])


@final
@dataclass(frozen=True)
class BytePairs:
    """A trained byte-pair encoding. ``tokens[id]`` is spelled as in a vocabulary file; ``merges`` are in training order."""

    level: Level
    tokens: tuple[str, ...]
    merges: tuple[Merge, ...]
    special: tuple[str, ...] = ()
    unknown: str | None = None

    @cached_property
    def ids(self) -> dict[str, int]:
        return {token: token_id for token_id, token in enumerate(self.tokens)}

    @cached_property
    def _rules(self) -> list[tuple[str, str]]:
        """The merges as (pair, token), one character per id."""
        return [(chr(left) + chr(right), chr(merged)) for left, right, merged in self.merges]

    @cached_property
    def _ranks(self) -> dict[str, int]:
        return {pair: rank for rank, (pair, _) in enumerate(self._rules)}

    @cached_property
    def _special_pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self.special, key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, longest_first))})")

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``. A special token that is spelled out in the text becomes its id."""
        ids: list[int] = []
        for part in self._special_pattern.split(text) if self.special else [text]:
            if part in self.special:
                ids.append(self.ids[part])
            else:
                for word in self.level.words(part):
                    ids.extend(map(ord, self.merge(self.spell(word))))
        return ids

    def spell(self, word: str) -> str:
        """A word's symbols before any merge, one character per id."""
        symbols = self.level.symbols(word)
        if self.unknown is not None:
            symbols = [symbol if symbol in self.ids else self.unknown for symbol in symbols]
        return _spell((symbol for symbol in symbols if symbol in self.ids), self.ids)

    def merge(self, word: str) -> str:
        """Repeatedly merges the pair of lowest rank, the leftmost of several, until none is left."""
        rank_of, rules, never = self._ranks.get, self._rules, len(self.merges)
        while (rank := min(map(rank_of, map(add, word, word[1:]), repeat(never)), default=never)) < never:
            word = word.replace(*rules[rank], 1)
        return word

    def steps(self, word: str) -> list[Step]:
        """The merges by which ``word`` (one character per id) becomes what ``merge`` gives."""
        steps: list[Step] = []
        while found := [self._ranks[pair] for pair in map(add, word, word[1:]) if pair in self._ranks]:
            rank = min(found)
            place = word.index(self._rules[rank][0])
            word = word.replace(*self._rules[rank], 1)
            steps.append(Step(rank, place, tuple(map(ord, word))))
        return steps

    def replay(self, word: str) -> str:
        """The reference implementation of ``merge``: applies each merge in turn wherever it fits."""
        tokens = list(map(ord, word))
        for left, right, merged in self.merges:
            place = 0
            while place < len(tokens) - 1:
                if tokens[place] == left and tokens[place + 1] == right:
                    tokens[place : place + 2] = [merged]
                place += 1
        return "".join(map(chr, tokens))

    def bytes_of(self, token_id: int) -> bytes:
        """The bytes of a token; of a special token those of its name."""
        token = self.tokens[token_id]
        return token.encode() if token in self.special else self.level.bytes_of(token)
