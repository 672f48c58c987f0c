"""Three Triton kernels of a decoding step in bf16: a linear layer, attention of one token, sampling.

Imports Triton: import it only where ``model.kernels.AVAILABLE``. Each kernel replaces several of torch's operations, which
cost more to start than to run. With programmatic dependent launch (Hopper and later) a kernel is set up while the one before
still runs, and waits for its results itself (``gdc_wait``).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

MANY_PROGRAMS = 768
"""Programs of attention that keep a GPU's memory busy with one warp each; fewer of them must each read more at a time."""
WIDEST_HEAD = 256
"""Keys and values of wider heads do not fit in a processor's shared memory."""
FEW_ROWS, FEW_OUTPUTS = 64, 256
"""Up to so many rows, or outputs, more and smaller programs of a linear layer are faster (H200, width 384)."""
BLOCK = 1024  # scores that sampling looks at at a time
ACTIVATIONS: dict[type, int] = {type(None): 0, nn.ReLU: 1, nn.GELU: 2}


@cache
def _launch_options() -> dict[str, bool]:
    able = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)
    return {"PDL": True, "launch_pdl": True} if able else {"PDL": False}


@triton.jit
def _linear(
    x_ptr, scale_ptr, shift_ptr, weight_ptr, bias_ptr, y_ptr, rows, eps, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
    NORMED: tl.constexpr, CENTRED: tl.constexpr, SHIFTED: tl.constexpr, BIASED: tl.constexpr, ACTIVATION: tl.constexpr,
    ADDED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    row_inside, column_inside = row < rows, column < OUTPUTS
    x_rows = x_ptr + row[:, None].to(tl.int64) * INPUTS
    weight_columns = weight_ptr + column[None, :].to(tl.int64) * INPUTS
    if PDL:
        tl.extra.cuda.gdc_wait()
    if NORMED:  # mean and deviation of whole rows, before the product
        total, squares = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32)
        for start in range(0, INPUTS, DEPTH):
            depth = start + tl.arange(0, DEPTH)
            x = tl.load(x_rows + depth[None, :], mask=row_inside[:, None] & (depth < INPUTS)[None, :], other=0.0).to(tl.float32)
            total, squares = total + tl.sum(x, axis=1), squares + tl.sum(x * x, axis=1)
        mean = total / INPUTS if CENTRED else tl.zeros([ROWS], tl.float32)
        inverse = 1.0 / tl.sqrt(tl.maximum(squares / INPUTS - mean * mean, 0.0) + eps)
    y = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, INPUTS, DEPTH):
        depth = start + tl.arange(0, DEPTH)
        x = tl.load(x_rows + depth[None, :], mask=row_inside[:, None] & (depth < INPUTS)[None, :], other=0.0)
        weight = tl.load(weight_columns + depth[:, None], mask=(depth < INPUTS)[:, None] & column_inside[None, :], other=0.0)
        if NORMED:
            scale = tl.load(scale_ptr + depth, mask=depth < INPUTS, other=0.0).to(tl.float32)
            normed = (x.to(tl.float32) - mean[:, None]) * inverse[:, None] * scale[None, :]
            if SHIFTED:
                normed += tl.load(shift_ptr + depth, mask=depth < INPUTS, other=0.0).to(tl.float32)[None, :]
            x = normed.to(weight.dtype)
        y = tl.dot(x, weight, y)
    if BIASED:
        y += tl.load(bias_ptr + column, mask=column_inside, other=0.0).to(tl.float32)[None, :]
    if ACTIVATION == 1:
        y = tl.maximum(y, 0.0)
    if ACTIVATION == 2:
        y *= 0.5 * (1.0 + tl.erf(y * 0.7071067811865476))
    at, here = y_ptr + row[:, None].to(tl.int64) * OUTPUTS + column[None, :], row_inside[:, None] & column_inside[None, :]
    if ADDED:
        y += tl.load(at, mask=here, other=0.0).to(tl.float32)
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    tl.store(at, y, mask=here)


