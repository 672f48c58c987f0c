"""Attention of one new token per row over a KV cache, to which it adds the token's own key and value.

Torch's kernels for this case want a mask and read the whole cache. Here one program serves one head of one row and reads
as far as the row has come. Nothing depends on shapes that change as sequences grow, so one CUDA graph serves a whole one.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from glassformer.generation.cuda.kernels.launch import launch

MANY_PROGRAMS = 768
"""Programs that keep a GPU's memory busy, each with one warp; fewer of them must each read more at a time."""
WIDEST_HEAD = 256
"""Keys and values of wider heads do not fit in a processor's shared memory."""


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
    launch(
        _attend, (batch, heads), q_BHE, k_BHE, v_BHE, keys_BHSE, values_BHSE, position_B, z_BHE, *q_BHE.stride()[:2],
        *k_BHE.stride()[:2], *v_BHE.stride()[:2], *keys_BHSE.stride()[:2], heads, width, scale, WIDTH=padded, BLOCK=block,
        num_warps=warps, num_stages=1,
    )  # fmt: skip
    return z_BHE
