"""Crossed random effects of seeds and documents: differences d[seed, document] -> mean, variance, intervals, p values.

Every seed and variant is evaluated on the same documents, so both are random effects (a crossed design). Functions accept
any leading axes, so that simulated studies run through the same code as a real one. Imports no torch and no scipy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.foundation.distributions import Floats, t_two_sided, t_upper
from glassformer.foundation.estimate import Estimate
from glassformer.study.inference.binomial_bounds import at_most_probability
from glassformer.study.inference.document_variance import units_of

BADLY_HURT = 1.0  # the loss of one badly hurt document: an answer, a nat per token or a bit per byte


@dataclass(frozen=True)
class TwoWayEffects:
    """The mean difference and the three variance components. Fields are arrays over the leading axes of the differences.

    With n seeds and m documents of equal weight: ``from_seeds`` is SA/n, ``from_documents`` SB/m, ``from_residual`` SE/(nm).
    ``seed_squares`` and ``residual_squares``: sums of squared components over their degrees of freedom, for Satterthwaite's
    formula. ``largest``: the largest difference of one document, scaled to a document of average weight.
    """

    seed_means: Floats
    mean: Floats
    documents: int
    effective_documents: float
    documents_df: float
    from_seeds: Floats
    from_documents: Floats
    from_residual: Floats
    seed_squares: Floats
    residual_squares: Floats
    largest: Floats
    differing: Floats
    """The number of documents whose mean over seeds differs at all."""
    from_tuning: float = 0.0
    """The part of ``from_seeds`` that is selection variance from tuning: more seeds or documents do not reduce it."""

    @property
    def seeds(self) -> int:
        return int(self.seed_means.shape[-1])

    @property
    def seed_variance(self) -> Floats:
        """SA: the variance over seeds of the seed means."""
        return (self.from_seeds - self.from_tuning) * self.seeds

    @property
    def tuning_share(self) -> Floats:
        """The fraction of the variance that only more tuning seeds would reduce."""
        total = self.from_seeds + self.document_variance
        return np.where(total > 0.0, self.from_tuning / np.where(total > 0.0, total, 1.0), 0.0)

    @property
    def document_variance(self) -> Floats:
        """The variance of the mean due to the sample of documents, without residual noise."""
        return np.maximum(self.from_documents - self.from_residual, 0.0)

    @property
    def document_share(self) -> Floats:
        """The fraction of the variance that more documents, not more seeds, would reduce."""
        documents = self.document_variance
        with np.errstate(invalid="ignore"):
            share = documents / np.where(documents > 0.0, self.from_seeds + documents, 1.0)
        return np.where(np.isinf(documents), 1.0, share)

    @property
    def variance(self) -> Floats:
        """V, at least the component of seeds or of documents alone."""
        return np.maximum(
            self.from_seeds + self.from_documents - self.from_residual, np.maximum(self.from_seeds, self.from_documents)
        )

    @property
    def seed_df(self) -> Floats:
        """n - 1 for pairs; Welch's for two independent arms."""
        some = self.seed_squares > 0.0
        with np.errstate(invalid="ignore"):
            df = np.where(some, self.from_seeds**2 / np.where(some, self.seed_squares, 1.0), float(max(self.seeds - 1, 1)))
        return np.where(np.isfinite(df), df, 1.0)

    @property
    def df(self) -> Floats:
        """Satterthwaite's degrees of freedom of V."""
        if self.seeds < 2 or self.documents_df <= 0.0:
            return np.ones_like(self.mean)
        parts = self.seed_squares + self.from_documents**2 / self.documents_df + self.residual_squares
        return np.where(parts > 0.0, self.variance**2 / np.where(parts > 0.0, parts, 1.0), float(self.seeds - 1))

    @property
    def p_seed(self) -> Floats:
        """Two-sided p of "no difference", documents fixed."""
        return _p_of_mean(self.mean, self.from_seeds, self.seed_df)

    @property
    def p_crossed(self) -> Floats:
        """Two-sided p of "no difference", documents random as well."""
        return _p_of_mean(self.mean, self.variance, self.df)

    @property
    def p(self) -> Floats:
        return np.maximum(self.p_seed, self.p_crossed)

    @property
    def smallest_p(self) -> Floats:
        """The smallest p that a sign test can give: every differing document on one side.

        Right-or-wrong answers that are all won have no variance over items, and a t test would then be meaningless.
        """
        return np.minimum(1.0, 2.0 * 0.5 ** np.asarray(self.differing, dtype=np.float64))

    def p_beyond(self, margin: float) -> Floats:
        """Two-sided p of "no more than the margin": small only if the whole interval lies beyond the margin."""
        room = np.abs(self.mean) - margin
        tests = ((self.from_seeds, self.seed_df), (self.variance, self.df))
        return np.where(room > 0.0, np.maximum(*(_p_of_mean(room, variance, df) for variance, df in tests)), 1.0)

    def p_same(self, margin: float, *, answers: bool = False) -> Floats:
        """p of "the difference reaches the margin" (equivalence test): by seeds alone, crossed, and by ``p_missed``.

        0 where nothing differs at all; not for right-or-wrong answers, which can agree by chance.
        """
        nothing = (self.mean == 0.0) & (self.from_seeds == 0.0) & (self.from_documents == 0.0)
        p = np.maximum(self.p_same_here(margin), self.p_missed(margin))
        return np.where(nothing & (not answers), 0.0, p)

    def p_same_here(self, margin: float) -> Floats:
        """TOST: the larger p of the two one-sided tests, by seeds alone and crossed, for documents like the observed ones."""
        room = margin - np.abs(self.mean)
        sides = []
        for variance, df in ((self.from_seeds, self.seed_df), (self.variance, self.df)):
            tail = 0.5 * _p_of_mean(room, variance, df)
            sides.append(np.where(room > 0.0, tail, 1.0 - tail))
        return np.maximum(sides[0], sides[1])

    def p_missed(self, margin: float) -> Floats:
        """P(so few badly hurt documents in the sample) if rare badly hurt ones alone made a difference of the margin.

        A badly hurt document loses 1 (an answer, a nat, a bit), or as much as the worst one observed. A fraction margin / 1 of
        them makes the margin, and a sample without any has too small a variance to show it.
        """
        worst = np.maximum(self.largest, BADLY_HURT)
        return at_most_probability(np.abs(self.mean) / worst, margin / worst, self.effective_documents)

    def seed_half_width(self, confidence: float = 0.95) -> Floats:
        """Half width of the interval for this set of documents (t over seeds)."""
        return _half_width(self.from_seeds, self.seed_df, confidence)

    def half_width(self, confidence: float = 0.95) -> Floats:
        """Half width of the reported interval: the wider of seed t and crossed t."""
        return np.maximum(self.seed_half_width(confidence), _half_width(self.variance, self.df, confidence))

    def estimate(self, confidence: float = 0.95, *, on_this_set: bool = False) -> Estimate:
        """The difference of one study with its interval."""
        half = float(self.seed_half_width(confidence) if on_this_set else self.half_width(confidence))
        value = float(self.mean)
        if not math.isfinite(half):
            return Estimate(value, n=self.seeds)
        return Estimate(value, value - half, value + half, self.seeds)

    def with_tuning_variance(self, variance: float) -> TwoWayEffects:
        """A copy with the selection variance of tuning added; the degrees of freedom stay as they are."""
        if variance == 0.0:
            return self
        grown = np.where(self.from_seeds > 0.0, 1.0 + variance / np.where(self.from_seeds > 0.0, self.from_seeds, 1.0), 1.0)
        squares = self.seed_squares * grown**2
        return replace(self, from_seeds=self.from_seeds + variance, seed_squares=squares, from_tuning=variance)


