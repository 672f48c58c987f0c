"""A verdict carries its conditions: what else differs from the baseline stands in its sentence and in its JSON."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import Any

import pytest

from glassformer.runs.directory import RunDirectory
from glassformer.runs.records import MetricsLog
from glassformer.study.planning.conditions import (
    Condition,
    cost_conditions,
    joined,
    known_text,
    time_condition,
    times,
    unequal,
    worst_first,
)
from glassformer.study.planning.variant_facts import VariantBook, differences
from glassformer.study.study import Study

GOOD = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98]
BASE = [one + 0.5 for one in GOOD]


def with_facts(study: Study, variant: str, **facts: Any) -> Study:
    """The study with other facts about a variant."""
    book = VariantBook.read(study.directory.variants_file)
    known = {name: replace(one, parameters=100, step_flops=1000) for name, one in book.variants.items()}
    VariantBook({**known, variant: replace(known[variant], **facts)}).write(study.directory.variants_file)
    return Study.load(study.folder)


class TestCosts:
    def test_what_is_said_and_what_is_not(self) -> None:
        base = {"parameters": 100.0, "flops": 100.0, "tokens": 100.0, "memory_bytes": 10.0}
        own = {"parameters": 360.0, "flops": 110.0, "tokens": 25.0, "memory_bytes": 21.0}
        found = cost_conditions(base, own)
        assert {one.what: one.text for one in found} == {
            "parameters": "3.6 times the parameters",
            "tokens": "0.25 times the tokens",
            "memory_bytes": "2.1 times the memory",
        }
        assert cost_conditions(base, {**base, "tokens": None}) == []

    def test_time_is_said_where_no_run_overlaps(self) -> None:
        base, own = [1.0, 1.2, 0.9, 1.1, 1.0, 1.3], [3.0, 2.6, 2.9, 3.1, 2.5, 2.8]
        (found,) = time_condition(base, own)
        assert (found.what, found.text) == ("seconds", "2.6 times the time")
        assert time_condition(base, [*own, 1.25]) == []
        assert time_condition(base, own[:5]) == []
        assert time_condition(base, [1.5] * 6) == []

    def test_the_worst_is_first(self) -> None:
        found = [Condition("flops", "f", 1.0, 2.0), Condition("tokens", "t", 2.0, 1.0), Condition("start", "s")]
        assert [one.what for one in worst_first(found, better=True)] == ["start", "flops", "tokens"]
        assert [one.what for one in worst_first(found, better=False)] == ["start", "tokens", "flops"]

    def test_words(self) -> None:
        assert [times(one) for one in (3.63, 12.4, 0.25)] == ["3.6 times", "12 times", "0.25 times"]
        assert [joined(["a"]), joined(["a", "b", "c"])] == ["a", "a, b and c"]

    def test_what_a_plan_demands_to_be_equal(self) -> None:
        base = {"parameters": 1000.0, "seconds": 10.0}
        assert unequal(["parameters", "time"], base, {"parameters": 1009.0, "seconds": 10.9}) == []
        found = unequal(["parameters", "time"], base, {"parameters": 1011.0, "seconds": 11.1})
        assert [one.what for one in found] == ["parameters", "time"]


def in_trials(study: Study, variant: str, *, records: dict[str, Any] | None = None, **environment: Any) -> Study:
    """The study whose trials of a variant have further facts in their environment, and a last record with these."""
    for one in study.finished(variant):
        run = RunDirectory(study.directory.trial(one.trial))
        run.write_environment({**run.read_environment(), **environment})
        if records:
            MetricsLog(run.metrics_file).append({"step": 24, **records})
    return Study.load(study.folder)


def known(judged: float, trained: float) -> dict[str, Any]:
    bigram = {"judged": 1.7, "trained": 1.6}
    return {"text_known": {"run": {"judged": judged, "trained": trained}, "bigram": bigram}}


class TestFoundInTrials:
    """What only the runs show: each is told, and with a change that sets it, or where both have it, nothing is."""

    @pytest.fixture
    def study(self, made_up, tmp_path) -> Study:
        return with_facts(made_up.study(tmp_path / "s", {"base": BASE, "alibi": GOOD}), "alibi")

    @pytest.mark.parametrize(
        ("what", "base", "own", "text"),
        [
            ("precision", {"precision": "float32"}, {"precision": "bf16"}, "bf16 instead of float32 arithmetic"),
            (
                "step form",
                {"step_form": {"compiled": False, "captured": False}},
                {"step_form": {"compiled": True, "captured": True}},
                "a compiled and captured instead of a plain step",
            ),
        ],
    )
    def test_precision_and_step_form(self, study, what, base, own, text):
        same = in_trials(in_trials(study, "base", **base), "alibi", **base)
        assert same.verdict("alibi").conditions == ()
        verdict = in_trials(same, "alibi", **own).verdict("alibi")
        assert {one.what: one.text for one in verdict.conditions} == {what: text}
        assert text in verdict.sentence

    @pytest.mark.parametrize("key", ["training.precision", "training.compile"])
    def test_not_where_the_change_sets_it(self, made_up, tmp_path, key):
        changes = [{"name": "alibi", "set": {key: "bf16" if key.endswith("precision") else True}}]
        study = with_facts(made_up.study(tmp_path / "s", {"base": BASE, "alibi": GOOD}, changes=changes), "alibi")
        study = in_trials(study, "base", precision="float32", step_form={"compiled": False})
        own = {"precision": "bf16"} if key.endswith("precision") else {"step_form": {"compiled": True}}
        study = in_trials(study, "alibi", **{"precision": "float32", "step_form": {"compiled": False}, **own})
        assert study.verdict("alibi").conditions == ()

    def test_data_order(self, study):
        book = VariantBook.read(study.directory.variants_file)
        facts = {name: replace(one, order=name) for name, one in book.variants.items()}
        VariantBook(facts).write(study.directory.variants_file)
        assert [one.what for one in Study.load(study.folder).verdict("alibi").conditions] == ["data order"]
        assert [one.what for one in differences(facts["base"], facts["alibi"], ["training.batch_size"])] == []
        own_way = replace(facts["alibi"], judge="-judged-by-another")
        assert [one.what for one in differences(facts["base"], own_way, ["objective"])] == ["data order"]

    @pytest.mark.parametrize(
        ("whose", "chosen", "text"),
        [
            ("base", 0.1, "the baseline's training.lr=0.1 at the edge of the grid"),
            ("alibi", 0.4, "its training.lr=0.4 at the edge of the grid"),
            ("alibi", 0.2, None),
        ],
    )
    def test_a_rate_at_the_edge_of_its_grid(self, made_up, tmp_path, whose, chosen, text):
        tune = {"grid": {"training.lr": [0.1, 0.2, 0.4]}, "seeds": 4}
        study = with_facts(made_up.study(tmp_path / "s", {"base": BASE, "alibi": GOOD}, tune=tune), "alibi")
        book = VariantBook.read(study.directory.variants_file)
        tuned = {name: replace(one, tuned={"training.lr": 0.2}) for name, one in book.variants.items()}
        tuned[whose] = replace(tuned[whose], tuned={"training.lr": chosen})
        VariantBook(tuned).write(study.directory.variants_file)
        found = [one.text for one in Study.load(study.folder).verdict("alibi").conditions if one.what == "tuning"]
        assert found == ([] if text is None else [text])

    def test_memory_is_measured(self, study):
        """The estimates are equal, and the runs are not; where only one of the two is measured, the estimates are compared."""
        study = in_trials(study, "alibi", records={"peak_bytes": 3_000_000})
        assert study.table[1]["memory_bytes"] == 4_000_000
        assert study.verdict("alibi").conditions == ()
        study = in_trials(study, "base", records={"peak_bytes": 1_000_000})
        assert [row["memory_bytes"] for row in study.table] == [1_000_000, 3_000_000]
        (found,) = study.verdict("alibi").conditions
        assert (found.text, found.base, found.own) == ("3 times the memory", 1_000_000, 3_000_000)
        study.write()
        shutil.rmtree(study.folder / "trials")
        assert Study.load(study.folder).table[1]["memory_bytes"] == 3_000_000

    @pytest.mark.parametrize(("later", "said"), [(0, ["seconds"]), (86_400, [])])
    def test_time_is_said_of_runs_trained_in_turn(self, study, later, said):
        """A stored run of another day was timed while the machine had more or less else to do."""
        study = in_trials(study, "base", records={"tokens": 1000, "tokens_per_second": 100.0})
        study = in_trials(study, "alibi", records={"tokens": 1000, "tokens_per_second": 40.0})
        for variant, when in {"base": 1_700_000_000, "alibi": 1_700_000_000 + later}.items():
            for number, one in enumerate(study.finished(variant)):
                os.utime(RunDirectory(study.directory.trial(one.trial)).metrics_file, (0, when + 60 * number))
        assert [one.what for one in Study.load(study.folder).verdict("alibi").conditions] == said

    def test_flops_that_grow_and_numbers_learned_elsewhere(self, study):
        study = in_trials(study, "alibi", records={"flops_growth": 4.0}, trial_facts={"learned_outside": 300})
        found = {one.what: one.text for one in study.verdict("alibi").conditions}
        assert found == {"flops": "4 times the FLOPs", "parameters": "4 times the parameters"}

    def test_judged_text_that_is_known(self, study):
        study = in_trials(in_trials(study, "base", trial_facts=known(1.5, 1.4)), "alibi", trial_facts=known(1.0, 0.9))
        assert study.verdict("alibi").conditions == ()
        (found,) = in_trials(study, "alibi", trial_facts=known(1.0, 1.4)).verdict("alibi").conditions
        assert found.what == "judged text"

    def test_text_that_is_easier_is_not_known(self):
        base = {"run": {"judged": 1.5, "trained": 1.4}, "bigram": {"judged": 1.6, "trained": 1.9}}
        assert known_text(base, {"run": {"judged": 1.0, "trained": 1.25}}) == []
        assert len(known_text(base, {"run": {"judged": 1.0, "trained": 1.4}})) == 1
        assert known_text({}, {"run": {"judged": 1.0, "trained": 1.4}}) == []

    def test_harder_text_is_known_where_it_is_not_hard_for_one_run(self):
        """All baselines find it harder; one that knows no text finds none harder."""
        base = {"run": {"judged": 2.0, "trained": 1.5}, "bigram": {"judged": 2.2, "trained": 1.9}}
        base["uniform"] = {"judged": 4.0, "trained": 4.0}
        assert len(known_text(base, {"run": {"judged": 1.7, "trained": 1.5}})) == 1
        assert known_text(base, {"run": {"judged": 1.9, "trained": 1.6}}) == []
        assert known_text(base, {"run": {"judged": 3.01, "trained": 3.0}}) == []  # it has learned nothing of either


class TestInAVerdict:
    def test_the_word_has_its_condition(self, made_up, tmp_path):
        study = made_up.study(tmp_path / "s", {"base": BASE, "alibi": GOOD})
        assert with_facts(study, "alibi").verdict("alibi").conditions == ()
        verdict = with_facts(study, "alibi", parameters=360, step_flops=2000).verdict("alibi")
        assert verdict.verdict == "better"
        assert ", with 3.6 times the parameters and 2 times the FLOPs: loss" in verdict.sentence
        (first, second) = verdict.to_dict()["conditions"]
        assert (first["what"], first["base"], first["own"], first["ratio"]) == ("parameters", 100, 360, 3.6)
        assert second["what"] == "flops"

    def test_fewer_is_said_too_and_a_tenth_is_not(self, made_up, tmp_path):
        study = made_up.study(tmp_path / "s", {"base": GOOD, "alibi": BASE})
        sentence = with_facts(study, "alibi", parameters=50).verdict("alibi").sentence
        assert "worse, by more than" in sentence
        assert ", with 0.5 times the parameters: loss" in sentence
        assert with_facts(study, "alibi", parameters=109).verdict("alibi").conditions == ()

    @pytest.mark.parametrize(("demand", "word"), [([], "better"), (["tokens"], "better"), (["parameters"], "invalid")])
    def test_what_the_plan_demands(self, made_up, tmp_path, demand, word):
        study = made_up.study(tmp_path / "s", {"base": BASE, "alibi": GOOD}, equal=demand)
        verdict = with_facts(study, "alibi", parameters=360).verdict("alibi")
        assert verdict.verdict == word
        if word == "invalid":
            assert "360 against 100 parameters" in verdict.sentence

    def test_they_stay_when_the_trials_are_deleted(self, made_up, tmp_path):
        study = with_facts(made_up.study(tmp_path / "s", {"base": BASE, "alibi": GOOD}), "alibi", parameters=360)
        study.write()
        shutil.rmtree(study.folder / "trials")
        assert [one.what for one in Study.load(study.folder).verdict("alibi").conditions] == ["parameters"]

    def test_they_stand_at_the_top_of_the_report(self, made_up, tmp_path):
        study = with_facts(made_up.study(tmp_path / "s", {"base": BASE, "alibi": GOOD}), "alibi", parameters=360)
        page = study.report().read_text(encoding="utf-8")
        assert 0 < page.index("What else differs from the baseline") < page.index(">Differences</h2>")
