"""``EvaluationTools``, the resources of an evaluation, and ``Baseline``, the interface of baselines. Imports no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.evaluation.outcomes import Outcomes

if TYPE_CHECKING:
    import torch


def _nothing() -> None:
    pass


def _uncounted(done: int) -> None:
    pass


@dataclass(frozen=True)
class EvaluationTools:
    """``keep_going`` raises after a stop request; ``progress`` is called with the amount done since the last call."""

    tokenizer: Tokenizer
    context: int
    batch_size: int = 32
    device: torch.device | None = None
    keep_going: Callable[[], None] = _nothing
    progress: Callable[[int], None] = _uncounted


class Baseline(ABC):
    """A simple model, fitted on the training data and saved in the run as arrays."""

    trivial: ClassVar[bool] = True
    """Whether a model that is not better than this has learned nothing."""

    @abstractmethod
    def evaluate(self, items: Any, tools: EvaluationTools) -> Outcomes:
        """Like the objective's ``evaluate`` for a network."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The fitted state, for ``from_arrays``; empty if nothing was fitted."""
        return {}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of ``arrays``."""
        return cls()
