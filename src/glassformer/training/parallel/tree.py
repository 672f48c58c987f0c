"""Gradients of pieces -> their sum, always added in the same pairs: a complete binary tree over the pieces of a batch.

A sum of two numbers has no order, so the bits of the sum do not depend on how many processes share the tree, nor on the
algorithm of a collective. The lower levels are added inside a process (``PairwiseSum``), the upper ones between two processes
at a time (``group.Group.sum``).
"""

from __future__ import annotations

from typing import final

from torch import Tensor


def is_power_of_two(number: int) -> bool:
    return number >= 1 and number & (number - 1) == 0


def share_of(pieces: int, rank: int, world: int) -> range:
    """The pieces of one process: neighbours, so that the lowest levels of the tree are its own."""
    each = pieces // world
    return range(rank * each, (rank + 1) * each)


@final
class PairwiseSum:
    """Adds tensors one by one as a binary counter does: two sums of equally many pieces become one.

    Holds at most one partial sum for each level. Complete after a power of two of tensors.
    """

    def __init__(self) -> None:
        self._partial: list[tuple[int, Tensor]] = []  # (level, sum), the highest level first

    def add(self, tensor: Tensor) -> None:
        level = 0
        while self._partial and self._partial[-1][0] == level:
            tensor, level = self._partial.pop()[1] + tensor, level + 1
        self._partial.append((level, tensor))

    @property
    def total(self) -> Tensor:
        ((_, total),) = self._partial
        return total
