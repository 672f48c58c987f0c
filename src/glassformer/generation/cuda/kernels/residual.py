"""The residual stream of few rows, and linear layers from it and onto it: one kernel each, norm, activation and sum included.

For a decoding step, where each of these alone costs more to start than to run. The norm is taken after the product: with
the norm's scale multiplied into the weight, norm(x) W = (x W - mean(x) 1 W) / deviation(x). Mean and deviation come from
sums that the kernel before has left beside the row, piece by piece, always added in the same order. Where a row's mean is
more than some 300 times its deviation this loses more than bf16 does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
import triton
import triton.language as tl
from torch import Tensor

from glassformer.generation.cuda.kernels.launch import launch

ACTIVATIONS = {"": 0, "relu": 1, "gelu": 2}
FOLDED_ROWS = 8
"""Rows of a weight that one program multiplies with the norm's scale."""
PIECE = 16
"""Columns of the residual stream that are summed together."""
FEW_ROWS = 64
"""Rows up to which more and smaller programs are faster (H200, width 384)."""
FEW_OUTPUTS = 256
"""Outputs up to which they are faster for more rows, too: otherwise most of the GPU would have nothing to do."""


@dataclass(frozen=True, eq=False)
class ResidualStream:
    """Rows of the residual stream, and for each the sums and sums of squares of its pieces, [B, 2, P]."""

    x_BD: Tensor
    sums_B2P: Tensor

    @classmethod
    def empty(cls, rows: int, like_VD: Tensor) -> Self:
        """Room for rows as wide as those given, in their precision. The pieces are a power of two, so that a program can
        read the sums of a row a few at a time; those beyond the width are zero, and nobody writes anything else there."""
        width = like_VD.shape[1]
        sums_B2P = like_VD.new_zeros(rows, 2, triton.next_power_of_2(triton.cdiv(width, PIECE)), dtype=torch.float32)
        return cls(like_VD.new_empty(rows, width), sums_B2P)

    def first(self, rows: int) -> Self:
        return type(self)(self.x_BD[:rows], self.sums_B2P[:rows])


@dataclass(frozen=True, eq=False, kw_only=True)
class NormedLinear:
    """norm(x) -> W norm(x) + b, with the norm's scale and shift in W and b. ``sums_O``: of each row of W, for a norm that
    takes the mean off (layer norm); None: one that does not (RMS norm)."""

    weight_OI: Tensor
    bias_O: Tensor | None
    sums_O: Tensor | None
    eps: float


@triton.jit
def _normal_cdf(x):
    """The probability that a standard normal number is below ``x``, by Abramowitz and Stegun's formula 7.1.26: right to
    1.5e-7, where bf16 keeps 4e-3, and much cheaper than the error function."""
    near = 1.0 / (1.0 + 0.2316418882 * tl.abs(x))  # 0.3275911 / sqrt(2)
    series = 1.061405429 * near - 1.453152027
    series = series * near + 1.421413741
    series = series * near - 0.284496736
    series = series * near + 0.254829592
    tail = 0.5 * series * near * tl.exp(-0.5 * x * x)
    return tl.where(x < 0, tail, 1.0 - tail)


@triton.jit
def _fold(
    weight_ptr, bias_ptr, scale_ptr, shift_ptr, scaled_ptr, sums_ptr, shifted_ptr, inputs, outputs, BIASED: tl.constexpr,
    SHIFTED: tl.constexpr, CENTRED: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    total, shifted = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32)
    if BIASED:
        shifted += tl.load(bias_ptr + row, mask=row < outputs, other=0.0).to(tl.float32)
    for start in range(0, inputs, DEPTH):
        column = start + tl.arange(0, DEPTH)
        here = (row < outputs)[:, None] & (column < inputs)[None, :]
        at = row[:, None] * inputs + column[None, :]
        weight = tl.load(weight_ptr + at, mask=here, other=0.0)
        scaled = (weight * tl.load(scale_ptr + column, mask=column < inputs, other=0.0)[None, :]).to(weight.dtype)
        tl.store(scaled_ptr + at, scaled, mask=here)
        total += tl.sum(scaled.to(tl.float32), axis=1)
        if SHIFTED:
            shift = tl.load(shift_ptr + column, mask=column < inputs, other=0.0).to(tl.float32)
            shifted += tl.sum(weight.to(tl.float32) * shift[None, :], axis=1)
    if CENTRED:
        tl.store(sums_ptr + row, total, mask=row < outputs)
    if BIASED or SHIFTED:
        tl.store(shifted_ptr + row, shifted, mask=row < outputs)


