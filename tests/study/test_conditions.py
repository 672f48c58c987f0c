"""A verdict carries its conditions: what else differs from the baseline stands in its sentence and in its JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from glassformer.study.planning.conditions import (
    Condition,
    cost_conditions,
    joined,
    time_condition,
    times,
    unequal,
    worst_first,
)
from glassformer.study.planning.variant_facts import VariantBook
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
        import shutil

        study = with_facts(made_up.study(tmp_path / "s", {"base": BASE, "alibi": GOOD}), "alibi", parameters=360)
        study.write()
        shutil.rmtree(study.folder / "trials")
        assert [one.what for one in Study.load(study.folder).verdict("alibi").conditions] == ["parameters"]

    def test_they_stand_at_the_top_of_the_report(self, made_up, tmp_path):
        study = with_facts(made_up.study(tmp_path / "s", {"base": BASE, "alibi": GOOD}), "alibi", parameters=360)
        page = study.report().read_text(encoding="utf-8")
        assert 0 < page.index("What else differs from the baseline") < page.index(">Differences</h2>")