def two_way_effects(differences: npt.ArrayLike, weights: npt.ArrayLike | None = None, *, blocks: bool = False) -> TwoWayEffects:
    """Analyses ``differences[..., seed, document]``; ``weights`` are the documents' tokens (equal when not given).

    Documents of weight 0 are left out. With one seed, or one document, that variance component is infinite.
    ``blocks``: the documents are consecutive blocks of one text, and so autocorrelated.
    """
    d = np.asarray(differences, dtype=np.float64)
    d, units = units_of(d, weights, blocks)
    n = d.shape[-2]
    seed_means = d @ units.weights
    mean = seed_means.mean(axis=-1)
    document_means = d.mean(axis=-2)
    spread = document_means - mean[..., None]
    from_seeds = seed_means.var(axis=-1, ddof=1) / n if n > 1 else np.full_like(mean, np.inf)
    from_documents, from_residual = units.variance(spread), np.zeros_like(mean)
    seed_squares, residual_squares = np.zeros_like(mean), np.zeros_like(mean)
    if n > 1 and len(units.weights) > 1:
        from_residual = units.residual_variance(d, seed_means, spread)
        seed_squares, residual_squares = from_seeds**2 / (n - 1), from_residual**2 / ((n - 1) * units.df)
    return TwoWayEffects(
        seed_means=seed_means,
        mean=mean,
        from_seeds=from_seeds,
        from_documents=from_documents,
        from_residual=from_residual,
        seed_squares=seed_squares,
        residual_squares=residual_squares,
        **units.summary(document_means),
    )


