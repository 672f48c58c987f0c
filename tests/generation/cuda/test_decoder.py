"""The CUDA decoder gives the reference's ids, whatever the batch, the stride, the close calls and the windows that move."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import Diverged
from glassformer.generation.cuda import decoder
from glassformer.generation.cuda.decoder import NEEDS_RECOMPUTATION, CUDADecoder
from glassformer.generation.cuda.graphs import WARM_UP
from glassformer.generation.sampling import Sampling
from glassformer.generation.sequence import TokenSequence
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

VOCABULARY, CONTEXT = 23, 18
SAMPLINGS = [Sampling(temperature=0), Sampling(), Sampling(temperature=0.8, top_k=7, top_p=0.9, repetition_penalty=1.2)]
pytestmark = pytest.mark.usefixtures("eager")


@pytest.fixture
def run(monkeypatch):
    def run(model, sequences, sampling, *, rows=4, stride=5) -> list[list[int]]:
        monkeypatch.setattr(decoder, "STRIDE", stride)
        monkeypatch.setattr(decoder, "WATCHED_STRIDE", stride)
        monkeypatch.setattr(decoder, "LENGTH_UNIT", 8)
        with torch.no_grad():
            CUDADecoder(model, sampling, rows=rows, capacity=min(CONTEXT, model.dims.context)).run(sequences)
        return [sequence.new_ids for sequence in sequences]

    return run


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize(("rows", "stride"), [(1, 1), (4, 7), (11, 5)])
def test_gives_the_ids_of_the_reference(model, make_sequences, by_reference, run, sampling, rows, stride):
    expected = by_reference(model, make_sequences(11), sampling)
    assert run(model, make_sequences(11), sampling, rows=rows, stride=stride) == expected


@pytest.mark.parametrize("stride", [1, 6])
def test_sequences_that_end_early_leave_and_others_take_their_rows(model, make_sequences, by_reference, run, stride):
    rules = {"stop_ids": {3}, "stop": lambda row, new: row % 3 == 0 and len(new) == 9}
    expected, found = make_sequences(11, **rules), make_sequences(11, **rules)
    by_reference(model, expected, Sampling())
    run(model, found, Sampling(), rows=5, stride=stride)
    assert [(one.new_ids, one.reason) for one in found] == [(one.new_ids, one.reason) for one in expected]
    assert {one.reason for one in found} == {"length", "stop id", "stop"}


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_close_calls_are_made_by_the_reference(model, make_sequences, by_reference, run, monkeypatch, sampling):
    """With a slack so large that many choices are not sure, rows are often taken back; the ids stay the same."""
    expected = by_reference(model, make_sequences(5), sampling)
    monkeypatch.setattr(decoder, "SLACK", 0.02)
    assert run(model, make_sequences(5), sampling, stride=6) == expected


def test_scores_that_are_no_numbers_end_with_a_sentence(make_sequences, run):
    broken = build_model(ModelConfig(width=12, layers=1, heads=2, context=CONTEXT), VOCABULARY, seed=1)
    with torch.no_grad():
        broken.embedding.weight[:] = float("nan")
    with refused(Diverged, "scores-not-finite"):
        run(broken, make_sequences(2), Sampling())


@pytest.fixture
def long_runs(monkeypatch):
    """As in bf16: only scores that are no numbers need recomputation."""
    monkeypatch.setattr(decoder, "rounds_as_float32", lambda model: False)


def sequences_of_one_length(number: int) -> list[TokenSequence]:
    return [
        TokenSequence(prompt_index=row, ids=[row, row + 1], seed=7 + row, context=CONTEXT, max_new_tokens=45 + row % 2)
        for row in range(number)
    ]


@pytest.mark.parametrize("pass_tokens", [1 << 12, 2 * (CONTEXT // 2)])
def test_windows_that_move_on_are_read_in_one_pass_or_several(model, by_reference, run, long_runs, monkeypatch, pass_tokens):
    monkeypatch.setattr(decoder, "PREFILL_TOKENS", {"cpu": pass_tokens})
    expected = by_reference(model, sequences_of_one_length(5), Sampling())
    assert run(model, sequences_of_one_length(5), Sampling(), rows=5, stride=CONTEXT) == expected


@pytest.mark.parametrize("context", [1, 2, 3, CONTEXT - 1, CONTEXT])
@pytest.mark.parametrize("prompt", [1, 5, CONTEXT])
def test_windows_of_every_size_move_on(by_reference, run, long_runs, context, prompt):
    model = build_model(ModelConfig(width=12, layers=1, heads=3, context=context), VOCABULARY, seed=1).eval()

    def sequences() -> list[TokenSequence]:
        ids = [[(3 * row + at) % VOCABULARY for at in range(prompt)] for row in range(3)]
        return [TokenSequence(prompt_index=row, ids=ids[row], seed=row, context=context, max_new_tokens=40) for row in range(3)]

    expected = by_reference(model, sequences(), Sampling())
    assert run(model, sequences(), Sampling(), rows=3, stride=CONTEXT) == expected


@pytest.mark.parametrize("close_calls", [[5], [5, 16], [16], [2, 25], [17, 26], [30, 44]])
def test_what_follows_a_recomputed_token_is_dropped(model, by_reference, run, long_runs, monkeypatch, close_calls):
    """Row 1 needs recomputation at those of its ids; what it generates next is wrong, and so is the rest of the run."""
    choose_all = CUDADecoder._choose

    def fail(self, rows):
        choose_all(self, rows)
        index, first = int(self.index_B[1]) - 1, int(self.first_B[1])
        if index in close_calls and rows > 1:
            self.output_tokens_BN[1, index - first] = NEEDS_RECOMPUTATION
            self.last_B[1] = (self.last_B[1] + 1) % VOCABULARY

    monkeypatch.setattr(CUDADecoder, "_choose", fail)
    expected = by_reference(model, sequences_of_one_length(3), Sampling())
    assert run(model, sequences_of_one_length(3), Sampling(), rows=3, stride=CONTEXT) == expected


@pytest.mark.parametrize("context", [1, 4])
def test_steps_taken_while_the_last_one_is_captured_have_room(context):
    model = build_model(ModelConfig(width=12, layers=1, heads=3, context=context), VOCABULARY, seed=1).eval()
    one, steps = CUDADecoder(model, Sampling(), rows=2, capacity=context), context - 1 + WARM_UP
    with torch.no_grad():
        for _ in range(steps):
            one._step(2, context)
    assert one.index_B.tolist() == [steps, steps]
