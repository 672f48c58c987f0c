"""Vectors of heads copied between layouts: torch's own copy reaches a third of the memory's rate where rows do not adjoin."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

POSITIONS = 64
"""Positions that one program copies."""


@triton.jit
def _copy(
    from_ptr, into_ptr, heads, length, width, from_row, from_head, from_position, into_row, into_head, into_position,
    POSITIONS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), (tl.program_id(0) % heads).to(tl.int64)
    position = (tl.program_id(1) * POSITIONS + tl.arange(0, POSITIONS))[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    here = (position < length) & (column < width)
    vectors = tl.load(from_ptr + row * from_row + head * from_head + position * from_position + column, mask=here)
    tl.store(into_ptr + row * into_row + head * into_head + position * into_position + column, vectors, mask=here)


def copy_heads(into_BHTE: Tensor, from_BHTE: Tensor) -> None:
    """``into_BHTE.copy_(from_BHTE)``, for tensors whose vectors are each in one piece."""
    assert into_BHTE.shape == from_BHTE.shape
    assert into_BHTE.stride(-1) == from_BHTE.stride(-1) == 1
    batch, heads, length, width = into_BHTE.shape
    _copy[(batch * heads, triton.cdiv(length, POSITIONS))](
        from_BHTE, into_BHTE, heads, length, width, *from_BHTE.stride()[:3], *into_BHTE.stride()[:3], POSITIONS=POSITIONS,
        WIDTH=triton.next_power_of_2(width), num_warps=4,
    )  # fmt: skip
