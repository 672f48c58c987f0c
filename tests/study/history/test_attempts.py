"""From a plan to the lines of the ledger, and from the ledger to what came before."""

from __future__ import annotations

from dataclasses import replace

from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.study.history.attempts import attempts_of, record_earlier_studies, refuse_same_runs
from glassformer.study.history.ledger import Ledger
from glassformer.study.planning.plan import StudyPlan, training_fingerprint
from glassformer.study.planning.variant_facts import VariantBook
from glassformer.study.study import Study

GOOD = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98]
LOSSES = {"base": [one + 0.5 for one in GOOD], "alibi": GOOD}


def noted(study: Study):
    return record_earlier_studies(study.plan, study.book, study.directory)


def test_a_study_is_one_line_for_each_change(made_up, tmp_path):
    study = made_up.study(tmp_path / "one", LOSSES)
    study.write()
    (line,) = Ledger.beside(study.folder).attempts()
    assert (line.name, line.verdict, line.first_seed, line.seeds, line.margin) == ("alibi", "better", 0, 6, 0.01)
    assert line.p == study.verdicts[0].evidence.p_corrected
    study.write()
    assert Ledger.beside(study.folder).attempts() == [line]


def test_what_came_before_is_written_once_and_stays(made_up, tmp_path):
    made_up.study(tmp_path / "one", LOSSES).write()
    second = made_up.study(tmp_path / "two", LOSSES, first_seed=6)
    assert [one.study for one in noted(second)["alibi"].others] == [str(tmp_path / "one")]
    made_up.study(tmp_path / "three", LOSSES, first_seed=12).write()
    assert len(noted(second)["alibi"].others) == 1
    assert "This is study 2 of this change on this text" in Study.load(second.folder).verdicts[0].sentence


def test_the_same_plan_elsewhere_is_the_same_study(made_up, tmp_path):
    made_up.study(tmp_path / "one", LOSSES).write()
    again = made_up.study(tmp_path / "two", LOSSES)
    assert noted(again)["alibi"].others == noted(again)["alibi"].overlapping == ()
    assert attempts_of(again.plan, again.book, "x")[0].plan == Ledger.beside(again.folder).attempts()[0].plan


def test_other_tuning_text_plugins_or_parents_make_other_runs(made_up, tmp_path):
    """One fingerprint for all of them would let a second grid replace the line of the first."""
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
    assert len({one.made for one in made}) == 7
    assert len({one.plan for one in made}) == 1
    assert not any(one.same_plan(other) or one.same_runs(other) for one in made for other in made if one is not other)
    assert all(one.same_question(other) for one in made for other in made)  # so they count as attempts


def test_what_only_saves_and_looks_is_no_other_question(made_up, tmp_path):
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
    book = {name: replace(facts, asked=name) for name, facts in made_up.study(tmp_path / "one", LOSSES).book.variants.items()}
    study = Study.load(tmp_path / "one")
    first, second = (
        attempts_of(study.plan, VariantBook({name: replace(one, recipe=saved + name) for name, one in book.items()}), "s")[0]
        for saved in ("often", "seldom")
    )
    assert first.base != second.base
    assert first.same_question(second)


def test_other_rules_on_the_same_runs_are_refused_where_nobody_named_a_folder(made_up, tmp_path):
    made_up.study(tmp_path / "one", LOSSES).write()
    wider = made_up.study(tmp_path / "two", LOSSES, margin=0.3)
    with refused(ConfigError, "same-runs-other-rules", "seeds 0 to 5 (better, margin 0.01)", "--first-seed 6"):
        refuse_same_runs(wider.plan, noted(wider), wider.plan.same_within)
    fresh = made_up.study(tmp_path / "three", LOSSES, first_seed=6)
    refuse_same_runs(fresh.plan, noted(fresh), fresh.plan.same_within)
