"""Paired differences d[seed, document] -> mean, variance, intervals and p values that hold for other seeds and other text.

Every seed and variant is evaluated on the same documents, so seeds and documents are crossed, and both are samples. All of it
works on arrays with any leading axes, so a thousand simulated studies go through the very code that judges one real study.
Counts of right answers have their own tests below. Decides nothing; imports no torch and no scipy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from glassformer.foundation.distributions import Floats, beta_quantile, normal_quantile, t_two_sided, t_upper
from glassformer.foundation.estimate import Estimate

EXACT_FLIPS = 40  # 2^(40/2) sums of half the seeds fit into memory; beyond, sign flips are drawn
FAR_OFF_LEVEL = 0.05  # a run is named far off in one of twenty studies whose noise is normal


@dataclass(frozen=True)
class Crossed:
    """The mean difference and the three parts of its variance. Fields are arrays over the leading axes of the differences.

    With n seeds and m documents of equal weight: ``from_seeds`` is SA/n, ``from_documents`` SB/m, ``from_rest`` SE/(nm).
    """

    seed_means: Floats
    mean: Floats
    documents: int
    effective_documents: float
    from_seeds: Floats
    from_documents: Floats
    from_rest: Floats

    @property
    def seeds(self) -> int:
        return int(self.seed_means.shape[-1])

    @property
    def seed_variance(self) -> Floats:
        """SA: the variance over seeds of the seed means."""
        return self.from_seeds * self.seeds

    @property
    def document_variance(self) -> Floats:
        """What the choice of documents adds to the variance of the mean, less what is only noise within cells."""
        return np.maximum(self.from_documents - self.from_rest, 0.0)

    @property
    def document_share(self) -> Floats:
        """The part of the variance that more documents, and not more seeds, would lower."""
        documents = self.document_variance
        with np.errstate(invalid="ignore"):
            share = documents / np.where(documents > 0.0, self.from_seeds + documents, 1.0)
        return np.where(np.isinf(documents), 1.0, share)

    @property
    def variance(self) -> Floats:
        """V, never below what seeds alone or documents alone give."""
        return np.maximum(
            self.from_seeds + self.from_documents - self.from_rest, np.maximum(self.from_seeds, self.from_documents)
        )

    @property
    def df(self) -> Floats:
        """Satterthwaite's degrees of freedom of V."""
        n, m = self.seeds - 1, self.effective_documents - 1.0
        if n < 1 or m <= 0.0:
            return np.ones_like(self.mean)
        parts = self.from_seeds**2 / n + self.from_documents**2 / m + self.from_rest**2 / (n * m)
        return np.where(parts > 0.0, self.variance**2 / np.where(parts > 0.0, parts, 1.0), float(n))

    @property
    def p_seed(self) -> Floats:
        """Two-sided p of "no difference on these very documents"."""
        return _p_of_mean(self.mean, self.from_seeds, float(max(self.seeds - 1, 1)))

    @property
    def p_crossed(self) -> Floats:
        """Two-sided p of "no difference", documents redrawn as well."""
        return _p_of_mean(self.mean, self.variance, self.df)

    @property
    def p(self) -> Floats:
        return np.maximum(self.p_seed, self.p_crossed)

    def p_same(self, margin: float) -> Floats:
        """p of "the difference reaches the margin": the larger of the one-sided tests, by seeds alone and crossed."""
        room = margin - np.abs(self.mean)
        sides = []
        for variance, df in ((self.from_seeds, np.float64(max(self.seeds - 1, 1))), (self.variance, self.df)):
            tail = 0.5 * _p_of_mean(room, variance, df)
            sides.append(np.where(room > 0.0, tail, 1.0 - tail))
        return np.maximum(sides[0], sides[1])

    def seed_half_width(self, confidence: float = 0.95) -> Floats:
        """Half the seed-t interval: for this set of documents alone."""
        return _half_width(self.from_seeds, np.float64(max(self.seeds - 1, 1)), confidence)

    def half_width(self, confidence: float = 0.95) -> Floats:
        """Half of the wider of the seed-t and the crossed-t interval: the one that is printed."""
        return np.maximum(self.seed_half_width(confidence), _half_width(self.variance, self.df, confidence))

    def estimate(self, confidence: float = 0.95, *, on_this_set: bool = False) -> Estimate:
        """The difference of one study with its interval."""
        half = float(self.seed_half_width(confidence) if on_this_set else self.half_width(confidence))
        value = float(self.mean)
        if not math.isfinite(half):
            return Estimate(value, n=self.seeds)
        return Estimate(value, value - half, value + half, self.seeds)


