"""The abstention rule: several scores of an answer -> one score, and a threshold for "I don't know". Imports no torch.

Fitted by an evaluation on one half of the people (``retrieved``): a logistic regression separates people in the training text
from people who are not, and the threshold still answers 90 % of the known. Saved with the evaluation for ``ask``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self, final

import numpy as np

from glassformer.evaluation.ranking import fit_logistic
from glassformer.foundation.errors import UsageError
from glassformer.knowledge.coverage import threshold_for


@final
@dataclass(frozen=True)
class AbstainRule:
    """``names`` of the scores with each one's mean, standard deviation and weight. ``wordings`` and ``families``: inputs of the
    scores, needed to compute them for a single question."""

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
        """Fits the rule to scores of people in the training text (``known``) and of people who are not (``nowhere``)."""
        names = tuple(known)
        positive, negative = (np.column_stack([scores[name] for name in names]) for scores in (known, nowhere))
        both = np.concatenate([positive, negative])
        mean, spread = both.mean(axis=0), np.maximum(both.std(axis=0), 1e-12)
        label = np.concatenate([np.ones(len(positive)), np.zeros(len(negative))])
        *weights, constant = fit_logistic((both - mean) / spread, label).tolist()
        rule = cls(names, tuple(mean.tolist()), tuple(spread.tolist()), tuple(weights), constant, 0.0, **more)
        return replace(rule, threshold=threshold_for(rule.score(known), answered))

    def score(self, scores: Mapping[str, np.ndarray]) -> np.ndarray:
        """One score per question: the log odds that the person is in the training text."""
        rows = np.column_stack([scores[name] for name in self.names])
        return np.asarray(((rows - np.array(self.mean)) / np.array(self.spread)) @ np.array(self.weights) + self.constant)

    def to_dict(self) -> dict[str, Any]:
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in document.items()}
        return cls(**values)


def require_rule(rule: AbstainRule | None, run: object) -> AbstainRule:
    """The rule; raises where the run's evaluation fitted none."""
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
