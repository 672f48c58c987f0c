"""The time that trials took -> whether the study's budget allows more of them. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from glassformer.foundation.progress import duration
from glassformer.study.running.trial_results import TrialResult

CONTINUE = "A larger budget_hours continues from here."


@final
@dataclass
class Budget:
    """The compute time a study may use (``hours``; None: no limit) and has used (``spent``, in seconds), over all processes."""

    hours: float | None
    spent: float = 0.0

    @property
    def used_up(self) -> bool:
        return self.hours is not None and self.spent > 3600.0 * self.hours

    def incompatibility(self, seeds: int, left: int, done: Sequence[float]) -> str | None:
        """Why a look at ``seeds`` seeds exceeds the budget, or None. ``left`` trials cost the mean of ``done`` each."""
        if self.hours is None:
            return None
        cost, rest = left * sum(done) / max(1, len(done)), 3600.0 * self.hours - self.spent
        if cost <= rest:
            return None
        return (
            f"The look at {seeds} seeds would take about {duration(cost)} of computing, and {duration(max(0.0, rest))} of the "
            f"budget are left: not started. {CONTINUE}"
        )

    def used_up_message(self, cancelled: int) -> str:
        return f"The budget of {self.hours:g} hours is used up: {cancelled} trials are not started. {CONTINUE}"


def seconds_of(result: TrialResult, recipe: Mapping[str, Any]) -> float:
    """How long a trial took, from its own step count and batch size, which may be tuned."""
    if not result.tokens_per_second or result.evaluation is None or result.evaluation.step is None:
        return 0.0
    tokens = result.evaluation.step * recipe["training"]["batch_size"] * recipe["model"]["context"]
    return float(tokens / result.tokens_per_second)
