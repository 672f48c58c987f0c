"""From a plan to the lines of the ledger, and from the ledger to what came before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glassformer.study.history.attempts import attempts_of, ledger_of, record_earlier_studies
from glassformer.study.history.ledger import unpack
from glassformer.study.planning.plan import StudyPlan, training_fingerprint, training_values
from glassformer.study.planning.variant_facts import VariantBook
from glassformer.study.study import Study

GOOD = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98]
LOSSES = {"base": [one + 0.5 for one in GOOD], "alibi": GOOD}


def noted(study: Study):
    return record_earlier_studies(study.plan, study.book, study.directory)


def test_a_study_is_one_line_for_each_change(made_up, tmp_path):
    study = made_up.study(tmp_path / "one", LOSSES)
    study.write()
    ledger = ledger_of(study.plan, study.book)
    (line,) = ledger.attempts()
    assert (line.name, line.word, line.labels, line.margin, line.left) == ("alibi", "better", tuple(range(6)), 0.01, 1)
    assert line.analyses == ((6, pytest.approx(0.8)),)
    d = study.values.trials["alibi"].values - study.values.trials["base"].values
    np.testing.assert_array_equal(unpack(line.differences, 6), d)
    study.write()
    assert ledger.attempts() == [line]


def test_what_came_before_is_written_once_and_stays(made_up, tmp_path):
    made_up.study(tmp_path / "one", LOSSES).write()
    second = made_up.study(tmp_path / "two", LOSSES, first_seed=6)
    assert [one.study for one in noted(second)["alibi"].studies] == [str(tmp_path / "one")]
    made_up.study(tmp_path / "three", LOSSES, first_seed=12).write()
    assert len(noted(second)["alibi"].studies) == 1
    study = Study.load(second.folder)
    verdict = study.verdicts[0]
    assert verdict.evidence.seeds == 12
    assert verdict.evidence.earlier_seeds == 6
    assert [row[study.header().index("seeds")] for row in study.cells()] == [6, "6 + 6 earlier"]


def test_the_same_plan_elsewhere_is_the_same_study(made_up, tmp_path):
    made_up.study(tmp_path / "one", LOSSES).write()
    assert noted(made_up.study(tmp_path / "two", LOSSES))["alibi"].studies == ()


def test_another_metric_split_or_text_is_another_question(made_up, tmp_path):
    study = made_up.study(tmp_path / "one", LOSSES)
    plans = [
        study.plan,
        study.plan.model_copy(update={"metric": "bits_per_byte"}),
        study.plan.model_copy(update={"split": "test"}),
    ]
    files = {ledger_of(plan, study.book).file for plan in plans}
    other = VariantBook({name: replace(one, documents="y") for name, one in study.book.variants.items()})
    assert len(files | {ledger_of(study.plan, other).file}) == 4


def test_other_tuning_text_plugins_or_parents_are_never_pooled(made_up, tmp_path):
    study = made_up.study(tmp_path / "one", LOSSES)
    book, plan = study.book, study.plan
    base, grid = book.variants["base"], {"grid": {"training.lr": [0.1, 0.2]}}
    plans = [plan, *(StudyPlan.parse({**plan.to_dict(), "tune": one}) for one in (grid, {**grid, "seeds": 5}))]
    books = [
        VariantBook({**book.variants, "base": replace(base, data="other")}),
        VariantBook({**book.variants, "alibi": replace(book.variants["alibi"], parent="weights")}),
        VariantBook(book.variants, ({"file": "p.py", "sha256": "1"},)),
        VariantBook(book.variants, ({"file": "p.py", "sha256": "1", "imports": {"helper.py": "2"}},)),
    ]
    made = [attempts_of(one, book, "s")[0] for one in plans] + [attempts_of(plan, one, "s")[0] for one in books]
    assert len({one.code for one in made}) == 7
    assert len({one.question for one in made}) == 1  # so they spend
    assert not any(one.same_plan(other) for one in made for other in made if one is not other)


def test_tuned_seeds_are_not_pooled(made_up, tmp_path):
    study = made_up.study(tmp_path / "one", LOSSES)
    tuned = StudyPlan.parse({**study.plan.to_dict(), "tune": {"grid": {"training.lr": [0.1, 0.2]}}})
    verdicts = {one.variant: one for one in study.verdicts}
    assert attempts_of(tuned, study.book, "s", verdicts, study.values)[0].differences is None


def test_what_only_saves_and_looks_is_no_other_question():
    training = {"steps": 4, "lr": 0.1, "log_every": 10}
    recipe = {"data": {"set": "docstrings"}, "model": {"width": 8}, "training": training, "checkpoint": {"keep": 2}, "seed": 1}
    recipe["evaluation"] = {"every": 5, "patience": None, "texts": {}}
    same = [
        {**recipe, "checkpoint": {"keep": 3, "best": True}},
        {**recipe, "evaluation": {"every": 9, "patience": None, "texts": {"a": "b"}}},
        {**recipe, "training": {**training, "log_every": 1}, "seed": 2, "about": "x"},
    ]
    waits = {**recipe, "evaluation": {"every": 5, "patience": 2, "texts": {}}}
    others = [{**recipe, "training": {**training, "lr": 0.2}}, waits, {**waits, "evaluation": {"every": 6, "patience": 2}}]
    assert {training_fingerprint(one) for one in same} == {training_fingerprint(recipe)}
    assert len({training_fingerprint(recipe), *map(training_fingerprint, others)}) == 4
    assert all(training_values(one) == training_values(recipe) for one in same)
    assert training_values(recipe)["training.lr"] == 0.1
