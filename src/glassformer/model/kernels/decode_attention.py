"""Attention of one new token per row over the keys and values of a memory: each row reads as far as it has come.

Torch's kernels for this case want a mask and read the whole memory. Here one program serves one head of one row, and
nothing depends on shapes that change as texts grow, so one recording of a step serves a whole text.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64
"""Keys read at a time."""


@triton.jit
def _attend(
    q_ptr, k_ptr, v_ptr, at_ptr, z_ptr, q_row, q_head, k_row, k_head, k_place, v_row, v_head, v_place, z_row, z_head,
    at_row, keys, width, scale, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    end = tl.minimum(tl.load(at_ptr + row * at_row) + 1, keys)  # a query sees the keys up to its own place
    column = tl.arange(0, WIDTH)
    inside = column < width
    q = tl.load(q_ptr + row * q_row + head * q_head + column, mask=inside, other=0.0).to(tl.float32) * scale
    highest = tl.full([1], float("-inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    z = tl.zeros([WIDTH], tl.float32)
    for start in range(0, end, BLOCK):
        place = start + tl.arange(0, BLOCK)
        here = (place < end)[:, None] & inside[None, :]
        k = tl.load(k_ptr + row * k_row + head * k_head + place[:, None] * k_place + column[None, :], mask=here, other=0.0)
        scores = tl.sum(k.to(tl.float32) * q[None, :], axis=1)
        scores = tl.where(place < end, scores, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, axis=0))
        shares = tl.exp(scores - higher)
        v = tl.load(v_ptr + row * v_row + head * v_head + place[:, None] * v_place + column[None, :], mask=here, other=0.0)
        shrink = tl.exp(highest - higher)
        total = total * shrink + tl.sum(shares, axis=0)
        z = z * shrink + tl.sum(v.to(tl.float32) * shares[:, None], axis=0)
        highest = higher
    tl.store(z_ptr + row * z_row + head * z_head + column, z / total, mask=inside)


@torch.library.custom_op("glassformer::decode_attention", mutates_args=())
def decode_attention(q_BH1E: Tensor, k_BHSE: Tensor, v_BHSE: Tensor, at_B1: Tensor, scale: float) -> Tensor:
    """The mean of the values up to each row's own place, [B, H, 1, E], stored so that merging the heads copies nothing."""
    batch, heads, _, width = q_BH1E.shape
    if k_BHSE.stride(3) != 1 or v_BHSE.stride(3) != 1 or q_BH1E.stride(3) != 1:
        raise ValueError("the last dimension of queries, keys and values must be contiguous")
    z_BH1E = q_BH1E.new_empty(batch, 1, heads, width).transpose(1, 2)
    _attend[(batch, heads)](
        q_BH1E, k_BHSE, v_BHSE, at_B1, z_BH1E, q_BH1E.stride(0), q_BH1E.stride(1), *k_BHSE.stride()[:3],
        *v_BHSE.stride()[:3], z_BH1E.stride(0), z_BH1E.stride(1), at_B1.stride(0), k_BHSE.shape[2], width, scale,
        WIDTH=triton.next_power_of_2(width), BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
    return z_BH1E


@decode_attention.register_fake
def _(q_BH1E: Tensor, k_BHSE: Tensor, v_BHSE: Tensor, at_B1: Tensor, scale: float) -> Tensor:
    batch, heads, _, width = q_BH1E.shape
    return q_BH1E.new_empty(batch, 1, heads, width).transpose(1, 2)
