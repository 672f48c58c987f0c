"""Several sets: what cannot be put together is refused before the first run, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.foundation.errors import ConfigError, UnknownName, UsageError
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.study.compare_sets import compare_sets

VARY = {"model.positions": ["none"]}


@pytest.fixture
def mine(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(dump_yaml(recipe))
    return recipe


def refusal(sources, error, vary=VARY, **more):
    """The sentence with which the sources are refused; nothing is written."""
    with pytest.raises(error) as refused:
        compare_sets(sources, vary, on="inline", seeds=2, **more)
    assert not Path("studies").exists()
    return str(refused.value)


def test_a_second_recipe_that_is_not_there(mine):
    assert "no built-in recipe or plan 'nosuch'" in refusal(["mine.yaml", "nosuch"], UnknownName)


def test_one_set_or_the_same_one_twice(mine):
    assert "two recipes or more" in refusal(["mine.yaml"], UsageError)
    assert "mine-1 and mine-2 are the same recipe on the same data" in refusal(["mine.yaml", "mine.yaml"], ConfigError)


def test_a_change_that_one_of_them_has_already(mine):
    other = {**mine, "model": {**mine["model"], "positions": "alibi"}}
    assert "changes must be the same on every set" in refusal(
        [mine, other], ConfigError, {"model.positions": ["alibi", "none"]}
    )


def test_plans_with_other_margins(mine):
    plan = {"base": mine, "changes": [{"name": "none", "set": {"model.positions": "none"}}]}
    wider = {**plan, "margin": 0.5, "set": {"training.lr": 0.1}}
    assert "margin must be the same on every set: set-1 has 0.01, and set-2 has 0.5" in refusal(
        [plan, wider], ConfigError, None
    )
