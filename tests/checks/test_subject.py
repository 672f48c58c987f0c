"""Subjects: what a function uses is found, sizes are stated or tried, our cache reads as generation does."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from tests.refusals import refused
from torch import Tensor, nn

from glassformer.checks.subject import Probes, Subject, callable_subject, our_subject, scores_in
from glassformer.foundation.errors import UsageError
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

GLOBAL = nn.Embedding(7, 5)


def uses_a_global(ids_BT: Tensor) -> Tensor:
    return GLOBAL(ids_BT)


class Callable:
    vocabulary, context = 6, 4

    def __init__(self) -> None:
        self.inner = nn.Embedding(6, 3)

    def __call__(self, ids_BT: Tensor) -> Tensor:
        return self.inner(ids_BT)

    def method(self, ids_BT: Tensor) -> Tensor:
        return self.inner(ids_BT)


def test_modules_are_found_in_globals_closures_partials_and_objects() -> None:
    local = nn.Embedding(7, 5)

    def closure(ids_BT: Tensor) -> Tensor:
        return local(ids_BT)

    def with_argument(module: nn.Module, ids_BT: Tensor) -> Tensor:
        return module(ids_BT)

    sizes = {"vocabulary": 5, "context": 4}
    assert list(callable_subject(uses_a_global, **sizes).modules) == ["GLOBAL"]
    assert list(callable_subject(closure, **sizes).modules) == ["local"]
    assert list(callable_subject(functools.partial(with_argument, local), **sizes).modules) == ["arg0"]
    assert list(callable_subject(Callable(), **sizes).modules) == ["inner"]


def test_sizes_are_stated_or_found_by_trying() -> None:
    stated = callable_subject(Callable())
    assert (stated.vocabulary, stated.context) == (6, 4)

    def needs_place(ids_BT: Tensor) -> Tensor:
        return torch.eye(5)[ids_BT] + torch.zeros(37, 5)[torch.arange(ids_BT.shape[1])]

    tried = callable_subject(needs_place)
    assert (tried.vocabulary, tried.context) == (5, 37)
    assert callable_subject(lambda ids_BT: torch.eye(5)[ids_BT]).context == 256
    assert callable_subject(needs_place, vocabulary=3, context=9).context == 9


def test_what_does_not_run_is_refused_with_a_sentence() -> None:
    def refuses(ids_BT: Tensor) -> Tensor:
        raise RuntimeError

    with refused(UsageError, "does-not-run", "refuses", "[1, 2]"):
        callable_subject(refuses)
    with refused(UsageError, "too-small-to-check", "vocabulary of 1"):
        callable_subject(uses_a_global, vocabulary=1, context=5)


def test_scores_are_found_in_what_models_give() -> None:
    scores = torch.zeros(2, 3, 4)

    class Output:
        logits = scores

    assert scores_in(Output()) is not None
    assert scores_in((scores, "state")).shape == (2, 3, 4)
    assert scores_in({"loss": 0.0, "logits": scores}).shape == (2, 3, 4)
    assert scores_in(torch.zeros(2, 3, 4, 5)).shape == (2, 3, 20)
    for wrong in ("text", torch.zeros(2, 3, dtype=torch.long)):
        with refused(UsageError, "no-scores"):
            scores_in(wrong)
    with refused(UsageError, "one-number-per-token"):
        scores_in(torch.zeros(2, 3))


def test_our_cache_reads_rows_of_unequal_length_in_pieces() -> None:
    config: dict[str, Any] = {"width": 12, "heads": 3, "layers": 2, "context": 9}
    model = build_model(ModelConfig.parse(config), 11, seed=1).double().eval()
    subject = our_subject(model)
    assert subject.ragged
    assert subject.new_cache is not None
    ids_BT = torch.randint(11, (2, 9), generator=torch.Generator().manual_seed(0))
    cache = subject.new_cache()
    cache.read(ids_BT[:, :5], [5, 2])
    step_BT = torch.stack([ids_BT[0, 5:7], ids_BT[1, 2:4]])
    read = cache.read(step_BT)
    torch.testing.assert_close(read[0], model(ids_BT[:1, :7])[0, 5:])
    torch.testing.assert_close(read[1], model(ids_BT[1:, :4])[0, 2:])


def test_an_encoder_has_no_cache() -> None:
    config = ModelConfig.parse({"width": 12, "heads": 3, "layers": 1, "context": 5, "causal": False})
    subject = our_subject(build_model(config, 7, seed=1))
    assert subject.new_cache is None
    assert set(subject.paddings) == {"right", "anywhere"}


def probes(*, vocabulary: int = 7, context: int = 100, quick: bool = True, reserved: frozenset[int] = frozenset()) -> Probes:
    subject = Subject("it", lambda ids_BT: ids_BT.float(), {}, vocabulary=vocabulary, context=context)
    subject.reserved_ids = reserved
    return Probes(subject, quick=quick)


def test_rows_use_every_id_but_reserved_ones_and_end_with_a_constant_row() -> None:
    ids_BT = probes(reserved=frozenset({0, 3})).rows(5, 60)
    assert set(ids_BT.unique().tolist()) == {1, 2, 4, 5, 6}
    assert len(ids_BT[-1].unique()) == 1


@pytest.mark.parametrize("vocabulary", [2, 7])
def test_others_differ_everywhere(vocabulary: int) -> None:
    some = probes(vocabulary=vocabulary)
    ids_BT = some.rows(4, 50)
    assert (some.others(ids_BT) != ids_BT).all()


def test_changed_from_keeps_the_past_and_changes_all_of_the_future() -> None:
    some = probes()
    ids_BT = some.rows(3, 9)
    changed_BT = some.changed_from(ids_BT, torch.tensor([1, 8, 5]))
    assert (changed_BT == ids_BT).sum(1).tolist() == [1, 8, 5]
    assert (changed_BT == ids_BT)[2].tolist() == [True] * 5 + [False] * 4


def test_cuts_always_hold_the_last_and_the_first() -> None:
    for length in (2, 3, 17, 100, 1000):
        cuts = probes().cuts(length, wanted=4)
        assert {1, length - 1} <= set(cuts)
        assert length - 1 in probes().cuts(length, wanted=1)
        assert all(1 <= cut < length for cut in cuts)
        assert len(cuts) == len(set(cuts))
    assert probes().cuts(13) == list(range(1, 13))
    assert len(probes().cuts(100, wanted=20)) == 20
    assert probes(quick=False).cuts(100, wanted=4) == list(range(1, 100))


def test_a_large_model_is_cut_at_the_ends_and_the_middle_only() -> None:
    subject = Subject("it", lambda ids_BT: ids_BT.float(), {"": torch.nn.Linear(3000, 1000)}, vocabulary=7, context=4096)
    huge = Probes(subject)
    huge.subject.modules[""].weight = torch.nn.Parameter(torch.empty(30000, 3000, device="meta"))
    assert huge.heavy
    assert huge.cuts(4096) == [1, 2048, 4095]
    assert huge.cuts(4096, wanted=8) == [1, 2048, 4095]
    assert huge.cuts(4096, wanted=4) == [1, 4095]


def test_lengths_stay_below_the_context() -> None:
    assert probes(context=100).long_lengths() == [51, 99]
    assert probes(context=2).long_lengths() == []


def test_rows_at_once_fit_in_memory() -> None:
    assert probes(vocabulary=50_000, context=1024).rows_at_once(1024) == 1
    assert probes().rows_at_once(128) == 128


def test_same_seed_same_probes() -> None:
    assert torch.equal(probes().rows(3, 8), probes().rows(3, 8))
