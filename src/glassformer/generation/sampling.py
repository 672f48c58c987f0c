"""Scores of the next token -> the token chosen, row by row: penalty, temperature, top-k, top-p, and the sample.

A sample is the best of score plus Gumbel noise, and the noise is arithmetic on (seed of the row, index of the token, id),
so what a row samples depends neither on its neighbours nor on what was drawn before. Each choice also says whether it is
sure: whether it would be the same if every score were off by the rounding that two ways of computing it may differ by.
No step waits for the device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.foundation.errors import BadArgument

NOISE_ROUNDING = 1e-5
"""More than the noise of one (seed, index, id) can differ between two vector lanes or batch shapes (some 2e-6)."""
SPARE = 8
"""Candidates looked at beyond the k-th, because rounding may let them change places with it."""

COLDEST = 1e-20
"""A lower temperature takes the best, as 0 does: scores divided by it may all become infinite, and noise decides nothing."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen. ``temperature`` 0 takes the best; the filters apply in the order of the fields."""

    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        rules = [
            ("repetition_penalty", self.repetition_penalty > 0, "greater than 0; 1 changes nothing"),
            ("temperature", 0 <= self.temperature < float("inf"), "0 (always the best token) or greater, and finite"),
            ("top_k", self.top_k is None or self.top_k >= 1, "1 or greater; leave it out to keep all tokens"),
            (
                "top_p",
                self.top_p is None or 0 < self.top_p <= 1,
                "greater than 0 and at most 1; leave it out to keep all tokens",
            ),
        ]
        for name, holds, rule in rules:
            if not holds:
                raise BadArgument(name, getattr(self, name), f"it must be {rule}")
        if self.temperature < COLDEST:
            object.__setattr__(self, "temperature", 0.0)
        if self.top_p == 1.0:  # all tokens, also those that a rounded sum of probabilities would cut off
            object.__setattr__(self, "top_p", None)

    @property
    def unfiltered(self) -> bool:
        """Whether nothing but the temperature stands between the scores and the choice."""
        return self.repetition_penalty == 1.0 and (self.temperature == 0 or (self.top_k is None and self.top_p is None))


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen ids, and whether rounding within the slack could not have changed them."""

    ids_B: Tensor
    sure_B: Tensor


def choose(
    logits_BV: Tensor,
    sampling: Sampling,
    *,
    seen_BV: Tensor | None,
    seeds_B: Tensor,
    index_B: Tensor,
    slack: float | Tensor = 0.0,
) -> Choice:
    """One token per row.

    ``seen_BV``: the ids already in the sequence, for the penalty. ``seeds_B``, ``index_B``: what the noise is made from.
    ``slack``: by how much of the row's largest score each score may be off for a choice to count as sure (0: not at all).
    """
    scores_BV = logits_BV.float()
    slack_B1 = slack * scores_BV.abs().amax(dim=-1, keepdim=True)
    if sampling.repetition_penalty != 1.0 and seen_BV is not None:
        scores_BV = penalise(scores_BV, seen_BV, sampling.repetition_penalty)
        slack_B1 = slack_B1 * max(sampling.repetition_penalty, 1 / sampling.repetition_penalty)
    if sampling.temperature == 0:
        return _best(scores_BV, slack_B1)
    if sampling.temperature != 1.0:
        scores_BV, slack_B1 = scores_BV / sampling.temperature, slack_B1 / sampling.temperature
    slack_B1 = slack_B1 + NOISE_ROUNDING
    if sampling.top_k is None and sampling.top_p is None:
        ids_1V = torch.arange(scores_BV.shape[-1], device=scores_BV.device).unsqueeze(0)
        return _best(scores_BV + gumbel(seeds_B, index_B, ids_1V), slack_B1)
    return _best_of_kept(scores_BV, sampling, seeds_B, index_B, slack_B1)


def penalise(scores_BV: Tensor, seen_BV: Tensor, penalty: float) -> Tensor:
    """Makes ids already in the sequence less likely: a positive score is divided, a negative one multiplied (CTRL, 2019)."""
    lowered_BV = torch.where(scores_BV > 0, scores_BV / penalty, scores_BV * penalty)
    return torch.where(seen_BV, lowered_BV, scores_BV)


def count_kept(sorted_BK: Tensor, top_k: int | None, top_p: float | Tensor | None) -> Tensor:
    """How many of the scores, sorted from the best, stay, [B, 1]: at most ``top_k``, then of these the fewest whose
    probability reaches ``top_p`` (Holtzman et al. 2019), which may differ by row, [B, 1]."""
    size = sorted_BK.shape[-1]
    limit = size if top_k is None else min(top_k, size)
    if top_p is None:
        return torch.full_like(sorted_BK[:, :1], limit, dtype=torch.long)
    mass_BK = torch.softmax(sorted_BK[:, :limit], dim=-1)
    mass_before_BK = mass_BK.cumsum(dim=-1) - mass_BK
    return (mass_before_BK < top_p).sum(dim=-1, keepdim=True).clamp(min=1)


def gumbel(seeds_B: Tensor, index_B: Tensor, ids_BK: Tensor) -> Tensor:
    """Standard Gumbel noise for (seed, index, id): the greatest of score plus noise is a sample of softmax(scores)."""
    counter_BK = (index_B.unsqueeze(-1) << 32) + ids_BK
    bits_BK = (splitmix64(seeds_B.unsqueeze(-1), counter_BK) >> 32) & 0xFFFFFFFF
    # u = (bits + 1/2) / 2^32. Small u carry the winners and stay finely spaced in float32; u rounded to 1 never wins.
    minus_u_BK = (bits_BK + 0.5) * -(2.0**-32)
    return -torch.log(-torch.log1p(minus_u_BK))


def splitmix64(seed: Tensor, counter: Tensor) -> Tensor:
    """The ``counter``-th number of the SplitMix64 generator with state ``seed``, as int64 (Steele, Lea and Flood 2014)."""
    z = seed + (counter + 1) * -0x61C8864680B583EB  # 0x9E3779B97F4A7C15 as a signed number; products wrap around
    z = (z ^ ((z >> 30) & (2**34 - 1))) * -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
    z = (z ^ ((z >> 27) & (2**37 - 1))) * -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB
    return z ^ ((z >> 31) & (2**33 - 1))


def _best(scores_BV: Tensor, slack_B1: Tensor) -> Choice:
    if scores_BV.shape[-1] == 1:
        return Choice(torch.zeros_like(scores_BV[:, 0], dtype=torch.long), scores_BV[:, 0].isfinite())
    best_B2 = scores_BV.topk(2, dim=-1)
    return Choice(best_B2.indices[:, 0], best_B2.values[:, 0] - best_B2.values[:, 1] > 2 * slack_B1[:, 0])


def _best_of_kept(scores_BV: Tensor, sampling: Sampling, seeds_B: Tensor, index_B: Tensor, slack_B1: Tensor) -> Choice:
    """The sample among the tokens that stay; sure when no token that may stay could have won instead."""
    size = scores_BV.shape[-1]
    looked_at = size if sampling.top_k is None else min(sampling.top_k + SPARE, size)
    sorted_BK, ids_BK = scores_BV.topk(looked_at, dim=-1)
    kept_BK = torch.arange(looked_at, device=scores_BV.device) < count_kept(sorted_BK, sampling.top_k, sampling.top_p)
    noisy_BK = sorted_BK + gumbel(seeds_B, index_B, ids_BK)
    won_B1 = noisy_BK.masked_fill(~kept_BK, -torch.inf).argmax(dim=-1, keepdim=True)

    surely_BK, possibly_BK = _kept_despite_rounding(sorted_BK, sampling, slack_B1)
    rivals_BK = noisy_BK.masked_fill(~possibly_BK, -torch.inf).scatter(1, won_B1, -torch.inf)
    lead_B1 = noisy_BK.gather(1, won_B1) - rivals_BK.amax(dim=-1, keepdim=True)
    sure_B1 = (lead_B1 > 2 * slack_B1) & surely_BK.gather(1, won_B1)
    if looked_at < size:  # when even the last one may stay, so may others that were not looked at
        sure_B1 = sure_B1 & ~possibly_BK[:, -1:]
    return Choice(ids_BK.gather(1, won_B1)[:, 0], sure_B1[:, 0])


def _kept_despite_rounding(sorted_BK: Tensor, sampling: Sampling, slack_B1: Tensor) -> tuple[Tensor, Tensor]:
    """Which tokens stay however the scores move within the slack, and which may be.

    When no score moves by more than s, the odds of the mass before a rank change by at most a factor exp(2 s), which
    bounds how many stay; and a token must come within 2 s of another one to change places with it.
    """
    fewest_B1 = most_B1 = count_kept(sorted_BK, sampling.top_k, None)
    if sampling.top_p is not None:
        log_odds = math.log(sampling.top_p / (1 - sampling.top_p))
        fewest_B1 = count_kept(sorted_BK, sampling.top_k, torch.sigmoid(log_odds - 2 * slack_B1))
        most_B1 = count_kept(sorted_BK, sampling.top_k, torch.sigmoid(log_odds + 2 * slack_B1))
    size = sorted_BK.shape[-1]
    first_out_B1 = sorted_BK.gather(1, fewest_B1.clamp(max=size - 1)).masked_fill(fewest_B1 == size, -torch.inf)
    last_in_B1 = sorted_BK.gather(1, most_B1 - 1)
    return sorted_BK - first_out_B1 > 2 * slack_B1, sorted_BK - last_in_B1 >= -2 * slack_B1
