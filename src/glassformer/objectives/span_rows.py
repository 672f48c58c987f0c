"""Span corruption: lines of tokens -> rows `prefix MASK suffix ANSWER span END`, vectorised, on any device.

``TextLines`` indexes the lines of a text; ``draw`` samples the truncation and the spans of each row (numpy, on the host);
``compose`` builds the rows (torch, where the tokens are). The caller chooses the lines. With several spans each has its own
mask token, and the answer is all of them, separated by their masks. ``salient_spans`` finds capitalised names and years.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

Start = Literal["line", "title", "anywhere"]
DRAWS = 4  # uniform random numbers per row, besides two for each span
YEAR_DIGITS = 4


class Marks(NamedTuple):
    """The special ids. ``masks``: one for each span of a row. ``answer``: may be the first of them. ``end``: None for the mask
    after the last one used, as in T5."""

    masks: tuple[int, ...]
    answer: int
    end: int | None
    pad: int

    @property
    def openings(self) -> int:
        """How often ``answer`` occurs in a row up to where the answer begins."""
        return 2 if self.answer in self.masks else 1


@dataclass(frozen=True)
class SpanRule:
    """How rows are truncated and masked; lengths in tokens."""

    shortest: int
    longest: int
    random_cut: bool
    mean_share: float  # of the row that is masked
    mean_span: int | None  # None: one span; else as many spans as the share needs, of this mean length
    salient: float
    start: Start
    block: int = 0  # rows are padded to this width at least

    @property
    def spans(self) -> int:
        """The most spans a row can have."""
        return 1 if self.mean_span is None else max(1, round(self.longest * self.mean_share / self.mean_span))

    @property
    def width(self) -> int:
        """The most ids of a row, marks included: a mask for each hole and each span but the first, ANSWER and END."""
        return max(self.block, self.longest + 2 * self.spans + 1)


@final
class TextLines:
    """The lines of a text in tokens: where each begins, how long it is, its title, and its salient spans."""

    def __init__(self, tokens_N: np.ndarray, document_starts: np.ndarray, texts: Sequence[str], *, salient: bool) -> None:
        newline = np.array(["\n" in text for text in texts])
        blank = np.array([not text.strip() for text in texts])
        self.tokens_N = tokens_N
        begins = np.zeros(len(tokens_N) + 1, dtype=bool)
        begins[np.asarray(document_starts, dtype=np.int64)] = True
        begins[1:] |= newline[tokens_N]
        starts = np.flatnonzero(begins[:-1])
        ends = np.append(starts, len(tokens_N))[1:]
        for _ in range(2):  # the newline, and a carriage return before it
            ends = ends - ((ends > starts) & blank[tokens_N[ends - 1]])
        filled = ends > starts
        self.starts_R, self.lengths_R = starts[filled], (ends - starts)[filled]
        self.titles_R = self._titles(texts)
        none = np.zeros(0, dtype=np.int64)
        self.spans = self._inside(*salient_spans(tokens_N, texts)) if salient else (none, none, none)

    def __len__(self) -> int:
        return len(self.starts_R)

    def _titles(self, texts: Sequence[str]) -> np.ndarray:
        """int64 [R]: the tokens before the first full stop and space; the whole line without one."""
        dot = np.array([text.rstrip().endswith(".") for text in texts])
        spaced = np.array([text[:1].isspace() for text in texts])
        ids = np.asarray(self.tokens_N)
        places = np.flatnonzero(dot[ids[:-1]] & spaced[ids[1:]]) if len(ids) > 1 else np.zeros(0, dtype=np.int64)
        after = np.append(places, 1 << 60)[np.searchsorted(places, self.starts_R)] + 1
        return np.minimum(after - self.starts_R, self.lengths_R)

    def _inside(self, begins: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Begin and end of each span within its line, and where each line's spans begin in these lists ([R + 1])."""
        line = np.searchsorted(self.starts_R, begins, side="right") - 1
        whole = (line >= 0) & (ends <= (self.starts_R + self.lengths_R)[line])
        begins, ends, line = begins[whole], ends[whole], line[whole]
        counts = np.bincount(line, minlength=len(self))
        return begins - self.starts_R[line], ends - self.starts_R[line], np.concatenate([[0], np.cumsum(counts)])


