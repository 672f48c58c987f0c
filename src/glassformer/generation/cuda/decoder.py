"""Many sequences at once on CUDA: rows of one batch with one KV cache, their state on the device, steps by CUDA graphs.

As batch.py does it, but the host looks at the tokens only every ``STRIDE`` steps, since on a GPU a look costs more than a
step. What a row wrote beyond its end, or beyond a token that needs recomputation, is then dropped, which costs nothing but
the steps, because the causal mask hides it. In bf16 a step is taken by fused kernels where the model's parts offer them
(fast_step.py).
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, final
from weakref import WeakKeyDictionary, WeakMethod, ref

import torch
from torch import Tensor

from glassformer.generation.batch import (
    COMPARED,
    PREFILL_TOKENS,
    SLACK,
    BatchRow,
    learn_rounding,
    modules_of,
    rounds_as_float32,
)
from glassformer.generation.cuda.graphs import WARM_UP, CUDAGraphSteps
from glassformer.generation.reference import choose_next, next_scores, seen_ids
from glassformer.generation.sampling import Sampling, choose
from glassformer.generation.sequence import TokenSequence
from glassformer.model import kernels
from glassformer.model.transformer import Transformer

if kernels.AVAILABLE:
    from glassformer.generation.cuda.fast_step import compute_scores, fits
    from glassformer.generation.cuda.kernels import sample_tokens

STRIDE, WATCHED_STRIDE = 64, 8
"""Steps before the host looks at the tokens: few when somebody waits for them or may end the sequence."""
LENGTH_UNIT = 128
"""A captured step attends to a whole number of these positions, so that few CUDA graphs serve a whole window."""
STEPS_PER_GRAPH = 16
"""Fast steps in one CUDA graph."""
NEEDS_RECOMPUTATION = -1
"""Stands for a token that the reference implementation must choose."""
LARGEST_CACHED = 1 << 30
"""Bytes of the largest KV cache that stays with its decoder, and with the CUDA graphs that use it, for the next sequences."""


@dataclass(slots=True)
class _SyncedRow(BatchRow):
    synced: bool = False  # whether the device knows where the sequence ends


@final
class CUDADecoder:
    """A batch of sequences and its state on the device: last id, its position, index of the next id, ids seen."""

    def __init__(self, model: Transformer, sampling: Sampling, *, rows: int, capacity: int) -> None:
        self._model, self.sampling, self.max_rows, self.capacity = ref(model), sampling, rows, capacity
        self.device, self.recompute_unsure = model.embedding.weight.device, rounds_as_float32(model)
        self.cache = model.new_cache(capacity=capacity, rows=rows)
        self.rows: list[_SyncedRow] = []
        self.ends_4B = torch.zeros(4, rows, dtype=torch.long, device=self.device)
        self.last_B, self.position_B, self.index_B, self.seeds_B = self.ends_4B
        self.scores_BV = torch.zeros(rows, model.dims.vocabulary, device=self.device)
        # A run of steps is at most as long as the window; capturing one, perhaps the last, takes some steps more.
        self.output_tokens_BN = self.last_B.new_zeros(rows, capacity + WARM_UP)
        self.first_B = torch.zeros(rows, dtype=torch.long, device=self.device)  # the index before a run of steps
        self.slack, self.to_compare = torch.tensor(SLACK, device=self.device), COMPARED if self.recompute_unsure else 0
        self.reference_scores: dict[int, Tensor] = {}  # scores by the reference that came with prefill, by row
        self.seen_BV: Tensor | None = None
        if sampling.repetition_penalty != 1.0:
            self.seen_BV = torch.zeros(rows, model.dims.vocabulary, dtype=torch.bool, device=self.device)
        self.fast = kernels.AVAILABLE and fits(model)
        steps_per_graph = STEPS_PER_GRAPH if self.fast else 1
        self.graphs = CUDAGraphSteps(WeakMethod(self._step), self._state, together=steps_per_graph)
        self.window_BT = self.last_B.new_zeros(rows, capacity)
        self.window_graphs = CUDAGraphSteps(WeakMethod(self._read), [], together=1)

    @property
    def model(self) -> Transformer:
        model = self._model()
        assert model is not None
        return model

    @property
    def _state(self) -> list[Tensor]:
        return [self.ends_4B.T, self.output_tokens_BN, self.first_B, *([] if self.seen_BV is None else [self.seen_BV])]

    def reset(self) -> None:
        """As after it was made; the CUDA graphs stay."""
        self.rows, self.reference_scores = [], {}
        self.to_compare = COMPARED if self.recompute_unsure else 0
        self.slack.fill_(SLACK)
        self.cache.clear()
        for state in self._state:
            state.zero_()

    @property
    def _active(self) -> list[int]:
        return [row for row, one in enumerate(self.rows) if one.sequence.reason is None]

    def run(self, sequences: Iterable[TokenSequence]) -> None:
        waiting = (_SyncedRow(sequence) for sequence in sequences if sequence.reason is None)
        while active := self._fill_rows(waiting):
            self._prefill([row for row in active if self.rows[row].start != self.rows[row].sequence.start])
            self._sync([row for row in active if not self.rows[row].synced])
            self._accept(self._run_steps())

    def _fill_rows(self, waiting: Iterator[_SyncedRow]) -> list[int]:
        """Waiting sequences take the rows of ended ones. The rows that are still running; none when all have ended."""
        for row, new in zip([row for row, one in enumerate(self.rows) if one.ended], waiting):
            self.rows[row] = new
        self.rows += itertools.islice(waiting, self.max_rows - len(self.rows))
        active = self._active
        # Another number of rows needs another CUDA graph: worth it only when the batch has become half as large.
        if len(active) <= len(self.rows) // 2:
            late = [row for row in active if row >= len(active)]  # they take the free places, so that few rows move
            order = [late.pop() if self.rows[row].ended else row for row in range(len(active))]
            if order != list(range(len(order))):
                rows_B = self._on_device(order)
                self.cache.keep_rows(rows_B)
                for state in self._state:
                    state[: len(order)] = state[rows_B]
            self.rows = [self.rows[row] for row in order]
        return self._active

    def _on_device(self, values: Iterable[int]) -> Tensor:
        """The numbers in one copy, which on CUDA does not wait for what the device is doing."""
        numbers_N = torch.frombuffer(array("q", values), dtype=torch.long)  # many times as fast as a tensor of lists
        return numbers_N.to(self.device, non_blocking=self.device.type == "cuda")

    def _prefill(self, rows: list[int]) -> None:
        """Reads all but the last id of each window into the cache, in passes of rows of similar length."""
        for row in rows[: self.to_compare]:
            self.reference_scores[row] = next_scores(self.model, self.rows[row].sequence)
        self.to_compare -= len(self.reference_scores)
        waiting = sorted(rows, key=lambda row: self.rows[row].sequence.window_length, reverse=True)
        while waiting:
            length = self.rows[waiting[0]].sequence.window_length - 1
            count = max(1, PREFILL_TOKENS.get(self.device.type, 1 << 12) // max(1, length))
            together, waiting = waiting[:count], waiting[count:]
            if length <= 0:
                continue
            padded: list[int] = []
            for sequence in (self.rows[row].sequence for row in together):
                padded += sequence.ids[sequence.start : -1]
                padded += [0] * (length - sequence.window_length + 1)
            ids_BT = self._on_device(padded).view(-1, length)
            if sequence.start > 0 and together == list(range(len(together))):  # all have moved on: they will again
                self.window_BT[: len(together), :length] = ids_BT
                self.window_graphs(len(together), length, 1)
            else:
                self.cache.place_whole(self._on_device(together))
                self.model.features(ids_BT, cache=self.cache)
        for row in rows:
            self.rows[row].start, self.rows[row].synced = self.rows[row].sequence.start, False

    def _read(self, rows: int, length: int) -> None:
        self.cache.place_whole(slice(rows))
        self.model.features(self.window_BT[:rows, :length], cache=self.cache)

    def _sync(self, rows: list[int]) -> None:
        """Tells the device where these sequences end."""
        if not rows:
            return
        sequences = [self.rows[row].sequence for row in rows]
        values = [
            (row, sequence.ids[-1], sequence.window_length - 1, len(sequence.new_ids), sequence.seed)
            for row, sequence in zip(rows, sequences)
        ]
        values_B5 = self._on_device(itertools.chain.from_iterable(values)).view(-1, 5)
        where = values_B5[:, 0]
        self.ends_4B[:, where] = values_B5[:, 1:].T
        if self.seen_BV is not None:
            self.seen_BV[where] = seen_ids(sequences, self.seen_BV.shape[1]).to(self.device)
        for row in rows:
            self.rows[row].synced = True

    def _run_steps(self) -> Tensor:
        """The next ids of every row on the host, [B, N], ``NEEDS_RECOMPUTATION`` where the reference decides."""
        sequences = [self.rows[row].sequence for row in self._active]
        ends = [min(sequence.remaining, sequence.room) for sequence in sequences]
        steps = 1 if self.reference_scores else min(WATCHED_STRIDE if sequences[0].watched else STRIDE, max(ends))
        if self.fast and not sequences[0].watched:  # nothing but an end can come between: no look before the first
            steps = max(steps, min(ends))
        self.first_B.copy_(self.index_B)
        length = self.capacity  # of the cache that a step attends to; fast steps read no further than each row has come
        if not self.fast:
            seen = max(sequence.window_length for sequence in sequences) + steps - 1
            length = min(-(-seen // LENGTH_UNIT) * LENGTH_UNIT, self.capacity)
        self.graphs(len(self.rows), length, steps)
        return self.output_tokens_BN[: len(self.rows), :steps].cpu()

    def _step(self, rows: int, length: int) -> None:
        """One token for each of the first ``rows`` rows, written into ``output_tokens_BN``. The shapes follow."""
        last_B, position_B, scores_BV = self.last_B[:rows], self.position_B[:rows], self.scores_BV[:rows]
        if self.fast:
            compute_scores(self.model, last_B, position_B, self.cache, scores_BV)
        else:
            position_ids_B1 = position_B.unsqueeze(1)
            self.cache.place(position_ids_B1, length)
            scores_BV.copy_(self.model(last_B.unsqueeze(1), position_ids_BT=position_ids_B1, cache=self.cache)[:, -1])
        if not (self.fast and self.sampling.unfiltered):
            self._choose(rows)
            return
        ends = {"last_position": self.capacity - 1, "needs_recomputation": NEEDS_RECOMPUTATION}
        sample_tokens(scores_BV, self.ends_4B, self.first_B, self.output_tokens_BN, self.sampling.temperature, **ends)

    def _choose(self, rows: int) -> None:
        """From the scores to the next ids, and the state one step on; a row at its window's end waits there to be read anew."""
        last_B, position_B, index_B, seeds_B = self.ends_4B[:, :rows]
        seen_BV, scores_BV = None if self.seen_BV is None else self.seen_BV[:rows], self.scores_BV[:rows]
        choice = choose(scores_BV, self.sampling, seen_BV=seen_BV, seeds_B=seeds_B, index_B=index_B, slack=self.slack)
        recompute_B = ~choice.sure_B if self.recompute_unsure else scores_BV.isnan().any(dim=-1)
        column_B1 = (index_B - self.first_B[:rows]).unsqueeze(1)
        self.output_tokens_BN[:rows].scatter_(
            1, column_B1, torch.where(recompute_B, NEEDS_RECOMPUTATION, choice.ids_B).unsqueeze(1)
        )
        last_B.copy_(choice.ids_B)
        position_B.add_(1).clamp_(max=self.capacity - 1)
        index_B.add_(1)
        if seen_BV is not None:
            seen_BV.scatter_(1, choice.ids_B.unsqueeze(1), True)

    def _accept(self, output_tokens_BN: Tensor) -> None:
        """Takes the rows' tokens."""
        # numpy: faster than each row's list, and it wakes no threads
        recompute_B = (output_tokens_BN.numpy() == NEEDS_RECOMPUTATION).any(axis=1)
        for row, (one, tokens, recompute) in enumerate(zip(self.rows, output_tokens_BN.tolist(), recompute_B.tolist())):
            if recompute or row in self.reference_scores:
                self._accept_with_recomputation(row, tokens)
            else:
                one.sequence.accept_all(tokens)

    def _accept_with_recomputation(self, row: int, tokens: list[int]) -> None:
        """Takes a row's tokens, up to its window's end or a token that needs recomputation."""
        one, reference_1V = self.rows[row], self.reference_scores.pop(row, None)
        tokens = tokens if reference_1V is None else [NEEDS_RECOMPUTATION]
        taken = tokens[: one.sequence.room]
        if NEEDS_RECOMPUTATION not in taken:
            one.sequence.accept_all(taken)
            return
        one.sequence.accept_all(taken[: taken.index(NEEDS_RECOMPUTATION)])
        if not one.ended:
            scores_1V = next_scores(self.model, one.sequence) if reference_1V is None else reference_1V
            of_last_step = taken.index(NEEDS_RECOMPUTATION) == len(tokens) - 1  # whose scores are still there
            if self.recompute_unsure and of_last_step:
                learn_rounding(self.slack, scores_1V, self.scores_BV[row])
            one.sequence.accept(choose_next(scores_1V, one.sequence, self.sampling))
            one.synced = False


