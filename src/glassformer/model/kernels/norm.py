"""Layer norm and RMS norm: one kernel forward, one backward, sums in float32, always in the same order.

The gradient of the scale is summed in two stages: each program sums its own rows, then a small kernel sums the programs.
Neither uses atomics, so two runs give the same bits.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from glassformer.model import kernels

ELEMENTS = 2048
"""Numbers one program holds at a time."""
PROGRAMS = 1056
"""Programs of the backward pass: eight for each processor of an H100 or H200. Fixed, so that the order of sums is."""
COLUMNS = 16
"""Columns that one program of the last sum takes."""


@triton.jit
def _forward(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, scale_ptr, rows, width, eps,
    CENTRED: tl.constexpr, BIASED: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    here = (row < rows) & (column < width)
    x = tl.load(x_ptr + row * width + column, mask=here, other=0.0).to(tl.float32)
    mean = tl.zeros([ROWS, 1], tl.float32)
    if CENTRED:
        mean = tl.sum(x, axis=1, keep_dims=True) / width
        x = tl.where(here, x - mean, 0.0)
        tl.store(mean_ptr + row, mean, mask=row < rows)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=1, keep_dims=True) / width + eps)
    tl.store(scale_ptr + row, scale, mask=row < rows)
    y = x * scale * tl.load(weight_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    if BIASED:
        y += tl.load(bias_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * width + column, y, mask=here)


@triton.jit
def _backward(
    x_ptr, weight_ptr, dy_ptr, mean_ptr, scale_ptr, dx_ptr, dweight_ptr, dbias_ptr, rows, width,
    CENTRED: tl.constexpr, BIASED: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, WIDTH)[None, :]
    weight = tl.load(weight_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    dweight, dbias = tl.zeros([ROWS, WIDTH], tl.float32), tl.zeros([ROWS, WIDTH], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
        row = (block * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
        here = (row < rows) & (column < width)
        x = tl.load(x_ptr + row * width + column, mask=here, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * width + column, mask=here, other=0.0).to(tl.float32)
        scale = tl.load(scale_ptr + row, mask=row < rows, other=0.0)
        if CENTRED:
            x = tl.where(here, x - tl.load(mean_ptr + row, mask=row < rows, other=0.0), 0.0)
        normed, inward = x * scale, dy * weight
        dx = inward - normed * (tl.sum(inward * normed, axis=1, keep_dims=True) / width)
        if CENTRED:
            dx -= tl.sum(inward, axis=1, keep_dims=True) / width
        tl.store(dx_ptr + row * width + column, dx * scale, mask=here)
        dweight += dy * normed
        if BIASED:
            dbias += dy
    at = tl.program_id(0) * width + tl.arange(0, WIDTH)
    tl.store(dweight_ptr + at, tl.sum(dweight, axis=0), mask=tl.arange(0, WIDTH) < width)
    if BIASED:
        tl.store(dbias_ptr + at, tl.sum(dbias, axis=0), mask=tl.arange(0, WIDTH) < width)


@triton.jit
def _sum_programs(parts_ptr, sums_ptr, programs, width, PROGRAMS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    program = tl.arange(0, PROGRAMS)[:, None]
    here = (program < programs) & (column < width)
    sums = tl.sum(tl.load(parts_ptr + program * width + column, mask=here, other=0.0), axis=0)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(sums_ptr + column, sums, mask=column < width)


def _summed(parts_PW: Tensor) -> Tensor:
    programs, width = parts_PW.shape
    sums_W = parts_PW.new_empty(width)
    _sum_programs[(triton.cdiv(width, COLUMNS),)](
        parts_PW, sums_W, programs, width, PROGRAMS=triton.next_power_of_2(programs), COLUMNS=COLUMNS, num_warps=8
    )
    return sums_W


def _blocks(width: int) -> tuple[int, int]:
    padded = triton.next_power_of_2(width)
    return max(1, ELEMENTS // padded), padded


def _run_forward(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, centred: bool) -> tuple[Tensor, Tensor, Tensor]:
    x = x.contiguous()
    width, count = x.shape[-1], x.numel() // x.shape[-1]
    y = torch.empty_like(x)
    mean, scale = x.new_empty(count if centred else 0, dtype=torch.float32), x.new_empty(count, dtype=torch.float32)
    rows, padded = _blocks(width)
    _forward[(triton.cdiv(count, rows),)](
        x, weight, weight if bias is None else bias, y, mean, scale, count, width, eps,
        CENTRED=centred, BIASED=bias is not None, ROWS=rows, WIDTH=padded, num_warps=4,
    )  # fmt: skip
    return y, mean, scale


_norm = torch.library.custom_op("glassformer::norm", _run_forward, mutates_args=())


@torch.library.custom_op("glassformer::norm_backward", mutates_args=())
def _norm_backward(
    x: Tensor, weight: Tensor, dy: Tensor, mean: Tensor, scale: Tensor, centred: bool, biased: bool
) -> tuple[Tensor, Tensor, Tensor]:
    x, dy = x.contiguous(), dy.contiguous()
    width, count = x.shape[-1], x.numel() // x.shape[-1]
    rows, padded = _blocks(width)
    programs = min(PROGRAMS, triton.cdiv(count, rows))
    dx = torch.empty_like(x)
    dweight = x.new_empty((programs, width), dtype=torch.float32)
    dbias = torch.empty_like(dweight[: None if biased else 0])
    _backward[(programs,)](
        x, weight, dy, mean, scale, dx, dweight, dbias, count, width,
        CENTRED=centred, BIASED=biased, ROWS=rows, WIDTH=padded, num_warps=4,
    )  # fmt: skip
    return dx, _summed(dweight), _summed(dbias) if biased else x.new_empty(0, dtype=torch.float32)


@_norm.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, centred: bool) -> tuple[Tensor, Tensor, Tensor]:
    count = x.numel() // x.shape[-1]
    return (
        torch.empty_like(x, memory_format=torch.contiguous_format),
        x.new_empty(count if centred else 0, dtype=torch.float32),
        x.new_empty(count, dtype=torch.float32),
    )


@_norm_backward.register_fake
def _(
    x: Tensor, weight: Tensor, dy: Tensor, mean: Tensor, scale: Tensor, centred: bool, biased: bool
) -> tuple[Tensor, Tensor, Tensor]:
    sums = x.new_empty(x.shape[-1], dtype=torch.float32)
    return torch.empty_like(x, memory_format=torch.contiguous_format), sums, torch.empty_like(sums[: None if biased else 0])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, weight, bias, _, centred = inputs
    ctx.save_for_backward(x, weight, output[1], output[2])
    ctx.centred, ctx.biased = centred, bias is not None


def _differentiate(ctx: Any, dy: Tensor, _dmean: Tensor, _dscale: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, mean, scale = ctx.saved_tensors
    dx, dweight, dbias = _norm_backward(x, weight, dy, mean, scale, ctx.centred, ctx.biased)
    return dx, dweight.to(weight.dtype), dbias.to(weight.dtype) if ctx.biased else None, None, None


_norm.register_autograd(_differentiate, setup_context=_keep)


def norm(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, *, centred: bool) -> Tensor:
    """``x`` normalised over its last dimension, in its own dtype; ``centred``: the mean is taken off first (layer norm)."""
    y: Tensor = (_norm if kernels.wants_operators() else _run_forward)(x, weight, bias, eps, centred)[0]
    return y
