"""Several scores of an answer -> one, and the threshold below which "I don't know" is said. Imports no torch.

Fitted by an evaluation on one half of its people (``retrieved``): the weights tell people of the text from people who are
nowhere, and the threshold leaves 90 % of the known answered. Kept with the evaluation, so that ``ask`` can use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self, final

import numpy as np

from glassformer.evaluation.coverage import threshold_for
from glassformer.evaluation.ranking import fit_logistic
from glassformer.foundation.errors import UsageError


@final
@dataclass(frozen=True)
class AbstainRule:
    """``names`` of the scores with each one's mean, spread and weight. ``wordings`` and ``families``: what the scores were made
    with, for questions that come one at a time."""

    names: tuple[str, ...]
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    weights: tuple[float, ...]
    constant: float
    threshold: float
    wordings: tuple[str, ...] = ()
    families: tuple[str, ...] = ()

    @classmethod
    def fit(cls, known: Mapping[str, np.ndarray], nowhere: Mapping[str, np.ndarray], *, answered: float, **more: Any) -> Self:
        """From the scores of people of the text and of people who are nowhere."""
        names = tuple(known)
        told, untold = (np.column_stack([scores[name] for name in names]) for scores in (known, nowhere))
        both = np.concatenate([told, untold])
        mean, spread = both.mean(axis=0), np.maximum(both.std(axis=0), 1e-12)
        label = np.concatenate([np.ones(len(told)), np.zeros(len(untold))])
        *weights, constant = fit_logistic((both - mean) / spread, label).tolist()
        rule = cls(names, tuple(mean.tolist()), tuple(spread.tolist()), tuple(weights), constant, 0.0, **more)
        return replace(rule, threshold=threshold_for(rule.score(known), answered))

    def score(self, scores: Mapping[str, np.ndarray]) -> np.ndarray:
        """One score per question: the log odds that the text tells of the person."""
        rows = np.column_stack([scores[name] for name in self.names])
        return np.asarray(((rows - np.array(self.mean)) / np.array(self.spread)) @ np.array(self.weights) + self.constant)

    def to_dict(self) -> dict[str, Any]:
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in document.items()}
        return cls(**values)


def require_rule(rule: AbstainRule | None, run: object) -> AbstainRule:
    """The rule of a run's evaluation, or a sentence where it fitted none."""
    if rule is None:
        raise UsageError(
            f"{run} has no rule for abstaining: its evaluation asks about nobody, or gets no answer right; give "
            "--abstain-below P."
        )
    return rule


def rule_of(details: Mapping[str, Any]) -> AbstainRule | None:
    """The rule among the details of an evaluation; None where it fitted none."""
    found = details.get("nowhere", {}).get("retrieved", {}).get("rule")
    return None if found is None else AbstainRule.from_dict(found)
