"""Meta-analysis: verdicts of the same changes on several data sets -> one verdict over all, by random effects.

Effects differ between data sets. So the sets are treated as a random sample of sets, and the overall interval generalises to
new ones (Hartung-Knapp, with as many degrees of freedom as sets less one). Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.foundation.distributions import Floats, t_two_sided, t_upper
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric
from glassformer.study.history.ledger import Earlier
from glassformer.study.reporting.wording import EXPLORATORY, interval_text, number, p_value
from glassformer.study.statistics.corrections import holm
from glassformer.study.statistics.verdict import Verdict, Word

LEAST_VARIANCE = 1e-6  # relative to the largest variance among the sets
ROUNDING = 1e-30  # the least variance, where no set differs at all
FEWEST_SETS = 3  # two sets leave one degree of freedom: only a huge effect would be significant


@dataclass(frozen=True)
class Combined:
    """The mean over sets. Fields are arrays over the leading axes of the input."""

    mean: Floats
    variance: Floats
    between: Floats
    """The variance of the true differences from set to set."""
    sets: int

    @property
    def p(self) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(self.mean == 0.0, 0.0, np.abs(self.mean) / np.sqrt(self.variance))
        return t_two_sided(t, float(self.sets - 1))

    def half_width(self, confidence: float = 0.95) -> Floats:
        return np.asarray(t_upper(0.5 * (1.0 - confidence), float(self.sets - 1)) * np.sqrt(self.variance))


def combine(means: npt.ArrayLike, variances: npt.ArrayLike) -> Combined:
    """``means[..., set]`` with their variances: random effects, the variance never below that of fixed effects."""
    y, v = np.asarray(means, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    sets = y.shape[-1]
    # a set without any difference has variance 0; the floor keeps it from getting all the weight
    v = np.maximum(np.maximum(v, LEAST_VARIANCE * v.max(axis=-1, keepdims=True)), ROUNDING)
    weights = 1.0 / v
    fixed = (weights * y).sum(-1) / weights.sum(-1)
    spread = (weights * (y - fixed[..., None]) ** 2).sum(-1)
    scale = weights.sum(-1) - (weights**2).sum(-1) / weights.sum(-1)
    between = np.maximum(0.0, (spread - (sets - 1)) / scale)
    weights = 1.0 / (v + between[..., None])
    mean = (weights * y).sum(-1) / weights.sum(-1)
    own = (weights * (y - mean[..., None]) ** 2).sum(-1) / ((sets - 1) * weights.sum(-1))
    return Combined(mean, np.maximum(own, 1.0 / weights.sum(-1)), between, sets)


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
        return {
            "variant": self.variant,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "difference": self.difference.to_dict(),
            "p": self.p,
            "p_corrected": self.p_corrected,
            "by_set": dict(self.by_set),
        }


def over_sets(
    verdicts: Mapping[str, Sequence[Verdict]],
    metric: Metric,
    margin: float,
    alpha: float = 0.05,
    earlier: Mapping[str, Sequence[Earlier]] | None = None,
) -> list[Overall]:
    """``verdicts``: by set, one per change, the same changes on each. ``earlier``: by change, the earlier studies on each set.

    p is corrected by Holm over the planned changes (for exploratory ones over all), then for earlier studies.
    """
    names = [one.variant for one in next(iter(verdicts.values()))]
    rows = {name: {where: next(one for one in own if one.variant == name) for where, own in verdicts.items()} for name in names}
    found = {name: _combined(row) for name, row in rows.items()}
    p = {name: 1.0 if one is None else float(one.p) for name, one in found.items()}
    planned = [name for name in names if not _exploratory(rows[name])]
    corrected = dict(zip(names, holm(list(p.values())))) | dict(zip(planned, holm([p[name] for name in planned])))
    overall = []
    for name, row in rows.items():
        one, by_set = found[name], {where: verdict.verdict for where, verdict in row.items()}
        if one is None:
            reason = "not every set can be used"
            sentence = f"{name} is invalid over all sets, because {reason} ({_listed(by_set)})."
            overall.append(Overall(name, "invalid", sentence, Estimate(None, reason=reason), None, None, by_set))
        else:
            before = (earlier or {}).get(name, ())
            overall.append(
                _overall(name, one, by_set, float(corrected[name]), metric, margin, alpha, before, _exploratory(row))
            )
    return overall


def _exploratory(row: Mapping[str, Verdict]) -> bool:
    return any(one.exploratory for one in row.values())


def _listed(by_set: Mapping[str, str]) -> str:
    return "; ".join(f"{where}: {word}" for where, word in by_set.items())


def _combined(row: Mapping[str, Verdict]) -> Combined | None:
    """None where a set has no usable difference, or there are too few sets."""
    usable = [one.evidence for one in row.values() if one.verdict != "invalid" and one.evidence is not None]
    found = [(one.difference.value, one.half_width) for one in usable]
    known = [(value, half) for value, half in found if value is not None and half is not None]
    if len(known) < len(row) or len(row) < 2:
        return None
    half = np.array([half for _, half in known], dtype=np.float64)
    return combine([value for value, _ in known], (half / 1.96) ** 2)


def _overall(
    name: str,
    found: Combined,
    by_set: Mapping[str, str],
    p: float,
    metric: Metric,
    margin: float,
    alpha: float,
    earlier: Sequence[Earlier],
    exploratory: bool,
) -> Overall:
    """The verdict over all sets. Of earlier studies, the strictest correction among the sets and the smallest margin count."""
    mean, half = float(found.mean), float(found.half_width(0.95))
    difference = Estimate(mean, mean - half, mean + half, found.sets).within(metric.difference_bounds)
    claim: Word = "better" if metric.better(mean) else "worse"
    share = min((one.share(claim=claim) for one in earlier), default=1.0)
    share_of_same = min((one.share(claim="same") for one in earlier), default=1.0)
    within = min([margin, *(one.margin for one in earlier if one.margin is not None)])
    corrected = min(1.0, p / share)
    word: Word = "not decided"
    if found.sets >= FEWEST_SETS:
        if abs(mean) + float(found.half_width(1.0 - 2.0 * alpha * share_of_same)) < within:
            word = "same"
        elif corrected <= alpha:
            word = claim
    sentence = (
        f"{f'{EXPLORATORY} ' if exploratory else ''}{name} is {word} over {found.sets} sets: {metric.name} "
        f"{'lower' if mean < 0 else 'higher'} by {number(abs(mean), half)} ({interval_text(difference)}), "
        f"p {p_value(corrected)} ({_listed(by_set)})."
    )
    if {"better", "worse"} <= set(by_set.values()):
        sentence += " The sign of the difference varies between sets."
    if share < 1.0:
        sentence += f" It was studied before, so p is multiplied by {1.0 / share:.0f}."
    if found.sets < FEWEST_SETS:
        sentence += f" A verdict needs at least {FEWEST_SETS} sets."
    return Overall(name, word, sentence, difference, float(found.p), corrected, by_set)
