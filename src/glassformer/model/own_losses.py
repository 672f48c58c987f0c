"""Loss terms that parts of a model add to the objective's: named sums over tokens, collected in one forward pass.

A sum runs over tokens or rows one by one, so that it does not depend on how a batch is cut. Nothing is collected outside
training.
"""

from __future__ import annotations

from typing import final

from torch import Tensor


@final
class OwnLosses:
    """The weighted sums of one pass, by name; those of all layers together."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}

    def add(self, name: str, sum_of_tokens: Tensor) -> None:
        self.sums[name] = self.sums[name] + sum_of_tokens if name in self.sums else sum_of_tokens