def after_norm(
    weight_OI: Tensor, bias_O: Tensor | None, *, scale_I: Tensor, shift_I: Tensor | None, eps: float, centred: bool,
    into: NormedLinear | None = None,
) -> NormedLinear:  # fmt: skip
    """A linear layer and the norm before it in one; ``centred``: layer norm, otherwise RMS norm. ``into``: such a layer, to
    be overwritten where it is."""
    outputs, inputs = weight_OI.shape
    biased = bias_O is not None or shift_I is not None
    if into is None:
        one_each = weight_OI.new_empty(2, outputs, dtype=torch.float32)
        into = NormedLinear(
            weight_OI=weight_OI.new_empty(outputs, inputs),
            bias_O=one_each[0] if biased else None,
            sums_O=one_each[1] if centred else None,
            eps=eps,
        )
    nothing = into.weight_OI  # stands for a tensor that is not read or written
    assert weight_OI.is_contiguous()
    _fold[(triton.cdiv(outputs, FOLDED_ROWS),)](
        weight_OI, nothing if bias_O is None else bias_O, scale_I, nothing if shift_I is None else shift_I, into.weight_OI,
        nothing if into.sums_O is None else into.sums_O, nothing if into.bias_O is None else into.bias_O, inputs, outputs,
        BIASED=bias_O is not None, SHIFTED=shift_I is not None, CENTRED=centred, ROWS=FOLDED_ROWS, DEPTH=128,
    )  # fmt: skip
    return into


