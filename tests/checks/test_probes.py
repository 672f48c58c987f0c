"""Probes: changes change everything they should and nothing else; the last cut is always made."""

from __future__ import annotations

import pytest
import torch

from glassformer.checks.subject import SHORT, Probes, Subject


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
    assert probes(context=5).short_lengths() == [2, 3]
    assert probes(context=100).short_lengths() == list(SHORT)
    assert probes(context=100).long_lengths() == [51, 99]
    assert probes(context=2).long_lengths() == []


def test_rows_at_once_fit_in_memory() -> None:
    assert probes(vocabulary=50_000, context=1024).rows_at_once(1024) == 1
    assert probes().rows_at_once(128) == 128


def test_same_seed_same_probes() -> None:
    assert torch.equal(probes().rows(3, 8), probes().rows(3, 8))
