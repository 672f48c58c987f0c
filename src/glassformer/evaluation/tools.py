"""What an evaluation may use, and what a baseline is: a model that needs no training, beside every figure. Imports no torch."""

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
    """``keep_going`` raises when a stop was asked for; ``progress`` is called with how much was done since the last call."""

    tokenizer: Tokenizer
    context: int
    batch_size: int = 32
    device: torch.device | None = None
    keep_going: Callable[[], None] = _nothing
    progress: Callable[[int], None] = _uncounted


class Baseline(ABC):
    """A model that needs no training. Fitted on the training data, and kept in the run as arrays."""

    trivial: ClassVar[bool] = True
    """Whether a model that is not better than this has learned nothing."""

    @abstractmethod
    def evaluate(self, items: Any, tools: EvaluationTools) -> Outcomes:
        """The outcomes that the objective's ``evaluate`` gives for a network."""

    def arrays(self) -> dict[str, np.ndarray]:
        """All that ``from_arrays`` needs: nothing, unless it was fitted to something."""
        return {}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The baseline that ``arrays`` described."""
        return cls()