def crossed(differences: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Crossed:
    """Analyses ``differences[..., seed, document]``; ``weights`` are the documents' tokens (equal when not given).

    A document without weight is left out. With one seed, or one document, the variance it would need is infinite.
    """
    d = np.asarray(differences, dtype=np.float64)
    w = np.ones(d.shape[-1]) if weights is None else np.asarray(weights, dtype=np.float64)
    assert w.shape == d.shape[-1:]
    assert np.all(w >= 0.0)
    d, w = d[..., w > 0.0], w[w > 0.0] / w.sum()
    n, m = d.shape[-2:]
    seed_means = d @ w
    mean = seed_means.mean(axis=-1)
    document_means = d.mean(axis=-2)
    infinite = np.full_like(mean, np.inf)
    from_seeds = seed_means.var(axis=-1, ddof=1) / n if n > 1 else infinite
    spread = document_means - mean[..., None]
    from_documents = m / (m - 1) * (spread**2 @ w**2) if m > 1 else infinite
    from_rest = np.zeros_like(mean)
    if n > 1 and m > 1:
        rest = d - seed_means[..., None] - spread[..., None, :]
        from_rest = m / (m - 1) * ((rest**2).sum(axis=-2) @ w**2) / (n * (n - 1))
    return Crossed(seed_means, mean, m, float(1.0 / (w**2).sum()), from_seeds, from_documents, from_rest)


def _p_of_mean(mean: Floats, variance: Floats, df: npt.ArrayLike) -> Floats:
    """Two-sided p of mean / sqrt(variance); without any variance, 1 for a mean of zero and 0 otherwise."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0.0, 0.0, np.abs(mean) / np.sqrt(variance))
    return t_two_sided(t, df)


def _half_width(variance: Floats, df: npt.ArrayLike, confidence: float) -> Floats:
    return t_upper(0.5 * (1.0 - confidence), df) * np.sqrt(variance)


def holm(p: npt.ArrayLike) -> Floats:
    """Holm's corrected p values over the last axis: the family-wise level at which each would just be found."""
    p_ = np.asarray(p, dtype=np.float64)
    count = p_.shape[-1]
    order = np.argsort(p_, axis=-1, kind="stable")
    stepped = np.take_along_axis(p_, order, axis=-1) * (count - np.arange(count))
    corrected = np.minimum(np.maximum.accumulate(stepped, axis=-1), 1.0)
    result = np.empty_like(corrected)
    np.put_along_axis(result, order, corrected, axis=-1)
    return result


@dataclass(frozen=True)
class SignFlip:
    """The exact test that needs no normal noise, and the smallest p it could give with this many seeds."""

    p: float
    floor: float


def sign_flip(seed_means: npt.ArrayLike) -> SignFlip:
    """Two-sided p: the share of the 2^n ways to flip the seeds' signs that give a mean at least as far from zero."""
    values = np.asarray(seed_means, dtype=np.float64)
    n = len(values)
    seen = abs(values.sum()) - 1e-12 * np.abs(values).sum()  # a flip that gives the same sum must count, rounding or not
    if n > EXACT_FLIPS:
        draws, rng = 200_000, np.random.default_rng(n)
        sums = np.abs((2.0 * rng.integers(0, 2, (draws, n), dtype=np.int8) - 1.0) @ values)
        return SignFlip((int((sums >= seen).sum()) + 1) / (draws + 1), 1 / (draws + 1))
    left, right = _signed_sums(values[: n // 2]), np.sort(_signed_sums(values[n // 2 :]))
    above = len(right) - np.searchsorted(right, seen - left, side="left")
    below = np.searchsorted(right, -seen - left, side="right")
    count = int(above.sum() + below.sum())
    return SignFlip(min(1.0, count / 2.0**n), min(1.0, 2.0 / 2.0**n))


def _signed_sums(values: Floats) -> Floats:
    """The sums of ``values`` under all 2^n choices of signs."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def far_off(values: npt.ArrayLike) -> list[int]:
    """Positions of runs that lie too far from the others for normal noise: Grubbs' test, again without the one found."""
    values_ = np.asarray(values, dtype=np.float64)
    left, found = list(range(len(values_))), []
    while len(left) > 3:
        rest = [np.delete(values_[left], i) for i in range(len(left))]
        centre, spread = np.array([r.mean() for r in rest]), np.array([r.std(ddof=1) for r in rest])
        distance = np.abs(values_[left] - centre)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(distance == 0.0, 0.0, distance / (spread * math.sqrt(1.0 + 1.0 / (len(left) - 1))))
        worst = int(np.argmax(t))
        if float(t_two_sided(t[worst], len(left) - 2)) * len(left) > FAR_OFF_LEVEL:
            break
        found.append(left.pop(worst))
    return sorted(found)


def without_each_seed(differences: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Crossed:
    """The analyses without the first seed, without the second, and so on, along a new leading axis."""
    d = np.asarray(differences, dtype=np.float64)
    parts = [crossed(np.delete(d, seed, axis=-2), weights) for seed in range(d.shape[-2])]

    def stacked(field: str) -> Floats:
        return np.stack([getattr(part, field) for part in parts])

    fields = {name: stacked(name) for name in ("seed_means", "mean", "from_seeds", "from_documents", "from_rest")}
    return Crossed(documents=parts[0].documents, effective_documents=parts[0].effective_documents, **fields)


def correlation_of(first: npt.ArrayLike, second: npt.ArrayLike) -> float | None:
    """How far two rows of paired seeds go together: what pairing gains. None with fewer than 3 seeds or without spread."""
    a, b = (row - row.mean() for row in (np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)))
    size = math.sqrt(float(a @ a) * float(b @ b))
    return None if len(a) < 3 or size == 0.0 else float(a @ b) / size


@lru_cache(maxsize=256)
def failures_not_excluded(failed: int, runs: int, confidence: float = 0.95) -> float:
    """The largest failure rate that ``failed`` of ``runs`` leaves possible: the exact one-sided bound (Clopper-Pearson)."""
    return 1.0 if failed >= runs else beta_quantile(confidence, failed + 1, runs - failed)


def wilson(right: int, items: int, confidence: float = 0.95) -> Estimate:
    """The share of right answers of one run, with Wilson's interval."""
    if items == 0:
        return Estimate(None, reason="no items were asked")
    z2 = normal_quantile(0.5 + confidence / 2) ** 2
    share = right / items
    centre = (share + z2 / (2 * items)) / (1 + z2 / items)
    half = math.sqrt(z2 * (share * (1 - share) / items + z2 / (4 * items**2))) / (1 + z2 / items)
    return Estimate(share, max(0.0, centre - half), min(1.0, centre + half), items)


def mcnemar_mid_p(only_first: int, only_second: int) -> float:
    """Mid-p of McNemar's exact test: items that only one of *these two checkpoints* got right. Not for several seeds."""
    fewer, total = min(only_first, only_second), only_first + only_second
    if only_first == only_second:
        return 1.0
    below = sum(math.comb(total, i) for i in range(fewer))
    # 2 (P(X < fewer) + P(X = fewer) / 2), in whole numbers until the last division
    return float((2 * below + math.comb(total, fewer)) / 2**total)