@dataclass(frozen=True)
class Draw:
    """The draws of each row: token j of its text is token ``start + j``, from ``title`` on shifted by ``skip``; int64 [R]."""

    start: np.ndarray
    title: np.ndarray
    skip: np.ndarray
    length: np.ndarray
    begin_RK: np.ndarray
    end_RK: np.ndarray  # an empty span is unused

    def packed(self) -> np.ndarray:
        """int64 [R, 4 + 2 K]: one array, for one transfer to the device."""
        return np.column_stack([self.start, self.title, self.skip, self.length, self.begin_RK, self.end_RK])


def draw(lines: TextLines, rows: np.ndarray, uniform_RU: np.ndarray, rule: SpanRule) -> Draw:
    """The draws for each line of ``rows``, from uniform numbers [R, DRAWS + 2 * spans]."""
    start, length = lines.starts_R[rows], lines.lengths_R[rows]
    title = {"line": length, "title": lines.titles_R[rows], "anywhere": np.zeros_like(length)}[rule.start]
    title = np.where(title > rule.longest // 2, length, title)  # no room for anything else: as a line
    reach = np.where(title < length, length, np.minimum(length, rule.longest))
    begin, end, chosen = _salient(lines, rows, uniform_RU[:, 0], uniform_RU[:, 1], reach, rule)
    # The window after the title must hold the chosen span; without one it may lie anywhere.
    spare = np.maximum(length - (rule.shortest if rule.start == "anywhere" else rule.longest), 0)
    inside = chosen & (begin >= title)
    low = np.where(inside, np.maximum(end - rule.longest, 0), 0)
    high = np.where(
        inside,
        np.minimum(begin - title, np.maximum(spare, low)),
        np.where(title < length, np.minimum(spare, length - title), 0),
    )
    skip = low + _below(uniform_RU[:, 2], np.maximum(high - low, 0) + 1)
    limit = np.minimum(length - skip, rule.longest)
    begin, end = (np.where(inside, one - skip, one) for one in (begin, end))
    least = np.minimum(np.maximum(rule.shortest, np.where(chosen, end, 0)), limit)
    cut = least + _below(uniform_RU[:, 3], limit - least + 1) if rule.random_cut else limit
    begin_RK, end_RK = _random_spans(cut, uniform_RU[:, DRAWS:], rule)
    begin_RK, end_RK = np.where(chosen[:, None], 0, begin_RK), np.where(chosen[:, None], 0, end_RK)
    begin_RK[:, 0], end_RK[:, 0] = np.where(chosen, begin, begin_RK[:, 0]), np.where(chosen, end, end_RK[:, 0])
    return Draw(start, title, skip, cut, begin_RK, end_RK)


def _below(uniform: np.ndarray, many: np.ndarray) -> np.ndarray:
    """Uniform numbers -> integers from 0 to ``many`` - 1."""
    return np.minimum((uniform * many).astype(np.int64), many - 1)


def _salient(
    lines: TextLines, rows: np.ndarray, wanted: np.ndarray, which: np.ndarray, reach: np.ndarray, rule: SpanRule
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A salient span of each line that fits into the row, and whether there is one to use."""
    begins, ends, first = lines.spans
    if rule.salient == 0 or not len(begins):
        nothing = np.zeros_like(rows)
        return nothing, nothing, np.zeros(len(rows), dtype=bool)
    many = first[rows + 1] - first[rows]
    span = np.minimum(first[rows] + _below(which, np.maximum(many, 1)), len(begins) - 1)
    begin, end = begins[span], ends[span]
    usable = (many > 0) & (end <= reach) & (end - begin <= rule.longest // 2) & (wanted < rule.salient)
    return np.where(usable, begin, 0), np.where(usable, end, 0), usable


def _random_spans(cut: np.ndarray, uniform_RU: np.ndarray, rule: SpanRule) -> tuple[np.ndarray, np.ndarray]:
    """One span anywhere; or several, one in each of as many equal segments of the row. int64 [R, K]."""
    many = np.ones_like(cut)
    if rule.mean_span is not None:
        many = np.clip(np.round(cut * rule.mean_share / rule.mean_span).astype(np.int64), 1, rule.spans)
    k = np.arange(rule.spans)
    low, high = (k * cut[:, None]) // many[:, None], ((k + 1) * cut[:, None]) // many[:, None]
    part = np.where(k < many[:, None], high - low, 0)
    mean = part * rule.mean_share if rule.mean_span is None else np.minimum(part, rule.mean_span)
    # Uniform between 1 and twice the mean less 1, so that the mean is the mean.
    longest = np.clip(np.round(2 * mean - 1).astype(np.int64), 1, np.maximum(part, 1))
    size = np.minimum(1 + _below(uniform_RU[:, : rule.spans], longest), part)
    begin = low + _below(uniform_RU[:, rule.spans :], part - size + 1)
    return begin, begin + size


def compose(tokens_N: Tensor, packed_RC: Tensor, marks: Marks, width: int) -> Tensor:
    """The rows as ids [R, width], padded: where each token of the visible text and of the spans goes, all rows at once."""
    device, rows = packed_RC.device, packed_RC.shape[0]
    start, title, skip, length = (packed_RC[:, column, None] for column in range(4))
    spans = (packed_RC.shape[1] - 4) // 2
    begin_RK, end_RK = packed_RC[:, 4 : 4 + spans], packed_RC[:, 4 + spans :]
    size_RK = end_RK - begin_RK
    there_RK = size_RK > 0
    j_T = torch.arange(width, device=device)
    place = (start + j_T + torch.where(j_T >= title, skip, 0)).clamp(max=len(tokens_N) - 1)
    ids_RT = tokens_N[place].long()
    inside_RTK = (j_T[:, None] >= begin_RK[:, None, :]) & (j_T[:, None] < end_RK[:, None, :])
    masked_RT = inside_RTK.any(dim=2)
    beyond = width  # a dummy column for unused writes, dropped at the end
    # A visible token moves left by the masked tokens before it and right by the masks before it.
    before_RTK = (end_RK[:, None, :] <= j_T[:, None]) & there_RK[:, None, :]
    shift_RT = (before_RTK * (1 - size_RK[:, None, :])).sum(dim=2)
    seen_RT = torch.where((j_T < length) & ~masked_RT, j_T + shift_RT, beyond)
    # Then ANSWER, the spans with their masks between them, END.
    gone_RK = size_RK.cumsum(dim=1) - size_RK
    number_RK = there_RK.cumsum(dim=1) - there_RK.long()
    many_R1, total_R1 = there_RK.sum(dim=1, keepdim=True), size_RK.sum(dim=1, keepdim=True)
    answer_R1 = length - total_R1 + many_R1
    tail_RK = answer_R1 + 1 + gone_RK + number_RK  # where each span's tokens begin
    shift_RT = (inside_RTK * (tail_RK - begin_RK)[:, None, :]).sum(dim=2)
    hidden_RT = torch.where((j_T < length) & masked_RT, j_T + shift_RT, beyond)
    mask_RK = torch.where(there_RK, begin_RK - gone_RK + number_RK, beyond)
    between_RK = torch.where(there_RK & (number_RK > 0), tail_RK - 1, beyond)
    end_R1 = answer_R1 + total_R1 + many_R1  # after ANSWER, all spans and the masks between them
    row_RT = torch.full((rows, width + 1), marks.pad, dtype=torch.long, device=device)
    masks_K = torch.tensor(marks.masks[: spans + 1], device=device)
    masks_RK = masks_K[number_RK.clamp(max=spans - 1)]
    for where, what in ((seen_RT, ids_RT), (hidden_RT, ids_RT), (mask_RK, masks_RK), (between_RK, masks_RK)):
        row_RT.scatter_(1, where, what)
    row_RT.scatter_(1, answer_R1, marks.answer)
    row_RT.scatter_(1, end_R1, masks_K[many_R1] if marks.end is None else marks.end)
    return row_RT[:, :width]


class _Ids(NamedTuple):
    """Properties of the text of each id, bool [V]."""

    word: np.ndarray  # has a letter or digit after its leading white space
    spaced: np.ndarray  # begins with one space before a word
    blank: np.ndarray  # is one space
    begins: np.ndarray  # begins with a letter or digit
    ends: np.ndarray  # ends with one
    upper: np.ndarray  # the first letter of the word is a capital
    digits: np.ndarray  # nothing but digits
    size: np.ndarray  # int64: characters of the word


def salient_spans(tokens_N: np.ndarray, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Capitalised names and years: where the spans begin and end (int64, rising, disjoint). ``texts``: the text of each id.

    Works on any tokenizer by looking at the text of each id once. Neighbouring capitalised words are one span ("New York").
    """
    about = _about_ids(texts)
    ids = np.asarray(tokens_N, dtype=np.int64)
    ends_before = np.concatenate([[False], about.ends[ids[:-1]]])
    first = about.word[ids] & (~about.begins[ids] | ~ends_before)
    starts = np.flatnonzero(first)
    if not len(starts):
        return starts, starts
    going_on = about.begins[ids] & ends_before
    # A word ends at the first token that does not continue it.
    stops = np.flatnonzero(~going_on)
    ends = np.append(stops, len(ids))[np.searchsorted(stops, starts, side="right")]
    whole_digits = np.add.reduceat(np.append(~about.digits[ids], False), np.stack([starts, ends], 1).ravel())[::2] == 0
    length = np.add.reduceat(np.append(about.size[ids], 0), np.stack([starts, ends], 1).ravel())[::2]
    capital = about.upper[ids[starts]]
    year = whole_digits & (length == YEAR_DIGITS)
    chosen = np.flatnonzero(capital | year)
    return _join_words(starts[chosen], ends[chosen], capital[chosen], ids, about)


def _join_words(
    starts: np.ndarray, ends: np.ndarray, capital: np.ndarray, ids: np.ndarray, about: _Ids
) -> tuple[np.ndarray, np.ndarray]:
    """Capitalised words with nothing but one space between them become one span."""
    if len(starts) < 2:
        return starts, ends
    adjoin = (starts[1:] == ends[:-1]) & about.spaced[ids[starts[1:]]]
    apart = (starts[1:] == ends[:-1] + 1) & about.blank[ids[ends[:-1]]] & ~about.spaced[ids[starts[1:]]]
    together = (adjoin | apart) & capital[1:] & capital[:-1]
    first = np.concatenate([[True], ~together])
    last = np.concatenate([~together, [True]])
    return starts[first], ends[last]


def _about_ids(texts: Sequence[str]) -> _Ids:
    def inside(sign: str) -> bool:
        return sign.isalnum() or sign in "'’-"

    stripped = [text.lstrip() for text in texts]
    return _Ids(
        word=np.array([bool(word) and word[0].isalnum() for word in stripped]),
        spaced=np.array([text == " " + word and bool(word) for text, word in zip(texts, stripped)]),
        blank=np.array([text == " " for text in texts]),
        begins=np.array([bool(text) and inside(text[0]) for text in texts]),
        ends=np.array([bool(text) and inside(text[-1]) for text in texts]),
        upper=np.array([bool(word) and word[0].isupper() for word in stripped]),
        digits=np.array([word.isdigit() for word in stripped]),
        size=np.array([len(word) for word in stripped], dtype=np.int64),
    )
