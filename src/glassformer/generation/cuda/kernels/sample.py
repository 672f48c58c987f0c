"""The next token of every row, drawn or taken, in one kernel, which also brings the writing's state and stream one step on.

The draw is that of generation/sampling.py without filters: the greatest of score plus Gumbel noise, the noise being arithmetic
on (key of the row, index of the token, id).
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from glassformer.generation.cuda.kernels.launch import launch
from glassformer.generation.cuda.kernels.residual import Stream, embed_row, sizes

BLOCK = 1024
"""Scores looked at at a time."""


@triton.jit
def gumbel(key, index, id):
    """See ``gumbel`` and ``splitmix64`` in generation/sampling.py."""
    z = key.to(tl.uint64) + ((index.to(tl.uint64) << 32) + id.to(tl.uint64) + 1) * 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    bits = ((z ^ (z >> 31)) >> 32).to(tl.uint32)
    minus_u = (bits.to(tl.float32) + 0.5) * -2.3283064365386963e-10
    # log(1 + x) with the rounding of 1 + x taken back: small u, which carry the winners, keep their digits.
    near = 1.0 + minus_u
    logarithm = tl.where(near == 1.0, minus_u, tl.log(near) * (minus_u / tl.where(near == 1.0, 1.0, near - 1.0)))
    return -tl.log(-logarithm)


@triton.jit
def _draw(
    scores_ptr, keys_ptr, index_ptr, last_ptr, at_ptr, first_ptr, said_ptr, table_ptr, places_ptr, x_ptr, sums_ptr, said_row,
    vocabulary, temperature, last_place, unsure, width, PLACED: tl.constexpr, PIECE: tl.constexpr,
    PIECES: tl.constexpr, DRAWN: tl.constexpr, BLOCK: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    if CHAINED:
        tl.extra.cuda.gdc_wait()
    row = tl.program_id(0).to(tl.int64)
    index, key, at = tl.load(index_ptr + row), tl.load(keys_ptr + row), tl.load(at_ptr + row)
    best, chosen, bad = float("-inf"), tl.zeros([], tl.int32), tl.zeros([], tl.int32)
    for start in range(0, vocabulary, BLOCK):
        id = start + tl.arange(0, BLOCK)
        score = tl.load(scores_ptr + row * vocabulary + id, mask=id < vocabulary, other=float("-inf"))
        bad = tl.maximum(bad, tl.max((score != score).to(tl.int32), axis=0))
        if DRAWN:
            score = score / temperature + gumbel(key, index, id)
        top, where = tl.max(tl.where(score == score, score, float("-inf")), axis=0, return_indices=True)
        chosen = tl.where(top > best, start + where, chosen)
        best = tl.maximum(top, best)
    tl.store(said_ptr + row * said_row + index - tl.load(first_ptr + row), tl.where(bad > 0, unsure, chosen).to(tl.int64))
    at = tl.minimum(at + 1, last_place)
    tl.store(last_ptr + row, chosen.to(tl.int64))
    tl.store(at_ptr + row, at)
    tl.store(index_ptr + row, index + 1)
    id = chosen.to(tl.int64)
    embed_row(row, id, at, table_ptr, places_ptr, x_ptr, sums_ptr, width, PLACED, PIECE, PIECES, CHAINED)


def draw(
    stream: Stream, scores_BV: Tensor, *, table_VD: Tensor, places_TD: Tensor | None, temperature: float, keys_B: Tensor,
    index_B: Tensor, last_B: Tensor, at_B: Tensor, first_B: Tensor, said_BN: Tensor, last_place: int, unsure: int,
) -> None:  # fmt: skip
    """One token per row: into ``last_B``, and into ``said_BN`` at column index - first (``unsure`` there if a score is not
    a number); then place and index move on, and the stream begins anew with the token. ``temperature`` 0 takes the best."""
    rows, vocabulary = scores_BV.shape
    assert all(tensor.stride(-1) == 1 for tensor in (scores_BV, keys_B, index_B, last_B, at_B, first_B, said_BN))
    places = table_VD if places_TD is None else places_TD
    launch(
        _draw, (rows,), scores_BV, keys_B, index_B, last_B, at_B, first_B, said_BN, table_VD, places, stream.x_BD,
        stream.sums_B2P, said_BN.stride(0), vocabulary, temperature or 1.0, last_place, unsure, **sizes(stream),
        PLACED=places_TD is not None, DRAWN=temperature > 0, BLOCK=min(BLOCK, triton.next_power_of_2(vocabulary)), num_warps=4,
    )  # fmt: skip
