"""Test inputs: random rows, perturbations that change every token, lengths up to the full context, cut positions."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.checks.subject import Subject

SHORT = (2, 3, 5, 8, 13)
"""Lengths at which every cut is tested."""
TOKENS_AT_ONCE = 1 << 14
SCORES_AT_ONCE = 1 << 25
"""A table of 2^25 float64 scores is 256 MiB."""
QUICK_WORK = 1e11
"""Budget of multiplications for a quick check; a larger model is tested at fewer positions, but at least at some."""
ROWS_OF_A_CHECK = 250
"""Full rows in a check without a budget."""


class Probes:
    """Draws the inputs of one check, deterministic in the seed, as many as the budget allows."""

    def __init__(self, subject: Subject, *, seed: int = 0, quick: bool = True) -> None:
        self.subject, self.quick = subject, quick
        self.brief = quick and subject.inside is not None
        """Whether the model without its head was checked separately, so that full rows only test the head."""
        self.generator = torch.Generator().manual_seed(seed)
        usable = [token for token in range(subject.vocabulary) if token not in subject.reserved_ids]
        self.usable = torch.tensor(usable)
        self._place = torch.full((subject.vocabulary,), 0)
        self._place[self.usable] = torch.arange(len(usable))
        self.share = min(1.0, QUICK_WORK / (subject.row_work * ROWS_OF_A_CHECK)) if quick else 1.0
        """The fraction of positions that is tested."""

    @property
    def heavy(self) -> bool:
        """Whether full rows are so expensive that minor code paths are tested on short rows only."""
        return self.brief or self.share < 0.5

    def affordable(self, wanted: int, *, least: int = 1) -> int:
        """The fraction of ``wanted`` positions that the budget allows."""
        return max(least, round(wanted * self.share))

    def rows(self, rows: int, length: int) -> Tensor:
        """Random rows; the last of several repeats one token."""
        ids_BT = self.usable[torch.randint(len(self.usable), (rows, length), generator=self.generator)]
        if rows > 2:
            ids_BT[-1] = ids_BT[-1, 0]
        return ids_BT.to(self.subject.device)

    def others(self, ids_BT: Tensor) -> Tensor:
        """Rows that differ at every position."""
        step_BT = torch.randint(1, len(self.usable), ids_BT.shape, generator=self.generator)
        return self.usable[(self._place[ids_BT.cpu()] + step_BT) % len(self.usable)].to(ids_BT.device)

    def changed_from(self, ids_BT: Tensor, cut_B: Tensor) -> Tensor:
        """The rows with every token from each row's cut on replaced."""
        later_BT = torch.arange(ids_BT.shape[1], device=ids_BT.device) >= cut_B.to(ids_BT.device).unsqueeze(1)
        return torch.where(later_BT, self.others(ids_BT), ids_BT)

    def short_lengths(self) -> list[int]:
        return [length for length in SHORT if length < self.subject.context]

    def long_lengths(self) -> list[int]:
        """Half the context and one less than all of it."""
        context = self.subject.context
        return sorted({context // 2 + 1, context - 1} - {context} - set(SHORT) - {0, 1})

    def cuts(self, length: int, *, wanted: int = 20) -> list[int]:
        """Cut positions: all of a short row or in a thorough check; else both ends, powers of two, and random ones.

        Always includes the cut before the last token, since some faults show only there.
        """
        every = list(range(1, length))
        if length <= max(SHORT) or not self.quick:
            return every
        needed = [length - 1, 1, length // 2]
        wanted = self.affordable(wanted, least=min(wanted // 4 + 1, len(needed)))
        powers = [cut for power in range(2, length.bit_length()) for cut in (1 << power, length - (1 << power))]
        shuffled = [every[i] for i in torch.randperm(len(every), generator=self.generator).tolist()]
        chosen = dict.fromkeys(cut for cut in (*needed, *powers, *shuffled) if 1 <= cut < length)
        return sorted(list(chosen)[:wanted])  # the last cut is the first of them

    def rows_at_once(self, length: int) -> int:
        """As many rows as fit comfortably into memory."""
        return max(1, min(TOKENS_AT_ONCE // length, SCORES_AT_ONCE // (length * self.subject.vocabulary)))