_DECODERS: WeakKeyDictionary[Transformer, tuple[Any, CUDADecoder]] = WeakKeyDictionary()
"""The last decoder of each model, and what it was captured with."""


def run_cached_decoder(
    model: Transformer, sampling: Sampling, sequences: Iterable[TokenSequence], *, rows: int, capacity: int
) -> None:
    """Runs sequences by the model's last decoder where it still fits, else by a new one: capturing a step costs as much as
    taking a hundred."""
    made_for = _captured_with(model, sampling, rows, capacity)
    cached_for, decoder = _DECODERS.pop(model, (None, None))  # while it runs nobody else can have it
    if decoder is not None and cached_for == made_for:
        decoder.reset()
    else:
        decoder = CUDADecoder(model, sampling, rows=rows, capacity=capacity)
    decoder.run(sequences)
    small = model.cache_bytes(rows=rows, capacity=capacity) <= LARGEST_CACHED
    # Under autocast a CUDA graph reads copies of the weights that are freed when the context ends.
    if small and not torch.is_autocast_enabled(model.embedding.weight.device.type):
        _DECODERS[model] = made_for, decoder


def _captured_with(model: Transformer, sampling: Sampling, rows: int, capacity: int) -> tuple[Any, ...]:
    """All that a CUDA graph depends on: it reads every tensor of the model at its address."""
    modules = modules_of(model)
    stored = itertools.chain.from_iterable((*one._parameters.values(), *one._buffers.values()) for one in modules)
    tensors = tuple(tensor.data_ptr() for tensor in stored if tensor is not None)
    states = tuple((id(module), module.training) for module in modules)
    modes = (torch.is_autocast_enabled(model.embedding.weight.device.type), torch.is_inference_mode_enabled())
    return sampling, rows, capacity, rounds_as_float32(model), modes, tensors, states
