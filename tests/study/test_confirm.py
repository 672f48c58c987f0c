"""A confirmation: the winner, once, on fresh seeds and unseen text, planned before it runs."""

from __future__ import annotations

import pytest

from glassformer.foundation.errors import ConfigError, UsageError
from glassformer.study.compare import compare
from glassformer.study.confirm import confirmation, winner

GOOD = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98]


def test_the_winner_is_run_on_fresh_seeds_and_on_the_test_text(made_up, tmp_path):
    losses = {"base": [1.5 + 0.1 * one for one in GOOD], "alibi": [1.4 + 0.1 * one for one in GOOD], "rotary": GOOD}
    study = made_up.study(tmp_path / "found", losses)
    assert winner(study).variant == "rotary"
    plan, folder = confirmation(study)
    assert [change.name for change in plan.changes] == ["rotary"]
    assert (plan.split, plan.first_seed, plan.confirms) == ("test", 6, str(tmp_path / "found"))
    assert folder == tmp_path / "found-confirmed"
    assert plan.all_looks == study.plan.all_looks
    assert plan.same_within == study.plan.same_within


def test_a_study_without_a_winner_has_nothing_to_confirm(made_up, tmp_path):
    study = made_up.study(tmp_path / "none", {"base": GOOD, "alibi": [one + 1.0 for one in GOOD]})
    with pytest.raises(UsageError, match="found no change better"):
        confirmation(study)


def test_a_confirmation_is_not_confirmed_again(made_up, tmp_path):
    study = made_up.study(tmp_path / "found", {"base": [one + 0.5 for one in GOOD], "alibi": GOOD}, split="test")
    with pytest.raises(ConfigError, match="judged on test"):
        confirmation(study)


def test_it_takes_no_recipe_beside_it(tmp_path):
    with pytest.raises(UsageError, match="--confirm names the study"):
        compare("docstrings-char", confirm=tmp_path)
    with pytest.raises(UsageError, match="Nothing to compare"):
        compare(None)
