"""The plain path with a KV cache gives the reference's ids, whatever the batch, the close calls and the rows that move."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import Diverged
from glassformer.generation import batch
from glassformer.generation.batch import CAUTION, COMPARED, SLACK, BatchDecoder, learn_rounding, modules_of, rounds_as_float32
from glassformer.generation.reference import next_scores
from glassformer.generation.sampling import Sampling
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

VOCABULARY, CONTEXT = 23, 18
SAMPLINGS = [Sampling(temperature=0), Sampling(), Sampling(temperature=0.8, top_k=7, top_p=0.9, repetition_penalty=1.2)]


def run(model, sequences, sampling, *, rows=4, capacity=CONTEXT) -> list[list[int]]:
    with torch.no_grad():
        BatchDecoder(model, sampling, rows=rows, capacity=capacity).run(sequences)
    return [sequence.new_ids for sequence in sequences]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("rows", [1, 4, 11])
def test_gives_the_ids_of_the_reference(model, make_sequences, by_reference, sampling, rows):
    expected = by_reference(model, make_sequences(11), sampling)
    assert run(model, make_sequences(11), sampling, rows=rows) == expected
    assert len({tuple(new) for new in expected}) == 11  # no two alike, or the test could not see a swap


def test_sequences_that_end_early_leave_and_others_take_their_rows(model, make_sequences, by_reference):
    rules = {"stop_ids": {3}, "stop": lambda row, new: row % 3 == 0 and len(new) == 9}
    expected, found = make_sequences(11, **rules), make_sequences(11, **rules)
    by_reference(model, expected, Sampling())
    run(model, found, Sampling(), rows=5)
    assert [(one.new_ids, one.reason) for one in found] == [(one.new_ids, one.reason) for one in expected]
    assert {one.reason for one in found} == {"length", "stop id", "stop"}


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_close_calls_are_made_by_the_reference(model, make_sequences, by_reference, monkeypatch, sampling):
    """With a slack so large that many choices are not sure, the ids stay the same."""
    expected, asked = by_reference(model, make_sequences(5), sampling), []
    monkeypatch.setattr(batch, "SLACK", 0.02)
    monkeypatch.setattr(batch, "next_scores", lambda *arguments: asked.append(1) or next_scores(*arguments))
    assert run(model, make_sequences(5), sampling) == expected
    assert len(asked) > 5 + COMPARED


def test_equal_scores_are_decided_by_the_reference(make_sequences, by_reference):
    """Two tokens with the same vector always tie: no rounding may decide between them."""
    twins = build_model(ModelConfig(width=24, layers=1, heads=3, context=CONTEXT), VOCABULARY, seed=2).eval()
    with torch.no_grad():
        twins.embedding.weight[4] = twins.embedding.weight[9] = 3 * twins.embedding.weight[4]
    for sampling in SAMPLINGS:
        expected = by_reference(twins, make_sequences(6, new=9), sampling)
        assert run(twins, make_sequences(6, new=9), sampling) == expected


def test_a_cache_no_longer_than_the_sequences_is_enough(model, make_sequences, by_reference):
    expected = by_reference(model, make_sequences(3, new=2)[:1], Sampling())
    assert run(model, make_sequences(3, new=2)[:1], Sampling(), rows=1, capacity=3) == expected


def test_scores_that_are_no_numbers_end_with_a_sentence(make_sequences):
    broken = build_model(ModelConfig(width=12, layers=1, heads=2, context=CONTEXT), VOCABULARY, seed=1)
    with torch.no_grad():
        broken.embedding.weight[:] = float("nan")
    for sampling in SAMPLINGS:
        with refused(Diverged, "scores-not-finite"):
            run(broken, make_sequences(2), sampling)


@pytest.mark.parametrize("merge", ["reweight", "reweight_sequence"])
def test_a_model_whose_cache_cannot_be_right_is_run_by_the_reference(loud_model, make_sequences, by_reference, merge):
    """Such a merge looks at the whole sequence, so a step with a cache gives something else: the comparison notices."""
    leaky = loud_model(VOCABULARY, seed=4, width=24, heads=3, context=CONTEXT, merge=merge)
    expected = by_reference(leaky, make_sequences(4, new=9), Sampling())
    assert run(leaky, make_sequences(4, new=9), Sampling()) == expected


def test_exactness_is_promised_for_float32_only(model):
    assert rounds_as_float32(model)
    assert rounds_as_float32(build_model(ModelConfig(width=4, heads=1), 5, seed=1).double())
    assert not rounds_as_float32(build_model(ModelConfig(width=4, heads=1), 5, seed=1).bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not rounds_as_float32(model)


def test_the_slack_follows_the_largest_difference_seen():
    slack = torch.tensor(SLACK)
    learn_rounding(slack, torch.tensor([[1.0, -4.0]]), torch.tensor([1.0, -4.0 + 4e-7]))
    assert float(slack) == pytest.approx(SLACK)
    learn_rounding(slack, torch.tensor([[1.0, -4.0]]), torch.tensor([1.001, -4.0]))
    assert float(slack) == pytest.approx(CAUTION * 0.001 / 4, rel=1e-3)
    learn_rounding(slack, torch.tensor([[1.0, -4.0]]), torch.tensor([1.0, -4.0]))
    assert float(slack) == pytest.approx(CAUTION * 0.001 / 4, rel=1e-3)


def test_a_recurrent_mixer_brings_its_own_cache(loud_model, recurrent_mixers, make_sequences, by_reference):
    """Rows of different lengths, windows that move, rows that change place: with state instead of keys and values."""
    recurrent = recurrent_mixers(loud_model(VOCABULARY, width=24, heads=3, context=CONTEXT))
    assert not recurrent.new_cache().rewinds
    expected = by_reference(recurrent, make_sequences(7), Sampling())
    assert run(recurrent, make_sequences(7), Sampling(), rows=3) == expected
    decided = BatchDecoder(recurrent, Sampling(), rows=3, capacity=CONTEXT)
    decided.run(make_sequences(7))
    assert float(decided.slack) < 1e-3  # the two ways agree: the ids did not come from the reference alone


def test_rows_are_independent_of_their_neighbours(model, make_sequences):
    together = run(model, make_sequences(6), Sampling(), rows=6)
    alone = [run(model, [one], Sampling(), rows=1)[0] for one in make_sequences(6)]
    assert together == alone


def test_modules_of_a_model_are_those_torch_knows():
    class Empty(torch.nn.Dropout):
        def __len__(self) -> int:  # such a module is false
            return 0

    inner = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.ReLU()))
    inner.register_module("nothing", None)
    model = torch.nn.ModuleDict({"one": inner, "two": Empty()})
    assert {id(module) for module in modules_of(model)} == {id(module) for module in model.modules()}
    assert len(modules_of(model)) == 6
