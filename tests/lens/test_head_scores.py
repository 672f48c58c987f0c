"""Head scores: heads made by hand are found, and ranked above all others."""

from __future__ import annotations

import numpy as np
import torch

from glassformer.lens.head_scores import head_scores, repeated_rows
from glassformer.lens.places import Places


def test_a_planted_induction_head_is_above_all_others(planted) -> None:
    found = head_scores(Places(planted))
    assert found is not None
    assert found.induction is not None
    assert found.copying is not None
    assert np.unravel_index(found.induction.argmax(), found.induction.shape) == (1, 2)
    assert found.induction[1, 2] > 0.9  # the first token has no other before it, and takes itself for that
    assert np.sort(found.induction.ravel())[-2] < 0.2
    assert np.unravel_index(found.copying.argmax(), found.copying.shape) == (1, 2)


def test_a_planted_previous_token_head(planted) -> None:
    found = head_scores(Places(planted))
    assert found is not None
    assert (found.previous[:, 1] > 0.99).all()  # the bias of distances is shared by the layers
    assert found.previous[:, [0, 2]].max() < 0.2


def test_the_planted_network_continues_a_repeated_text(planted) -> None:
    ids = torch.tensor([[3, 7, 1, 9, 3, 7, 1, 9, 3]])
    with torch.no_grad():
        assert planted(ids)[0, 5:].argmax(dim=-1).tolist() == [1, 9, 3, 7]


def test_rows_repeat_and_no_stretch_has_a_token_twice(planted) -> None:
    rows, stretch = repeated_rows(Places(planted), avoid=frozenset({0, 5}))
    assert stretch == 9
    assert torch.equal(rows[:, :stretch], rows[:, stretch:])
    assert all(len(set(row.tolist())) == stretch and not {0, 5} & set(row.tolist()) for row in rows)


def test_no_meaning_no_score(network_of) -> None:
    encoder = head_scores(Places(network_of(causal=False)))
    assert encoder is not None
    assert encoder.induction is None
    assert encoder.copying is None
    assert head_scores(Places(network_of(mixer="none", positions="none"))) is None
