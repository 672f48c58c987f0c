"""A confirmation: the winner, once, on fresh seeds and unseen text, planned before it runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError, GlassformerError, UsageError
from glassformer.study.compare import compare
from glassformer.study.planning.planned_study import confirmation, winner
from glassformer.study.planning.variant_facts import VariantBook
from glassformer.study.study import Study

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


def test_seeds_are_fresh_for_the_baseline_too(made_up, tmp_path):
    losses = {"base": [1.5 + 0.1 * GOOD[at % 6] for at in range(20)], "rotary": GOOD}
    study = made_up.study(tmp_path / "found", losses, design="bank", bank=list(range(20)))
    assert confirmation(study)[0].first_seed == 20


def test_what_the_baseline_tuned_is_not_given_to_a_change_that_tuned_something_else(made_up, tmp_path):
    """The winner chose among decays at the recipe's own rate, the baseline among rates: each is confirmed as it was judged."""
    base = {"data": {"path": "letters.txt"}, "model": {"positions": "learned", "width": 12}, "training": {"lr": 0.1}}
    changes = [{"name": "alibi", "set": {"model.positions": "alibi"}, "tune": {"training.weight_decay": [0.1, 0.2]}}]
    tune = {"grid": {"training.lr": [0.1, 0.2]}, "seeds": 2}
    losses = {"base": [1.5 + 0.1 * one for one in GOOD], "alibi": GOOD}
    study = made_up.study(tmp_path / "found", losses, base=base, changes=changes, tune=tune)
    tuned = {"base": {"training.lr": 0.2}, "alibi": {"training.weight_decay": 0.1}}
    facts = {name: replace(one, tuned=tuned[name]) for name, one in study.book.variants.items()}
    VariantBook(facts).write(study.directory.variants_file)
    plan, _ = confirmation(Study.load(study.folder))
    assert plan.settings("base")["training.lr"] == 0.2
    assert plan.settings("alibi") == {"model.positions": "alibi", "training.lr": 0.1, "training.weight_decay": 0.1}


def test_a_study_without_a_winner_has_nothing_to_confirm(made_up, tmp_path):
    study = made_up.study(tmp_path / "none", {"base": GOOD, "alibi": [one + 1.0 for one in GOOD]})
    with refused(UsageError, "nothing-to-confirm"):
        confirmation(study)


def test_a_confirmation_is_not_confirmed_again(made_up, tmp_path):
    study = made_up.study(tmp_path / "found", {"base": [one + 0.5 for one in GOOD], "alibi": GOOD}, split="test")
    with refused(ConfigError, "split-seen-before"):
        confirmation(study)


def test_it_takes_nothing_beside_it(tmp_path):
    with refused(UsageError, "settings-beside-confirm"):
        compare(None, confirm=tmp_path, margin=0.2)
    with refused(UsageError, "settings-beside-confirm"):
        compare(None, confirm=tmp_path, out=tmp_path / "elsewhere")
    with refused(UsageError, "recipe-beside-confirm"):
        compare("docstrings-char", confirm=tmp_path)
    with refused(UsageError, "nothing-to-compare"):
        compare(None)


@pytest.fixture
def found(made_up, recipe, tmp_path, monkeypatch):
    """A study with a winner, whose recipe can be trained in a fraction of a second."""
    monkeypatch.chdir(tmp_path)
    small = {f"model.{key}": value for key, value in recipe["model"].items()}
    settings = {**small, "data.path": recipe["data"]["path"], "data.document": "line", "training.batch_size": 10}
    settings |= {"training.device": "cpu", "training.steps": 12, "evaluation.every": 12, "checkpoint.every": 12}
    losses = {"base": [one + 0.5 for one in GOOD], "rotary": GOOD, "alibi": [one + 0.1 for one in GOOD]}

    def make(**more):
        return made_up.study(tmp_path / "found", losses, set={**settings, **more}, margin=0.05)

    return make


def test_without_a_test_text_nothing_is_begun(found, tmp_path):
    with refused(GlassformerError, "no-such-split"):
        compare(None, confirm=found().folder, on="inline")
    assert not list((tmp_path / "found-confirmed").rglob("*.*ml"))


@pytest.mark.slow
def test_run_through_once_and_gone_on_with(found, text_file, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(text_file.read_text(encoding="utf-8")[::-1].strip() + "\n", encoding="utf-8")
    study = found(**{"data.test": str(other)})
    confirmed = compare(None, confirm=study.folder, on="inline")
    assert confirmed.folder == tmp_path / "found-confirmed"
    assert [one.variant for one in confirmed.verdicts] == ["rotary"]
    assert [one.trial.seed for one in confirmed.finished("rotary")] == [6, 7, 8, 9, 10, 11]
    assert {one.evaluation.name for one in confirmed.finished("base")} == {"test"}
    assert compare(None, confirm=study.folder, on="inline").to_dict() == confirmed.to_dict()
    with refused(ConfigError, "split-seen-before"):
        compare(None, confirm=confirmed.folder)
