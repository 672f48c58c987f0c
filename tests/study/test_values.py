"""A study is judged again from its values alone."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from glassformer.foundation.errors import RunError
from glassformer.study.evidence import Problem, Trials
from glassformer.study.study import Study
from glassformer.study.values import read_values, write_values

GOOD = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98]


def test_values_come_back_to_the_last_bit(tmp_path):
    values = np.random.default_rng(0).normal(size=(3, 5))
    values[1] = np.nan
    trials = {"base": Trials("base", values, {1: Problem.DIVERGED}), "late": Trials("late", np.empty((0, 5)), exploratory=True)}
    write_values(tmp_path / "values.json", trials, np.arange(5.0), blocks=True, metric="loss")
    back, weights, blocks = read_values(tmp_path / "values.json")
    np.testing.assert_array_equal(back["base"].values, values)
    assert back["base"].problems == {1: Problem.DIVERGED}
    assert back["late"].values.shape == (0, 5)
    assert back["late"].exploratory
    assert blocks
    np.testing.assert_array_equal(weights, np.arange(5.0))


def test_a_study_without_its_trials_says_the_same(made_up, tmp_path):
    study = made_up.study(tmp_path / "study", {"base": [one + 0.5 for one in GOOD], "alibi": GOOD, "rotary": GOOD[::-1]})
    said = [verdict.to_dict() for verdict in study.verdicts]
    study.write()
    shutil.rmtree(tmp_path / "study" / "trials")
    assert [verdict.to_dict() for verdict in Study.load(tmp_path / "study").verdicts] == said


def test_damage_is_a_sentence(tmp_path):
    (tmp_path / "values.json").write_text("[]")
    with pytest.raises(RunError, match="cannot be read as the values of a study"):
        read_values(tmp_path / "values.json")
