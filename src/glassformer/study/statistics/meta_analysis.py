"""Verdicts of the same changes on several texts -> one verdict over all of them.

Effects differ between texts, so the texts are a sample of texts: a t test over the texts' mean differences, each with the same
weight, its interval for new texts. Unequal precision of the texts does not matter: the t test of independent normal means with
different variances is conservative at these levels (Ibragimov and Mueller 2010). Weights by precision gave 9 to 14 % false
findings where one text was far more precise than the others. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.evaluation.interval_estimates import mean as mean_over
from glassformer.foundation.distributions import Floats
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric
from glassformer.study.history.ledger import Earlier
from glassformer.study.reporting import wording
from glassformer.study.statistics.corrections import ALPHA, EXPLORATORY, FIRST_STUDY, holm
from glassformer.study.statistics.evidence import Word
from glassformer.study.statistics.two_way import p_of_mean
from glassformer.study.statistics.verdict import Verdict

FEWEST_SETS = 3  # two texts leave one degree of freedom: only a huge effect would be significant


@dataclass(frozen=True)
class Overall:
    """One change over all sets."""

    variant: str
    verdict: Word
    sentence: str
    difference: Estimate
    p: float | None
    p_corrected: float | None
    by_set: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "difference": self.difference.to_dict(), "by_set": dict(self.by_set)}


def over_sets(
    verdicts: Mapping[str, Sequence[Verdict]],
    metric: Metric,
    margin: float,
    alpha: float = ALPHA,
    earlier: Mapping[str, Sequence[Earlier]] | None = None,
    texts: Mapping[str, str] | None = None,
) -> list[Overall]:
    """``verdicts``: by set, one per change, the same changes on each. ``earlier``: by change, the earlier studies on each set.

    t = mean / (sd / sqrt(k)) over the k texts' differences, k - 1 degrees of freedom; p over the share of alpha of the set that
    was studied most; Holm over the planned changes (for exploratory ones over all). Same: every set says so, and the 90 %
    interval lies inside the margin. ``texts``: by set, which text it is: several recipes on one text are one text.
    """
    names = [one.variant for one in next(iter(verdicts.values()))]
    rows = {name: {where: next(one for one in own if one.variant == name) for where, own in verdicts.items()} for name in names}
    added = {name: any(one.exploratory for one in row.values()) for name, row in rows.items()}
    shares, means = dict[str, float](), {name: _text_means(row, texts) for name, row in rows.items()}
    for name in names:
        first = EXPLORATORY if added[name] else FIRST_STUDY
        shares[name] = min([first, *(one.share for one in (earlier or {}).get(name, ()))])
    p = {name: 1.0 if one is None or len(one) < 2 else _p(one) for name, one in means.items()}
    levels = {name: min(1.0, p[name] / shares[name]) for name in names}
    planned = [name for name in names if not added[name]]
    corrected = dict(zip(names, holm(list(levels.values())))) | dict(zip(planned, holm([levels[name] for name in planned])))
    overall = []
    for name, row in rows.items():
        own, by_set = means[name], {where: one.verdict for where, one in row.items()}
        said = "; ".join(f"{where}: {word}" for where, word in by_set.items())
        if own is None:
            reason = "not every set can be used"
            sentence = f"{name} is invalid over all sets, because {reason} ({said})."
            overall.append(Overall(name, "invalid", sentence, Estimate(None, reason=reason), None, None, by_set))
            continue
        k, mean, level = len(own), float(own.mean()), float(corrected[name])
        count = max(1, len(planned) if not added[name] else len(names))
        difference = mean_over(own, level=1.0 - alpha * shares[name] / count).within(metric.difference_bounds)
        same = mean_over(own, level=1.0 - 2.0 * alpha * shares[name])
        inside = same.low is not None and same.high is not None and -margin < same.low and same.high < margin
        word: Word = "not decided"
        if k >= FEWEST_SETS and inside and set(by_set.values()) == {"same"}:
            word = "same"
        elif k >= FEWEST_SETS and level <= alpha:
            word = "better" if metric.better(mean) else "worse"
        over = f"{k} sets" if k == len(row) else f"{len(row)} recipes on {'1 text' if k == 1 else f'{k} texts'}"
        sentence = (
            f"{f'{wording.EXPLORATORY} ' if added[name] else ''}{name} is {word} over {over}: {metric.name} "
            f"{'lower' if mean < 0 else 'higher'} by {wording.amount(mean, metric, difference.half_width)} "
            f"({wording.interval_text(difference, metric=metric)}), p {wording.p_value(level)} ({said})."
        )
        if {"better", "worse"} <= set(by_set.values()):
            sentence += " The sign of the difference varies between sets."
        if k < FEWEST_SETS:
            sentence += f" A verdict needs at least {FEWEST_SETS} texts."
        overall.append(Overall(name, word, sentence, difference, p[name], level, by_set))
    return overall


def _p(means: Floats) -> float:
    """Two-sided p of Student's t = mean / (sd / sqrt(k))."""
    return p_of_mean(float(means.mean()), float(means.var(ddof=1)) / len(means), len(means) - 1)


def _text_means(row: Mapping[str, Verdict], texts: Mapping[str, str] | None) -> Floats | None:
    """The mean difference on each text; None where a set has no usable difference, or there is one set only."""
    known = {where: one.difference.value for where, one in row.items() if one.verdict != "invalid"}
    usable = {where: value for where, value in known.items() if value is not None}
    if len(usable) < len(row) or len(row) < 2:
        return None
    by_text: dict[str, list[float]] = {}
    for where, value in usable.items():
        by_text.setdefault((texts or {}).get(where, where), []).append(value)
    return np.array([np.mean(values) for values in by_text.values()])