def tiles(rows: int, outputs: int, *, add: bool) -> tuple[int, int, int, int, int]:
    """Rows, columns and depth of one program's product, its warps, and how many loads it keeps under way (tuned on an H200)."""
    if rows <= FEW_ROWS:
        return (16, 32, 256, 4, 3) if add else (16, 16, 128, 2, 4)
    if add:
        return 64, 16, 128, 4, 5
    return (64, 64, 64, 8, 5) if outputs > FEW_OUTPUTS else (16, 32, 128, 4, 4)


def linear(
    x_BI: Tensor, layer: Any, *, norm: Any = None, activation: nn.Module | None = None, out: Tensor | None = None,
    add: bool = False,
) -> Tensor:  # fmt: skip
    """activation(layer(norm(x))), [B, O]. ``norm``: a layer or RMS norm. ``out``: where to store it, in its own precision;
    with ``add`` it is added to what is there."""
    (rows, inputs), outputs = x_BI.shape, len(layer.weight)
    y_BO = x_BI.new_empty(rows, outputs) if out is None else out
    assert all(tensor.is_contiguous() for tensor in (x_BI, layer.weight, y_BO))
    scale_I, shift_I = getattr(norm, "weight", None), getattr(norm, "bias", None)
    row_block, columns, depth, warps, stages = tiles(rows, outputs, add=add)
    nothing = layer.weight  # stands for a tensor that is not read
    _linear[triton.cdiv(rows, row_block), triton.cdiv(outputs, columns)](
        x_BI, nothing if scale_I is None else scale_I, nothing if shift_I is None else shift_I, layer.weight,
        nothing if layer.bias is None else layer.bias, y_BO, rows, getattr(norm, "eps", 0.0), INPUTS=inputs, OUTPUTS=outputs,
        NORMED=norm is not None, CENTRED=isinstance(norm, nn.LayerNorm), SHIFTED=shift_I is not None,
        BIASED=layer.bias is not None, ACTIVATION=ACTIVATIONS[type(activation)], ADDED=add, ROWS=row_block, COLUMNS=columns,
        DEPTH=depth, num_warps=warps, num_stages=stages, **_launch_options(),
    )  # fmt: skip
    return y_BO


@triton.jit
def _block(keys_ptr, values_ptr, cache, start, query, column, inside, width, BLOCK: tl.constexpr):
    """Keys and values from ``start`` on. They are read once: they should not drive the weights out of the cache."""
    key = start + tl.arange(0, BLOCK)
    here = (key < query)[:, None] & inside[None, :]
    block = cache + key[:, None] * width + column[None, :]
    keys = tl.load(keys_ptr + block, mask=here, other=0.0, eviction_policy="evict_first")
    values = tl.load(values_ptr + block, mask=here, other=0.0, eviction_policy="evict_first")
    return keys, values


@triton.jit
def _attend(
    q_ptr, k_ptr, v_ptr, keys_ptr, values_ptr, position_ptr, z_ptr, q_row, q_head, k_row, k_head, v_row, v_head, cache_row,
    cache_head, heads, width, scale, WIDTH: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    if PDL:
        tl.extra.cuda.gdc_wait()
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    query = tl.load(position_ptr + row).to(tl.int32)
    column = tl.arange(0, WIDTH)
    inside = column < width
    cache = row * cache_row + head * cache_head
    keys, values = _block(keys_ptr, values_ptr, cache, 0, query, column, inside, width, BLOCK)
    q = tl.load(q_ptr + row * q_row + head * q_head + column, mask=inside, other=0.0)
    k = tl.load(k_ptr + row * k_row + head * k_head + column, mask=inside, other=0.0)
    v = tl.load(v_ptr + row * v_row + head * v_head + column, mask=inside, other=0.0)
    tl.store(keys_ptr + cache + query * width + column, k, mask=inside)
    tl.store(values_ptr + cache + query * width + column, v, mask=inside)
    # The token itself is the first key; those before it come from the cache. A product wants 16 rows: all are the same.
    factor = scale * 1.4426950408889634  # powers of two are cheaper than those of e
    highest = tl.zeros([16], tl.float32) + tl.sum(q.to(tl.float32) * k.to(tl.float32), axis=0) * factor
    total = tl.full([16], 1.0, tl.float32)
    z = tl.zeros([16, WIDTH], tl.float32) + v.to(tl.float32)[None, :]
    q = tl.broadcast_to(q[None, :], [16, WIDTH])
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()  # the product that follows takes the place of the first programs to end
    for start in range(0, query, BLOCK):
        next_keys, next_values = _block(keys_ptr, values_ptr, cache, start + BLOCK, query, column, inside, width, BLOCK)
        key = start + tl.arange(0, BLOCK)
        scores = tl.where((key < query)[None, :], tl.dot(q, tl.trans(keys)) * factor, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, axis=1))
        shares, shrink = tl.exp2(scores - higher[:, None]), tl.exp2(highest - higher)
        total = total * shrink + tl.sum(shares, axis=1)
        z = tl.dot(shares.to(values.dtype), values, z * shrink[:, None])
        highest = higher
        keys, values = next_keys, next_values  # on their way since before this block was worked on
    z = z / total[:, None]
    same = tl.arange(0, 16)[:, None]
    tl.store(z_ptr + (row * heads + head) * width + column[None, :] + same * 0, z, mask=inside[None, :] & (same == 0))


