"""How well scores of answers separate retrieved from hallucinated ones (AUC). Imports no torch.

Retrieved: a right answer about a person in the training text. Hallucinated ("made up"): a wrong one, and any answer about
people who are nowhere. Scores are combined by a logistic regression fitted on one half of the people and tested on the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.evaluation.abstaining import AbstainRule
from glassformer.evaluation.calibration import first_half
from glassformer.evaluation.ranking import auc, together
from glassformer.knowledge.coverage import abstention


def retrieved_or_made_up(
    known: Mapping[str, np.ndarray],
    right_N: np.ndarray,
    known_ids: Sequence[str],
    nowhere: Mapping[str, np.ndarray],
    nowhere_ids: Sequence[str],
    *,
    answered: float = 0.9,
) -> dict[str, Any] | None:
    """AUC of each score and of all combined, and abstention by the combined score; all on the held-out half.

    ``rule``: the abstention rule, for new questions.
    """
    names = list(known)
    scores = np.column_stack([np.concatenate([known[name], nowhere[name]]) for name in names])
    retrieved = np.concatenate([right_N > 0, np.zeros(len(nowhere_ids), dtype=bool)])
    fitted = first_half([*known_ids, *nowhere_ids])
    other = ~fitted
    if not (retrieved[fitted].any() and (~retrieved)[fitted].any() and retrieved[other].any() and (~retrieved)[other].any()):
        return None
    found = {name: auc(column[other & retrieved], column[other & ~retrieved]) for name, column in zip(names, scores.T)}
    combined = together(scores[fitted], retrieved[fitted].astype(np.float64), scores)
    found["together"] = auc(combined[other & retrieved], combined[other & ~retrieved])
    # The abstention rule predicts whether a person is in the text, not whether the answer is right.
    known_half, nowhere_half = first_half(known_ids), first_half(nowhere_ids)
    rule = AbstainRule.fit(_chosen(known, known_half), _chosen(nowhere, nowhere_half), answered=answered)
    return {
        "auc": {name: one.to_dict() for name, one in found.items()},
        "abstention": abstention(rule.score(known), known_ids, rule.score(nowhere), nowhere_ids, answered=answered),
        "rule": rule.to_dict(),
        "tested_on": {"retrieved": int((other & retrieved).sum()), "made_up": int((other & ~retrieved).sum())},
    }


def _chosen(scores: Mapping[str, np.ndarray], which_N: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[which_N] for name, values in scores.items()}
