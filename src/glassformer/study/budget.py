"""What trials took -> whether a study's budget of hours pays for more. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from glassformer.foundation.progress import duration
from glassformer.study.results import TrialResult

GOES_ON = "A larger budget_hours goes on from here."


@final
@dataclass
class Budget:
    """Seconds of computing that a study may take, all processes added up (``hours`` None: any number), and has taken."""

    hours: float | None
    spent: float = 0.0

    @property
    def used_up(self) -> bool:
        return self.hours is not None and self.spent > 3600.0 * self.hours

    def objection(self, seeds: int, left: int, done: Sequence[float]) -> str | None:
        """Why a look at ``seeds`` seeds is not begun: ``left`` trials would cost what ``done`` ones took on average."""
        if self.hours is None:
            return None
        cost, rest = left * sum(done) / max(1, len(done)), 3600.0 * self.hours - self.spent
        if cost <= rest:
            return None
        return (
            f"The look at {seeds} seeds would take about {duration(cost)} of computing, and {duration(max(0.0, rest))} of the "
            f"budget are left: not begun. {GOES_ON}"
        )

    def told(self, withdrawn: int) -> str:
        """The sentence for trials that are not begun because it is used up."""
        return f"The budget of {self.hours:g} hours is used up: {withdrawn} trials are not begun. {GOES_ON}"


def seconds_of(result: TrialResult, recipe: Mapping[str, Any]) -> float:
    """How long a trial took, from what it read: a setting of a grid may have other steps and batches than its variant."""
    if not result.tokens_per_second or result.evaluation is None or result.evaluation.step is None:
        return 0.0
    tokens = result.evaluation.step * recipe["training"]["batch_size"] * recipe["model"]["context"]
    return float(tokens / result.tokens_per_second)
