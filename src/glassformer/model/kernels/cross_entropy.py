"""Cross-entropy of each row of a table of scores: one kernel reads the table once, one writes its gradient.

Columns from ``vocabulary`` on are spare (they make the table's width a round number) and count for nothing. A target there
or beyond makes its row's loss and gradient NaN, so that training ends as diverged. Every row is one program, so sums are
always formed in the same order.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from glassformer.model import kernels

BLOCK = 4096
"""Columns read at a time."""


@triton.jit
def _forward(scores_ptr, targets_ptr, loss_ptr, total_ptr, vocabulary, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, vocabulary, BLOCK):  # each lane sums its own columns; the lanes meet at the end
        here = start + column < vocabulary
        scores = tl.load(scores_ptr + row * stride + start + column, mask=here, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(highest, scores)
        base = tl.where(higher == float("-inf"), 0.0, higher)  # nothing but minus infinity so far
        total = total * tl.exp(highest - base) + tl.exp(scores - base)
        highest = higher
    top = tl.max(highest, axis=0)
    log_total = top + tl.log(tl.sum(total * tl.exp(highest - top), axis=0))
    target = tl.load(targets_ptr + row)
    counts = target >= 0
    known = counts & (target < vocabulary)  # a kernel cannot raise: what is beyond is not read, and its loss is not a number
    score = tl.load(scores_ptr + row * stride + target, mask=known, other=float("nan")).to(tl.float32)
    tl.store(loss_ptr + row, tl.where(counts, log_total - score, 0.0))
    tl.store(total_ptr + row, log_total)


@triton.jit
def _backward(scores_ptr, targets_ptr, total_ptr, dloss_ptr, dscores_ptr, vocabulary, width, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets_ptr + row)
    log_total = tl.load(total_ptr + row)
    dloss = tl.where(target >= 0, tl.load(dloss_ptr + row), 0.0)
    dloss = tl.where(target < vocabulary, dloss, float("nan"))
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        scores = tl.load(scores_ptr + row * stride + column, mask=column < vocabulary, other=float("-inf")).to(tl.float32)
        share = tl.exp(scores - log_total)
        tl.store(
            dscores_ptr + row * width + column, dloss * (share - tl.where(column == target, 1.0, 0.0)), mask=column < width
        )


def _options(width: int) -> dict[str, int]:
    block = min(BLOCK, triton.next_power_of_2(width))
    return {"BLOCK": block, "num_warps": 8 if block >= 2048 else 4 if block >= 256 else 1}


def _losses(scores_NW: Tensor, targets_N: Tensor, vocabulary: int) -> tuple[Tensor, Tensor]:
    """The loss of each row, and the logarithm of the sum that its probabilities are divided by."""
    scores_NW, rows = scores_NW.contiguous(), len(targets_N)
    loss_N, total_N = (scores_NW.new_empty(rows, dtype=torch.float32) for _ in range(2))
    width = scores_NW.shape[1]
    if kernels.LAUNCHED:
        _forward[(rows,)](scores_NW, targets_N.contiguous(), loss_N, total_N, vocabulary, width, **_options(width))
    return loss_N, total_N


def _gradients(scores_NW: Tensor, targets_N: Tensor, total_N: Tensor, dloss_N: Tensor, vocabulary: int) -> Tensor:
    scores_NW, targets_N, dloss_N = scores_NW.contiguous(), targets_N.contiguous(), dloss_N.contiguous()
    dscores_NW, width = torch.empty_like(scores_NW), scores_NW.shape[1]
    if kernels.LAUNCHED:
        _backward[(len(targets_N),)](
            scores_NW, targets_N, total_N, dloss_N, dscores_NW, vocabulary, width, width, **_options(width)
        )
    return dscores_NW


class _CrossEntropy(torch.autograd.Function):
    """For steps that are not compiled. To call an operator of ``torch.library`` imports torch's compiler: seconds."""

    @staticmethod
    def forward(ctx: Any, scores_NW: Tensor, targets_N: Tensor, vocabulary: int) -> Tensor:
        loss_N, total_N = _losses(scores_NW, targets_N, vocabulary)
        ctx.save_for_backward(scores_NW, targets_N, total_N)
        ctx.vocabulary = vocabulary
        return loss_N

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        scores_NW, targets_N, total_N = ctx.saved_tensors
        return _gradients(scores_NW, targets_N, total_N, gradients[0], ctx.vocabulary), None, None


_operator = torch.library.custom_op("glassformer::cross_entropy", _losses, mutates_args=())
"""The same as an operator that torch's compiler takes as it is."""
_operator_backward = torch.library.custom_op("glassformer::cross_entropy_backward", _gradients, mutates_args=())


@_operator.register_fake
def _(scores_NW: Tensor, targets_N: Tensor, vocabulary: int) -> tuple[Tensor, Tensor]:
    loss_N = scores_NW.new_empty(len(targets_N), dtype=torch.float32)
    return loss_N, torch.empty_like(loss_N)


@_operator_backward.register_fake
def _(scores_NW: Tensor, targets_N: Tensor, total_N: Tensor, dloss_N: Tensor, vocabulary: int) -> Tensor:
    return torch.empty_like(scores_NW, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    scores_NW, targets_N, ctx.vocabulary = inputs
    ctx.save_for_backward(scores_NW, targets_N, output[1])


def _differentiate(ctx: Any, dloss_N: Tensor, _dtotal_N: Tensor) -> tuple[Tensor | None, ...]:
    return _operator_backward(*ctx.saved_tensors, dloss_N, ctx.vocabulary), None, None


_operator.register_autograd(_differentiate, setup_context=_keep)


def cross_entropy(scores_NW: Tensor, targets_N: Tensor, vocabulary: int) -> Tensor:
    """The loss of each row in nats, float32 [N]; 0 where the target is negative, NaN where it is no id of the vocabulary."""
    if torch.compiler.is_compiling():
        loss_N: Tensor = _operator(scores_NW, targets_N, vocabulary)[0]
        return loss_N
    return _CrossEntropy.apply(scores_NW, targets_N, vocabulary)
