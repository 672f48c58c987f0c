"""Scores -> the next token of every row, sampled or greedy, in one kernel that also begins the next step with it.

The choice is that of generation/sampling.py without filters: the greatest of score plus Gumbel noise, the noise being
arithmetic on (seed of the row, index of the token, id).
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from glassformer.generation.cuda.kernels.launch import launch
from glassformer.generation.cuda.kernels.residual import ResidualStream, embed_row, sizes

BLOCK = 1024
"""Scores looked at at a time."""


@triton.jit
def gumbel(seed, index, id):
    """See ``gumbel`` and ``splitmix64`` in generation/sampling.py."""
    z = seed.to(tl.uint64) + ((index.to(tl.uint64) << 32) + id.to(tl.uint64) + 1) * 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    bits = ((z ^ (z >> 31)) >> 32).to(tl.uint32)
    minus_u = (bits.to(tl.float32) + 0.5) * -2.3283064365386963e-10
    # log(1 + x) with the rounding of 1 + x taken back: small u, which carry the winners, keep their digits.
    near = 1.0 + minus_u
    logarithm = tl.where(near == 1.0, minus_u, tl.log(near) * (minus_u / tl.where(near == 1.0, 1.0, near - 1.0)))
    return -tl.log(-logarithm)


@triton.jit
def _sample(
    scores_ptr, seeds_ptr, index_ptr, last_ptr, position_ptr, first_ptr, output_tokens_ptr, table_ptr, position_table_ptr,
    x_ptr, sums_ptr, output_tokens_row, vocabulary, temperature, last_position, needs_recomputation, width,
    HAS_POSITIONS: tl.constexpr, PIECE: tl.constexpr,
    PIECES: tl.constexpr, SAMPLED: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    if PDL:
        tl.extra.cuda.gdc_wait()
    row = tl.program_id(0).to(tl.int64)
    index, seed, position = tl.load(index_ptr + row), tl.load(seeds_ptr + row), tl.load(position_ptr + row)
    best, chosen, bad = float("-inf"), tl.zeros([], tl.int32), tl.zeros([], tl.int32)
    for start in range(0, vocabulary, BLOCK):
        id = start + tl.arange(0, BLOCK)
        score = tl.load(scores_ptr + row * vocabulary + id, mask=id < vocabulary, other=float("-inf"))
        bad = tl.maximum(bad, tl.max((score != score).to(tl.int32), axis=0))
        if SAMPLED:
            score = score / temperature + gumbel(seed, index, id)
        top, where = tl.max(tl.where(score == score, score, float("-inf")), axis=0, return_indices=True)
        chosen = tl.where(top > best, start + where, chosen)
        best = tl.maximum(top, best)
    column = output_tokens_ptr + row * output_tokens_row + index - tl.load(first_ptr + row)
    tl.store(column, tl.where(bad > 0, needs_recomputation, chosen).to(tl.int64))
    position = tl.minimum(position + 1, last_position)
    tl.store(last_ptr + row, chosen.to(tl.int64))
    tl.store(position_ptr + row, position)
    tl.store(index_ptr + row, index + 1)
    id = chosen.to(tl.int64)
    embed_row(row, id, position, table_ptr, position_table_ptr, x_ptr, sums_ptr, width, HAS_POSITIONS, PIECE, PIECES, PDL)


def sample_tokens(
    residual: ResidualStream, scores_BV: Tensor, *, table_VD: Tensor, position_table_TD: Tensor | None, temperature: float,
    seeds_B: Tensor, index_B: Tensor, last_B: Tensor, position_B: Tensor, first_B: Tensor, output_tokens_BN: Tensor,
    last_position: int, needs_recomputation: int,
) -> None:  # fmt: skip
    """One token per row: into ``last_B``, and into ``output_tokens_BN`` at column index - first (``needs_recomputation``
    there if a score is not a number). Then position and index move on, and the residual stream begins with the token's
    embedding. ``temperature`` 0 is greedy."""
    rows, vocabulary = scores_BV.shape
    state = (scores_BV, seeds_B, index_B, last_B, position_B, first_B, output_tokens_BN)
    assert all(tensor.stride(-1) == 1 for tensor in state)
    launch(
        _sample, (rows,), *state, table_VD, table_VD if position_table_TD is None else position_table_TD, residual.x_BD,
        residual.sums_B2P, output_tokens_BN.stride(0), vocabulary, temperature or 1.0, last_position, needs_recomputation,
        **sizes(residual), HAS_POSITIONS=position_table_TD is not None, SAMPLED=temperature > 0,
        BLOCK=min(BLOCK, triton.next_power_of_2(vocabulary)), num_warps=4,
    )  # fmt: skip
