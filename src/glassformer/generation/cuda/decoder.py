"""Many sequences at once on CUDA: rows of one batch with one KV cache, their state on the device, steps by CUDA graphs.

As batch.py does it, but the host looks at the tokens only every ``STRIDE`` steps, since on a GPU a look costs more than a
step. What a row wrote beyond its end, or beyond a token that needs recomputation, is then dropped, which costs nothing but
the steps, because the causal mask hides it. In bf16 a step is taken by fused kernels where the model's parts offer them
(fast_step.py).
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Iterable, Iterator
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
from glassformer.generation.sequence import TokenSequence, window_stride
from glassformer.model import kernels
from glassformer.model.transformer import Transformer

if kernels.AVAILABLE:
    from glassformer.generation.cuda.fast_step import FastStep, position_table
    from glassformer.generation.cuda.kernels.copy_heads import copy_heads
    from glassformer.generation.cuda.kernels.residual import ResidualStream, embed
    from glassformer.generation.cuda.kernels.sample import sample_tokens

STRIDE, WATCHED_STRIDE = 64, 8
"""Steps before the host looks at the tokens: few when somebody waits for them or may end the sequence."""
LENGTH_UNIT = 128
"""A captured step attends to a whole number of these positions, so that few CUDA graphs serve a whole window."""
LATE_STEPS = 16
"""The last steps of a long run: while the device takes them, the host looks at the tokens of those before. Enough of them
for a look at the ids of hundreds of rows, few enough to leave little to look at when all are taken."""
STEPS_PER_GRAPH = 16
"""Fast steps in one CUDA graph."""
NEEDS_RECOMPUTATION = -1
"""Stands for a token that the reference implementation must choose."""
LARGEST_CACHED = 1 << 30
"""Bytes of the largest KV cache that stays with its decoder, and with the CUDA graphs that use it, for the next sequences."""


@dataclass(slots=True)
class _SyncedRow(BatchRow):
    """``synced``: the device knows where the sequence ends."""

    synced: bool = False


def _fetch(block: Tensor) -> Callable[[], Tensor]:
    """Begins to copy to the host. The call it returns waits for the copy, not for what the device was told after it."""
    copy = block.to("cpu", non_blocking=block.is_cuda, copy=True)  # the next run is written into the same block
    if not block.is_cuda:
        return lambda: copy
    copied = torch.cuda.Event()
    copied.record()

    def wait() -> Tensor:
        copied.synchronize()
        return copy

    return wait


def _copy(into_BHTE: Tensor, new_BHTE: Tensor) -> None:
    """Copies whole rows into the cache, by a kernel where there is one."""
    if kernels.usable(new_BHTE) and new_BHTE.stride(-1) == 1:
        copy_heads(into_BHTE, new_BHTE)
    else:
        into_BHTE.copy_(new_BHTE)


@final
class CUDADecoder:
    """A batch of sequences and its state on the device: last id, its position, index of the next id, ids seen."""

    def __init__(self, model: Transformer, sampling: Sampling, *, rows: int, capacity: int) -> None:
        self._model, self.sampling, self.max_rows, self.capacity = ref(model), sampling, rows, capacity
        self.device, self.recompute_unsure = model.embedding.weight.device, rounds_as_float32(model)
        self.cache = model.new_cache(capacity=capacity, rows=rows)
        self.cache.placement.copy = _copy
        self.rows: list[_SyncedRow] = []
        self.ends_4B = torch.zeros(4, rows, dtype=torch.long, device=self.device)
        self.last_B, self.position_B, self.index_B, self.seeds_B = self.ends_4B
        self.scores_BV = torch.zeros(rows, model.dims.vocabulary, device=self.device)
        # A run of steps is at most as long as the window; capturing one, perhaps the last, takes some steps more.
        self.output_tokens_BN = self.last_B.new_zeros(rows, capacity + WARM_UP)
        self.first_B, self.before_B = torch.zeros(2, rows, dtype=torch.long, device=self.device)  # index and last id before it
        self.slack, self.to_compare = torch.tensor(SLACK, device=self.device), COMPARED if self.recompute_unsure else 0
        self.reference_scores: dict[int, Tensor] = {}  # scores by the reference that came with prefill, by row
        self.seen_BV: Tensor | None = None
        if sampling.repetition_penalty != 1.0:
            self.seen_BV = torch.zeros(rows, model.dims.vocabulary, dtype=torch.bool, device=self.device)
        self.fast = FastStep.of(model) if kernels.AVAILABLE else None
        if self.fast is not None:
            self.residual = ResidualStream.empty(rows, model.embedding.weight)
        steps_per_graph = STEPS_PER_GRAPH if self.fast else 1
        self.graphs = CUDAGraphSteps(WeakMethod(self._step), self._state, together=steps_per_graph)

    @property
    def model(self) -> Transformer:
        model = self._model()
        assert model is not None
        return model

    @property
    def _state(self) -> list[Tensor]:
        state = [self.ends_4B.T, self.output_tokens_BN, self.first_B]
        if self.seen_BV is not None:
            state.append(self.seen_BV)
        if self.fast is not None:
            state += [self.residual.x_BD, self.residual.sums_B2P]
        return state

    def reset(self) -> None:
        """As after it was made; the CUDA graphs stay."""
        self.rows, self.reference_scores = [], {}
        self.to_compare = COMPARED if self.recompute_unsure else 0
        self.slack.fill_(SLACK)
        if self.fast:  # it reads nothing of the cache that it has not written for this sequence
            self.fast.refresh()
        else:
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
            for output_tokens_BN in self._run_steps():
                self._accept(output_tokens_BN)

    def _fill_rows(self, waiting: Iterator[_SyncedRow]) -> list[int]:
        """Waiting sequences take the rows of ended ones. The rows that are still running; none when all have ended."""
        for row, new in zip([row for row, one in enumerate(self.rows) if one.ended], waiting):
            self.rows[row] = new
        self.rows += itertools.islice(waiting, self.max_rows - len(self.rows))
        active = self._active
        # Another number of rows needs another CUDA graph: worth it only when the batch has become half as large.
        if len(active) <= len(self.rows) // 2:
            late = [row for row in active if row >= len(active)]  # they take the free places, so that few rows move
            self._keep_rows([late.pop() if self.rows[row].ended else row for row in range(len(active))])
        return self._active

    def _keep_rows(self, order: list[int]) -> None:
        if order != list(range(len(order))):
            rows_B = self._on_device(order)
            self.cache.keep_rows(rows_B)
            for state in self._state:
                state[: len(order)] = state[rows_B]
        self.rows = [self.rows[row] for row in order]

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
            count = self._rows_in_a_pass(length)
            together, waiting = waiting[:count], waiting[count:]
            if length > 0:
                padded: list[int] = []
                for sequence in (self.rows[row].sequence for row in together):
                    padded += sequence.ids[sequence.start : -1]
                    padded += [0] * (length - sequence.window_length + 1)
                in_order = together == list(range(len(together)))
                at_rows = slice(len(together)) if in_order else self._on_device(together)
                self._read_windows(at_rows, self._on_device(padded).view(-1, length))
        for row in rows:
            self.rows[row].start, self.rows[row].synced = self.rows[row].sequence.start, False

    def _rows_in_a_pass(self, length: int) -> int:
        return max(1, PREFILL_TOKENS.get(self.device.type, 1 << 12) // max(1, length))

    def _read_windows(self, rows: Tensor | slice, ids_BT: Tensor) -> None:
        self.cache.place_whole(rows)
        if self.fast is not None:
            self.fast.prefill(self.model, ids_BT, self.cache)
        else:
            self.model.features(ids_BT, cache=self.cache)

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

    def _run_steps(self) -> Iterator[Tensor]:
        """The next ids of every row on the host, [B, N], ``NEEDS_RECOMPUTATION`` where the reference decides. While the device
        takes a run of steps, the host looks at the ids before: of a long run at the first of them, and where all rows come to
        the end of their windows at once, and nothing else can come between, at those of the window before."""
        sequences = [self.rows[row].sequence for row in self._active]
        ends = [min(sequence.remaining, sequence.room) for sequence in sequences]
        stride = WATCHED_STRIDE if sequences[0].watched else STRIDE
        steps = 1 if self.reference_scores else min(stride, max(ends))
        if self.fast is not None and not sequences[0].watched:  # nothing but an end can come between: no look before the first
            steps = max(steps, min(ends))
        remaining = min(sequence.remaining for sequence in sequences) - steps
        on_the_way = self._begin_run(steps, max(sequence.window_length for sequence in sequences), in_two=steps <= min(ends))
        sure = not (self.recompute_unsure or sequences[0].watched) and len(sequences) == len(self.rows)
        all_move, room = sure and {sequence.room for sequence in sequences} == {steps}, window_stride(self.model.dims.context)
        while remaining > 0 and all_move and self._move_windows(steps):
            steps, all_move = min(room, remaining), room <= remaining
            following = self._begin_run(steps, self.model.dims.context - room + 1, in_two=True)
            for fetched in on_the_way:
                yield fetched()
            for one in self.rows:
                one.start = one.sequence.start if one.synced else -1  # what a recomputed row wrote since is not its sequence
            on_the_way, remaining = following, remaining - steps
            all_move = all_move and all(one.synced for one in self.rows)
        for fetched in on_the_way:
            yield fetched()

    def _begin_run(self, steps: int, seen: int, *, in_two: bool) -> list[Callable[[], Tensor]]:
        """Lets the device take steps from windows of up to ``seen`` ids. The calls give the rows' tokens, of a long run
        first those of the first steps; not where a row may come to its end before the others, since what it says
        after that is nothing to look at."""
        self.first_B.copy_(self.index_B)
        self.before_B.copy_(self.last_B)
        if self.fast is not None and self.sampling.unfiltered:
            self._embed(len(self.rows))
        length, output_tokens_BN = self._length(seen, steps), self.output_tokens_BN[: len(self.rows), :steps]
        long = not self.recompute_unsure and in_two and steps >= 2 * LATE_STEPS
        pieces = []
        for begin, end in itertools.pairwise([0, steps - LATE_STEPS, steps] if long else [0, steps]):
            self.graphs(len(self.rows), length, end - begin)
            pieces.append(_fetch(output_tokens_BN[:, begin:end]))
        return pieces

    def _move_windows(self, steps: int) -> bool:
        """Reads the next window of every row from what the device has just written, if it holds all of it."""
        context, rows = self.model.dims.context, len(self.rows)
        length = context - window_stride(context)  # of the ids before the last one
        if length > steps:
            return False
        written_BN = torch.cat([self.before_B[:rows].unsqueeze(1), self.output_tokens_BN[:rows, :steps]], dim=1)
        windows_BT = written_BN[:, steps - length : steps].clamp(min=0)  # NEEDS_RECOMPUTATION is no id
        count = self._rows_in_a_pass(length)
        for begin in range(0, rows if length > 0 else 0, count):
            at_rows = slice(begin, min(begin + count, rows))
            self._read_windows(at_rows, windows_BT[at_rows])
        self.position_B[:rows] = length
        return True

    def _length(self, seen: int, steps: int) -> int:
        """How many positions of the cache the next steps attend to."""
        if self.fast is not None:  # it reads no further than each row has come, whatever the length
            return self.capacity
        return min(-(-(seen + steps - 1) // LENGTH_UNIT) * LENGTH_UNIT, self.capacity)

    def _step(self, rows: int, length: int) -> None:
        """One token for each of the first ``rows`` rows, written into ``output_tokens_BN``. The shapes follow."""
        last_B, position_B, scores_BV = self.last_B[:rows], self.position_B[:rows], self.scores_BV[:rows]
        if self.fast is not None:
            if not self.sampling.unfiltered:  # sampling puts the next id there itself
                self._embed(rows)
            self.fast.compute_scores(scores_BV, self.residual.first(rows), position_B, self.cache)
        else:
            position_ids_B1 = position_B.unsqueeze(1)
            self.cache.place(position_ids_B1, length)
            scores_BV.copy_(self.model(last_B.unsqueeze(1), position_ids_BT=position_ids_B1, cache=self.cache)[:, -1])
        if self.fast is not None and self.sampling.unfiltered:
            sample_tokens(
                self.residual.first(rows),
                scores_BV,
                table_VD=self.model.embedding.weight,
                position_table_TD=position_table(self.model.positions),
                temperature=self.sampling.temperature,
                seeds_B=self.seeds_B,
                index_B=self.index_B,
                last_B=last_B,
                position_B=position_B,
                first_B=self.first_B,
                output_tokens_BN=self.output_tokens_BN,
                last_position=self.capacity - 1,
                needs_recomputation=NEEDS_RECOMPUTATION,
            )
        else:
            self._choose(rows)

    def _embed(self, rows: int) -> None:
        """Puts the last ids into the residual stream."""
        model, last_B, position_B = self.model, self.last_B[:rows], self.position_B[:rows]
        embed(self.residual.first(rows), last_B, model.embedding.weight, position_B, position_table(model.positions))

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
        """Takes the rows' tokens; not of a row whose sequence went another way in the meantime."""
        # numpy: faster than each row's list, and it wakes no threads
        recompute_B = (output_tokens_BN.numpy() == NEEDS_RECOMPUTATION).any(axis=1)
        for row, (one, tokens, recompute) in enumerate(zip(self.rows, output_tokens_BN.tolist(), recompute_B.tolist())):
            if not one.synced:
                continue
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