@triton.jit
def embed_row(
    row, id, position, table_ptr, position_table_ptr, x_ptr, sums_ptr, width, HAS_POSITIONS: tl.constexpr, PIECE: tl.constexpr,
    PIECES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Puts the embedding of ``id`` at ``position`` into the row, with its sums; the end of a kernel."""
    piece = tl.arange(0, PIECES)
    column = piece[:, None] * PIECE + tl.arange(0, PIECE)[None, :]
    x = tl.load(table_ptr + id * width + column, mask=column < width, other=0.0)
    if HAS_POSITIONS:
        x = (x + tl.load(position_table_ptr + position * width + column, mask=column < width, other=0.0)).to(x.dtype)
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    tl.store(x_ptr + row * width + column, x, mask=column < width)
    wide = x.to(tl.float32)
    tl.store(sums_ptr + row * 2 * PIECES + piece, tl.sum(wide, axis=1))
    tl.store(sums_ptr + (row * 2 + 1) * PIECES + piece, tl.sum(wide * wide, axis=1))


@triton.jit
def _embed(
    ids_ptr, position_ptr, table_ptr, position_table_ptr, x_ptr, sums_ptr, width, HAS_POSITIONS: tl.constexpr,
    PIECE: tl.constexpr, PIECES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    if PDL:
        tl.extra.cuda.gdc_wait()
    row = tl.program_id(0).to(tl.int64)
    id, position = tl.load(ids_ptr + row), tl.load(position_ptr + row)
    embed_row(row, id, position, table_ptr, position_table_ptr, x_ptr, sums_ptr, width, HAS_POSITIONS, PIECE, PIECES, PDL)


@triton.jit
def _slices(x_rows, weight_columns, mine, theirs, depth, INPUTS: tl.constexpr, FILLED: tl.constexpr):
    """Of the rows and of the weights, what stands at ``depth``; zeros beyond the ends, which whole tiles do not reach."""
    if FILLED:
        x, weight = tl.load(x_rows + depth[None, :]), tl.load(weight_columns + depth[:, None])
    else:
        inside = depth < INPUTS
        x = tl.load(x_rows + depth[None, :], mask=mine[:, None] & inside[None, :], other=0.0)
        weight = tl.load(weight_columns + depth[:, None], mask=theirs[None, :] & inside[:, None], other=0.0)
    return x, weight


@triton.jit
def _linear(
    x_ptr, weight_ptr, bias_ptr, weight_sums_ptr, sums_ptr, y_ptr, rows, eps, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
    NORMED: tl.constexpr, CENTRED: tl.constexpr, BIASED: tl.constexpr, ACTIVATION: tl.constexpr, ADDED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, FILLED: tl.constexpr, PIECE: tl.constexpr,
    PIECES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    if PDL:
        tl.extra.cuda.gdc_wait()
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    x_rows = x_ptr + row[:, None] * INPUTS
    weight_columns = weight_ptr + column.to(tl.int64)[None, :] * INPUTS
    at = y_ptr + row[:, None] * OUTPUTS + column[None, :]
    here = (row < rows)[:, None] & (column < OUTPUTS)[None, :]
    # What is needed after the product is asked for before it, so that nobody waits for it.
    if NORMED:
        sums = sums_ptr + row[:, None] * 2 * PIECES + tl.arange(0, PIECES)[None, :]
        totals = tl.load(sums, mask=(row < rows)[:, None], other=0.0)
        squares = tl.load(sums + PIECES, mask=(row < rows)[:, None], other=0.0)
        if CENTRED:
            weight_sums = tl.load(weight_sums_ptr + column, mask=column < OUTPUTS, other=0.0)
    if BIASED:
        bias = tl.load(bias_ptr + column, mask=column < OUTPUTS, other=0.0)
    if ADDED:
        before = tl.load(at, mask=here, other=0.0)
    y = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, INPUTS, DEPTH):
        depth = start + tl.arange(0, DEPTH)
        x, weight = _slices(x_rows, weight_columns, row < rows, column < OUTPUTS, depth, INPUTS, FILLED)
        y = tl.dot(x, weight, y)
    if NORMED:
        mean, square = tl.sum(totals, axis=1) / INPUTS, tl.sum(squares, axis=1) / INPUTS
        if CENTRED:
            y -= mean[:, None] * weight_sums[None, :]
            square = tl.maximum(square - mean * mean, 0.0)
        y *= (1.0 / tl.sqrt(square + eps))[:, None]
    if BIASED:
        y += bias.to(tl.float32)[None, :]
    if ACTIVATION == 1:
        y = tl.maximum(y, 0.0)
    if ACTIVATION == 2:
        y *= _normal_cdf(y)
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    if ADDED:
        after = (y + before.to(tl.float32)).to(before.dtype)
        tl.store(at, after, mask=here)
        wide = tl.reshape(after.to(tl.float32), [ROWS, COLUMNS // PIECE, PIECE])
        piece = tl.program_id(1) * (COLUMNS // PIECE) + tl.arange(0, COLUMNS // PIECE)[None, :]
        sums = sums_ptr + row[:, None] * 2 * PIECES + piece
        sums_here = (row < rows)[:, None] & (piece < PIECES)
        tl.store(sums, tl.sum(wide, axis=2), mask=sums_here)
        tl.store(sums + PIECES, tl.sum(wide * wide, axis=2), mask=sums_here)
    else:
        tl.store(at, y, mask=here)


def embed(
    residual: ResidualStream, ids_B: Tensor, table_VD: Tensor, position_B: Tensor | None = None,
    position_table_TD: Tensor | None = None,
) -> None:  # fmt: skip
    """The residual stream becomes the rows ``ids_B`` of the table, plus the rows ``position_B`` of ``position_table_TD``."""
    added, position = (table_VD, ids_B) if position_table_TD is None or position_B is None else (position_table_TD, position_B)
    assert all(tensor.is_contiguous() for tensor in (ids_B, position, table_VD, added))
    launch(
        _embed, (len(ids_B),), ids_B, position, table_VD, added, residual.x_BD, residual.sums_B2P, **sizes(residual),
        HAS_POSITIONS=position_table_TD is not None, num_warps=4,
    )  # fmt: skip


def sizes(residual: ResidualStream) -> dict[str, int]:
    """What ``embed_row`` must know of the residual stream."""
    return {"width": residual.x_BD.shape[1], "PIECE": PIECE, "PIECES": residual.sums_B2P.shape[2]}


def linear_of_normed(residual: ResidualStream, by: NormedLinear, *, activation: str = "", out: Tensor | None = None) -> Tensor:
    """activation(W norm(x) + b), [B, O]; ``out``: where to store it, in its own precision."""
    y_BO = residual.x_BD.new_empty(len(residual.x_BD), len(by.weight_OI)) if out is None else out
    _launch(residual.x_BD, by.weight_OI, by.bias_O, by.sums_O, residual.sums_B2P, y_BO, eps=by.eps, activation=activation)
    return y_BO


def add_linear(residual: ResidualStream, z_BI: Tensor, weight_DI: Tensor, bias_D: Tensor | None) -> None:
    """x += W z + b, in place, and the sums anew."""
    _launch(z_BI, weight_DI, bias_D, None, residual.sums_B2P, residual.x_BD, adding=True)


def _launch(
    x_BI: Tensor, weight_OI: Tensor, bias_O: Tensor | None, weight_sums_O: Tensor | None, sums_B2P: Tensor, y_BO: Tensor, *,
    eps: float = 0.0, activation: str = "", adding: bool = False,
) -> None:  # fmt: skip
    assert all(tensor.is_contiguous() for tensor in (x_BI, weight_OI, sums_B2P, y_BO))
    (rows, inputs), outputs = x_BI.shape, len(weight_OI)
    row_block, columns, depth, warps, stages = tiles(rows, outputs, adding=adding)
    nothing = weight_OI  # stands for a tensor that is not read
    launch(
        _linear, (triton.cdiv(rows, row_block), triton.cdiv(outputs, columns)), x_BI, weight_OI,
        nothing if bias_O is None else bias_O, nothing if weight_sums_O is None else weight_sums_O, sums_B2P, y_BO, rows, eps,
        INPUTS=inputs, OUTPUTS=outputs, NORMED=not adding, CENTRED=weight_sums_O is not None, BIASED=bias_O is not None,
        ACTIVATION=ACTIVATIONS[activation], ADDED=adding, ROWS=row_block, COLUMNS=columns, DEPTH=depth,
        FILLED=rows % row_block == inputs % depth == outputs % columns == 0, PIECE=PIECE, PIECES=sums_B2P.shape[2],
        num_warps=warps, num_stages=stages,
    )  # fmt: skip


def tiles(rows: int, outputs: int, *, adding: bool) -> tuple[int, int, int, int, int]:
    """Rows, columns and depth of one program's product, its warps, and how many loads it keeps under way."""
    if rows <= FEW_ROWS:
        return (16, 32, 256, 4, 3) if adding else (16, 16, 128, 2, 4)
    if adding:
        return 64, 16, 128, 4, 5
    return (64, 64, 64, 8, 5) if outputs > FEW_OUTPUTS else (16, 32, 128, 4, 4)
