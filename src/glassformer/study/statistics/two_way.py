"""Crossed random effects of seeds and documents: differences d[seed, document] -> mean, variance, intervals, p values.

Every seed and variant is evaluated on the same documents, so both are random effects (a crossed design). Documents are
weighted by their tokens; consecutive blocks of one text are autocorrelated and have their own variance. Functions accept any
leading axes, so that simulated studies run through the same code as a real one. Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.evaluation.interval_estimates import block_variance, num_cosines
from glassformer.foundation.distributions import Floats, incomplete_beta, t_two_sided, t_upper
from glassformer.foundation.estimate import Estimate

LARGE_LOSS = 1.0  # of one document, which "same" must rule out: an answer, a nat per token or a bit per byte
ROUNDING = 1e-12  # a smaller difference of a document is rounding error


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
        """P(so few documents with a large loss in the sample) if rare ones alone made a difference of the margin.

        A large loss is 1 (an answer, a nat, a bit), or as much as the worst one observed. A fraction margin / 1 of such
        documents makes the margin, and a sample without any has too small a variance to show it.
        """
        worst = np.maximum(self.largest, LARGE_LOSS)
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
    """Analyses paired ``differences[..., seed, document]``; ``weights`` are the documents' tokens (equal when not given).

    Documents of weight 0 are left out. With one seed, or one document, that variance component is infinite.
    ``blocks``: the documents are consecutive blocks of one text, and so autocorrelated.
    """
    return _effects([differences], weights, blocks)


def unpaired(
    change: npt.ArrayLike, base: npt.ArrayLike, weights: npt.ArrayLike | None = None, *, blocks: bool = False
) -> TwoWayEffects:
    """Analyses two independent arms, ``[..., seed, document]`` each, on the same documents: Welch, crossed.

    Each arm has its own variance over seeds, since a change may be noisier than the baseline. ``seed_means`` are the change's,
    minus the mean of the baseline.
    """
    return _effects([change, base], weights, blocks)


def _effects(arms: Sequence[npt.ArrayLike], weights: npt.ArrayLike | None, blocks: bool) -> TwoWayEffects:
    """One arm of paired differences, or two arms: the second is subtracted from the first, and their variances add up."""
    arrays = [np.asarray(arm, dtype=np.float64) for arm in arms]
    w = np.ones(arrays[0].shape[-1]) if weights is None else np.asarray(weights, dtype=np.float64)
    assert all(array.shape[-1:] == w.shape for array in arrays)
    assert np.all(w >= 0.0)
    documents = Documents(w[w > 0.0] / w.sum(), blocks)
    whole, *second = (_arm(array[..., w > 0.0], documents) for array in arrays)
    for base in second:
        whole = _Arm(
            seed_means=whole.seed_means - base.mean[..., None],
            mean=whole.mean - base.mean,
            document_means=whole.document_means - base.document_means,
            from_seeds=whole.from_seeds + base.from_seeds,
            from_residual=whole.from_residual + base.from_residual,
            seed_squares=whole.seed_squares + base.seed_squares,
            residual_squares=whole.residual_squares + base.residual_squares,
        )
    return TwoWayEffects(
        seed_means=whole.seed_means,
        mean=whole.mean,
        documents=len(documents.weights),
        effective_documents=documents.effective,
        documents_df=documents.df,
        from_seeds=whole.from_seeds,
        from_documents=documents.variance(whole.document_means - whole.mean[..., None]),
        from_residual=whole.from_residual,
        seed_squares=whole.seed_squares,
        residual_squares=whole.residual_squares,
        largest=np.max(documents.effective * documents.weights * np.abs(whole.document_means), axis=-1),
        differing=(np.abs(whole.document_means) > ROUNDING).sum(axis=-1),
    )


@dataclass(frozen=True)
class _Arm:
    """The means of one arm, and its parts of the variance."""

    seed_means: Floats
    mean: Floats
    document_means: Floats
    from_seeds: Floats
    from_residual: Floats
    seed_squares: Floats
    residual_squares: Floats


def _arm(d: Floats, documents: Documents) -> _Arm:
    n, seed_means, document_means = d.shape[-2], d @ documents.weights, d.mean(axis=-2)
    mean = seed_means.mean(axis=-1)
    zero = np.zeros_like(mean)
    if n < 2:
        return _Arm(seed_means, mean, document_means, np.full_like(mean, np.inf), zero, zero, zero)
    from_seeds, from_residual, residual_squares = seed_means.var(axis=-1, ddof=1) / n, zero, zero
    if len(documents.weights) > 1:
        # the part of the variance over documents that comes from the seed x document noise
        cells = d - seed_means[..., None] - (document_means - mean[..., None])[..., None, :]
        from_residual = np.asarray(documents.variance(cells).sum(axis=-1) / (n * (n - 1)))
        residual_squares = from_residual**2 / ((n - 1) * documents.df)
    return _Arm(seed_means, mean, document_means, from_seeds, from_residual, from_seeds**2 / (n - 1), residual_squares)


@dataclass(frozen=True)
class Documents:
    """The documents, or the blocks of one text, with their weights (sum 1), as a random sample."""

    weights: Floats
    blocks: bool

    @property
    def effective(self) -> float:
        """The number of documents of equal weight that would have the same variance."""
        return float(1.0 / (self.weights**2).sum())

    @property
    def df(self) -> float:
        if len(self.weights) < 2:
            return 0.0
        return float(num_cosines(len(self.weights))) if self.blocks else self.effective - 1.0

    def variance(self, spread: Floats) -> Floats:
        """The variance of the weighted mean from ``spread[..., document]``, each document's deviation from that mean.

        Documents: the jackknife, valid also where few documents hold most of the tokens. Blocks: from the low-frequency
        components along the text (``block_variance``), because adjacent blocks are autocorrelated.
        """
        m = len(self.weights)
        if m < 2:
            return np.full(spread.shape[:-1], np.inf)
        if self.blocks:
            return block_variance(self.weights * spread)
        return np.asarray((m - 1) / m * (spread**2 @ (self.weights / (1.0 - self.weights)) ** 2))


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


def at_most_probability(seen: npt.ArrayLike, share: npt.ArrayLike, items: float) -> Floats:
    """P(at most a fraction ``seen`` of ``items`` are hits) when each is one with probability ``share``.

    I_{1-share}(items - hits, hits + 1): the binomial CDF, continued to fractional hits.
    """
    seen_, share_ = np.broadcast_arrays(np.asarray(seen, dtype=np.float64), np.asarray(share, dtype=np.float64))
    hits = items * np.clip(seen_, 0.0, 1.0)
    inside = (hits < items) & (share_ < 1.0)
    p = incomplete_beta(np.where(inside, items - hits, 1.0), hits + 1.0, 1.0 - np.where(inside, share_, 0.5))
    return np.where(inside, p, np.where(share_ >= 1.0, (hits >= items).astype(np.float64), 1.0))


def items_needed(share: float, level: float) -> int:
    """How many items without a hit reject, at ``level``, a hit probability of ``share``."""
    return math.ceil(math.log(level) / math.log1p(-min(share, 0.999)))
