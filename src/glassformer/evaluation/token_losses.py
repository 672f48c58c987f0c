"""A language model and tokens -> the loss of each token, in nats.

Takes any callable from ids to logits and one long array of ids (memory-mapped, too); splits it into non-overlapping windows
and predicts every token but the first exactly once. ``language_metrics`` computes metrics from the losses. The only module
of the package that imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.evaluation.language_baselines import LanguageBaseline
from glassformer.evaluation.language_metrics import (
    LANGUAGE_METRICS,
    DocumentLosses,
    EvaluatedText,
    PositionLosses,
    language_outcomes,
)
from glassformer.evaluation.results import Evaluation, Share, in_this_process
from glassformer.foundation.errors import UsageError
from glassformer.model.network import evaluating

Model = Callable[[Tensor], Tensor]
"""ids [B, T] -> logits [B, T, V]; position t may see the ids up to and with t."""

KeepGoing = Callable[[], None]
"""Called between batches; raises after a stop request."""

Progress = Callable[[int], None]
"""Called with the number of tokens predicted since the last call."""


class How(TypedDict, total=False):
    """The keyword arguments of ``loss_chunks`` that do not affect its result."""

    batch_size: int
    device: torch.device | str | None
    keep_going: KeepGoing | None
    progress: Progress | None
    shared: Share


# 2^26 float32 logits are 256 MiB: with a context of 1024 and 33,000 words, two windows at a time instead of 32.
MAX_LOGITS = 1 << 26
# The softmax needs copies of the logits it works on; this many at a time are 16 MiB.
MAX_SOFTMAX = 1 << 22


def token_losses(model: Model, tokens: np.ndarray, *, context: int, **how: Unpack[How]) -> np.ndarray:
    """float64 nats of ``tokens[1:]``, in order."""
    return np.concatenate([np.empty(0), *loss_chunks(model, tokens, context=context, **how)])


def loss_chunks(
    model: Model,
    tokens: np.ndarray,
    *,
    context: int,
    batch_size: int = 32,
    device: torch.device | str | None = None,
    keep_going: KeepGoing | None = None,
    progress: Progress | None = None,
    shared: Share = in_this_process,
) -> Iterator[np.ndarray]:
    """The nats of ``tokens[1:]`` a batch of windows at a time, for token files larger than memory.

    ``batch_size`` is an upper bound: a large vocabulary lowers it.
    """
    if context < 1 or batch_size < 1:
        raise UsageError(f"context={context} and batch_size={batch_size} must both be at least 1.", reason="bad-windows")
    where = _device_of(model) if device is None else torch.device(device)
    end = len(tokens) - 1

    def batches(done: int, rows: int) -> Iterator[tuple[int, int, int]]:
        """Where each batch begins, its windows and their length: a shorter window at the end comes alone."""
        while done < end:
            if keep_going is not None:
                keep_going()
            length = min(context, end - done)
            rows_now = min(rows, (end - done) // length)
            yield done, rows_now, length
            done += rows_now * length

    def losses(batch: tuple[int, int, int]) -> tuple[np.ndarray, int]:
        done, rows, length = batch
        ids_N = torch.from_numpy(np.asarray(tokens[done : done + rows * length + 1]).astype(np.int64)).to(where)
        return _losses_of_windows(model, ids_N, length)

    with evaluating(model):
        for first in batches(0, 1):  # the first batch is one window, to learn the size of the vocabulary
            losses_N, vocabulary = losses(first)
            break
        else:
            return
        yield losses_N
        if progress is not None:
            progress(len(losses_N))
        rows = max(1, min(batch_size, MAX_LOGITS // (context * vocabulary)))
        for others_N in shared(batches(len(losses_N), rows), lambda batch: losses(batch)[0]):
            yield others_N
            if progress is not None:
                progress(len(others_N))


def document_losses(
    model: Model, text: EvaluatedText, *, context: int, by_position: bool = True, **how: Unpack[How]
) -> tuple[DocumentLosses, PositionLosses | None]:
    """Losses by document and by position in the window, in one pass and without holding a loss per token."""
    positions = PositionLosses(context) if by_position else None

    def chunks() -> Iterator[np.ndarray]:
        for chunk in loss_chunks(model, text.tokens, context=context, **how):
            if positions is not None:
                positions.add(chunk)
            yield chunk

    return DocumentLosses.collect(chunks(), text), positions


def evaluate_language(
    model: Model,
    text: EvaluatedText,
    *,
    name: str,
    context: int,
    baselines: Mapping[str, LanguageBaseline],
    untrained: Model | None = None,
    **how: Unpack[How],
) -> Evaluation:
    """Evaluates any callable, the baselines and the untrained model on the same tokens."""
    outcomes = language_outcomes(*document_losses(model, text, context=context, **how))
    beside = {baseline: language_outcomes(counted.document_losses(text)) for baseline, counted in baselines.items()}
    trivial = [baseline for baseline, counted in baselines.items() if counted.trivial]
    if untrained is not None:
        beside["untrained"] = language_outcomes(document_losses(untrained, text, context=context, by_position=False, **how)[0])
        trivial.append("untrained")
    return Evaluation.of(name, outcomes, beside, metrics=tuple(LANGUAGE_METRICS.values()), trivial=trivial)


@torch.no_grad()
def _losses_of_windows(model: Model, ids_N: Tensor, length: int) -> tuple[np.ndarray, int]:
    """The losses of ``ids_N[1:]`` cut into windows of ``length``, and the size of the vocabulary."""
    inputs_BT, targets_BT = ids_N[:-1].view(-1, length), ids_N[1:].view(-1, length)
    logits_BTV = model(inputs_BT.clone())  # targets are another view of the same memory, and a network must not reach them
    if not isinstance(logits_BTV, Tensor) or logits_BTV.ndim != 3 or logits_BTV.shape[:2] != inputs_BT.shape:
        got = tuple(logits_BTV.shape) if isinstance(logits_BTV, Tensor) else type(logits_BTV).__name__
        raise UsageError(
            f"The model returned {got} for ids of shape {tuple(inputs_BT.shape)}; "
            "it must return logits of shape (batch, positions, vocabulary).",
            reason="logits-shape",
        )
    vocabulary = logits_BTV.shape[-1]
    return _cross_entropy(logits_BTV.reshape(-1, vocabulary), targets_BT.reshape(-1)).numpy(), vocabulary


def _cross_entropy(logits_NV: Tensor, targets_N: Tensor) -> Tensor:
    """float64 nats of each row, in slices, because the softmax of all rows at once would copy all logits."""
    step = max(1, MAX_SOFTMAX // logits_NV.shape[-1])
    slices = [
        nn.functional.cross_entropy(logits_NV[at : at + step].float(), targets_N[at : at + step], reduction="none")
        for at in range(0, len(logits_NV), step)
    ]
    return torch.cat(slices).cpu().double()  # on the CPU, because MPS has no float64


def _device_of(model: Model) -> torch.device:
    parameter = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return torch.device("cpu") if parameter is None else parameter.device