def decode_attention(
    q_BHE: Tensor, k_BHE: Tensor, v_BHE: Tensor, keys_BHSE: Tensor, values_BHSE: Tensor, position_B: Tensor, scale: float
) -> Tensor:
    """Writes each row's key and value into the cache at ``position_B``; returns the attention over the values up to there."""
    batch, heads, width = q_BHE.shape
    assert all(tensor.stride(-1) == 1 for tensor in (q_BHE, k_BHE, v_BHE, position_B))
    assert keys_BHSE.stride() == values_BHSE.stride()
    assert keys_BHSE.stride()[2:] == (width, 1)
    z_BHE = q_BHE.new_empty(batch, heads, width)
    block, warps = (16, 1) if batch * heads >= MANY_PROGRAMS else (128, 4)
    padded = max(16, triton.next_power_of_2(width))  # the least that a product of tensor cores takes
    _attend[batch, heads](
        q_BHE, k_BHE, v_BHE, keys_BHSE, values_BHSE, position_B, z_BHE, *q_BHE.stride()[:2],
        *k_BHE.stride()[:2], *v_BHE.stride()[:2], *keys_BHSE.stride()[:2], heads, width, scale, WIDTH=padded, BLOCK=block,
        num_warps=warps, num_stages=1, **_launch_options(),
    )  # fmt: skip
    return z_BHE


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
    scores_ptr, seeds_ptr, index_ptr, last_ptr, position_ptr, first_ptr, output_tokens_ptr, output_tokens_row, vocabulary,
    temperature, last_position, needs_recomputation, SAMPLED: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
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
    tl.store(last_ptr + row, chosen.to(tl.int64))
    tl.store(position_ptr + row, tl.minimum(position + 1, last_position))
    tl.store(index_ptr + row, index + 1)


def sample_tokens(
    scores_BV: Tensor, ends_4B: Tensor, first_B: Tensor, output_tokens_BN: Tensor, temperature: float, *, last_position: int,
    needs_recomputation: int,
) -> None:  # fmt: skip
    """One token per row, as generation/sampling.py chooses it without filters: the greatest of score plus Gumbel noise
    (``temperature`` 0: of the score). It becomes the last id in ``ends_4B`` (last id, its position, index of the next, seed),
    and goes into ``output_tokens_BN`` at column index - first (``needs_recomputation`` there if a score is not a number).
    Then position and index move on."""
    rows, vocabulary = scores_BV.shape
    last_B, position_B, index_B, seeds_B = ends_4B
    state = (scores_BV, seeds_B, index_B, last_B, position_B, first_B, output_tokens_BN)
    assert all(tensor.stride(-1) == 1 for tensor in state)
    _sample[(rows,)](
        *state, output_tokens_BN.stride(0), vocabulary, temperature or 1.0, last_position, needs_recomputation,
        SAMPLED=temperature > 0, BLOCK=min(BLOCK, triton.next_power_of_2(vocabulary)), num_warps=4, **_launch_options(),
    )  # fmt: skip
