"""Inputs that tell: random rows, changes that leave no token as it was, lengths up to the full context, places to cut."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.checks.subject import Subject

SHORT = (2, 3, 5, 8, 13)
"""Lengths at which every cut is tried."""
TOKENS_AT_ONCE = 1 << 14
SCORES_AT_ONCE = 1 << 25
"""A table of 2^25 float64 scores is 256 MiB."""
QUICK_WORK = 1e11
"""Multiplications a quick check may cost; a model for which that is too little is tried at fewer places, never at none."""
ROWS_OF_A_CHECK = 250
"""Full rows that a check reads when work does not matter."""


class Probes:
    """Draws the inputs of one check, the same for the same seed, and knows how many a check can afford."""

    def __init__(self, subject: Subject, *, seed: int = 0, quick: bool = True) -> None:
        self.subject, self.quick = subject, quick
        self.brief = quick and subject.inside is not None
        """Whether all but the last step was checked on its own, so that full rows are for that step only."""
        self.generator = torch.Generator().manual_seed(seed)
        usable = [token for token in range(subject.vocabulary) if token not in subject.reserved_ids]
        self.usable = torch.tensor(usable)
        self._place = torch.full((subject.vocabulary,), 0)
        self._place[self.usable] = torch.arange(len(usable))
        self.share = min(1.0, QUICK_WORK / (subject.row_work * ROWS_OF_A_CHECK)) if quick else 1.0
        """Of the places that would be tried, how many are."""

    @property
    def heavy(self) -> bool:
        """Whether full rows are so expensive that paths which differ little are tried on short rows only."""
        return self.brief or self.share < 0.5

    def affordable(self, wanted: int, *, least: int = 1) -> int:
        """The share of ``wanted`` places that this model's size allows."""
        return max(least, round(wanted * self.share))

    def rows(self, rows: int, length: int) -> Tensor:
        """Random rows; the last of several says the same token all along."""
        ids_BT = self.usable[torch.randint(len(self.usable), (rows, length), generator=self.generator)]
        if rows > 2:
            ids_BT[-1] = ids_BT[-1, 0]
        return ids_BT.to(self.subject.device)

    def others(self, ids_BT: Tensor) -> Tensor:
        """Rows that differ at every place."""
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
        """Where the future begins: all cuts of a short row or of a thorough check; else the ends, powers of two, and others.

        The cut before the last token is always among them, since some faults show nowhere else.
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
        """As many rows as fit into memory comfortably."""
        return max(1, min(TOKENS_AT_ONCE // length, SCORES_AT_ONCE // (length * self.subject.vocabulary)))