def unpaired(
    change: npt.ArrayLike, base: npt.ArrayLike, weights: npt.ArrayLike | None = None, *, blocks: bool = False
) -> TwoWayEffects:
    """Analyses two independent arms, ``[..., seed, document]`` each, on the same documents: Welch, crossed.

    Each arm has its own variance over seeds, since a change may be noisier than the baseline. ``seed_means`` are the change's,
    minus the mean of the baseline.
    """
    change_, base_ = np.asarray(change, dtype=np.float64), np.asarray(base, dtype=np.float64)
    change_, units = units_of(change_, weights, blocks)
    base_, _ = units_of(base_, weights, blocks)
    arms = []
    for d in (change_, base_):
        n, seed_means = d.shape[-2], d @ units.weights
        mean, document_means = seed_means.mean(axis=-1), d.mean(axis=-2)
        rest = units.residual_variance(d, seed_means, document_means - mean[..., None])
        arms.append((n, seed_means, mean, document_means, seed_means.var(axis=-1, ddof=1) / n, rest))
    (n1, means1, mean1, documents1, seeds1, rest1), (n0, _, mean0, documents0, seeds0, rest0) = arms
    mean, documents = mean1 - mean0, documents1 - documents0
    return TwoWayEffects(
        seed_means=means1 - mean0[..., None],
        mean=mean,
        from_seeds=seeds1 + seeds0,
        from_documents=units.variance(documents - mean[..., None]),
        from_residual=rest1 + rest0,
        seed_squares=seeds1**2 / (n1 - 1) + seeds0**2 / (n0 - 1),
        residual_squares=rest1**2 / ((n1 - 1) * units.df) + rest0**2 / ((n0 - 1) * units.df),
        **units.summary(documents),
    )


def without_each_seed(seeds: int, analyse: Callable[[npt.NDArray[np.int_]], TwoWayEffects]) -> TwoWayEffects:
    """Leave-one-out over seeds: the analyses without each seed, along a new leading axis."""
    parts = [analyse(np.delete(np.arange(seeds), seed)) for seed in range(seeds)]

    arrays = [one.name for one in fields(TwoWayEffects) if isinstance(getattr(parts[0], one.name), np.ndarray | np.generic)]
    stacked: dict[str, Any] = {name: np.stack([getattr(part, name) for part in parts]) for name in arrays}
    return replace(parts[0], **stacked)


def _p_of_mean(mean: Floats, variance: Floats, df: npt.ArrayLike) -> Floats:
    """Two-sided p of mean / sqrt(variance); without any variance, 1 for a mean of zero and 0 otherwise."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0.0, 0.0, np.abs(mean) / np.sqrt(variance))
    return t_two_sided(t, df)


def _half_width(variance: Floats, df: npt.ArrayLike, confidence: float) -> Floats:
    return t_upper(0.5 * (1.0 - confidence), df) * np.sqrt(variance)
