"""Trial folders read back: values by document, what is pending, what cannot be used, what is damaged."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.evaluation.language_metrics import language_units
from glassformer.evaluation.results import Evaluation
from glassformer.foundation.errors import ConfigError, RunError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.files import read_json, write_json
from glassformer.foundation.metrics import ACCURACY, BITS_PER_BYTE, LOSS
from glassformer.study.planning.plan import Trial
from glassformer.study.running.trial_results import TrialResult, gather_trials, metric_of, problem_of, read_trial, units_of
from glassformer.study.statistics.evidence import Problem

TRIAL = Trial("alibi", 3, {"seed": 3}, "alibi/seed-3")
VALUES = np.array([1.0, 1.5, 0.5, 1.25, 0.0, 1.1])


def read(made_up, tmp_path, recipe, **more) -> TrialResult:
    made_up.run(tmp_path / "run", recipe, more.pop("values", VALUES), **more)
    return read_trial(tmp_path / "run", TRIAL, LOSS)


def test_a_finished_trial(made_up, tmp_path, recipe):
    result = read(made_up, tmp_path, recipe)
    assert (result.status, result.problem, result.done, result.step) == ("finished", None, True, 24)
    assert (result.logged, result.environment["threads"]) == ({"seconds": 2.0, "tokens_per_second": 840.0}, 1)
    units = units_of(result.units, LOSS)
    values, weights = units.values, units.weights
    np.testing.assert_allclose(values, VALUES)
    np.testing.assert_array_equal(weights, [5, 3, 8, 4, 0, 6])
    # by hand: (5*1 + 3*1.5 + 8*.5 + 4*1.25 + 6*1.1) / 26
    assert metric_of(result.units, LOSS) == pytest.approx(25.1 / 26, abs=1e-12)


def test_bits_per_byte_by_hand(made_up):
    units = language_units(made_up.losses(VALUES))
    np.testing.assert_array_equal(units["bits_per_byte"].weights, [10, 6, 16, 8, 0, 12])
    np.testing.assert_allclose(units["bits_per_byte"].values[0], 5.0 / math.log(2.0) / 10)
    assert metric_of(units, BITS_PER_BYTE) == pytest.approx(25.1 / math.log(2.0) / 52, abs=1e-12)


def test_what_was_not_measured_is_a_sentence(made_up):
    with refused(ConfigError, "metric-without-values", "metric=accuracy"):
        units_of(language_units(made_up.losses(VALUES)), ACCURACY)


def test_what_is_not_there_yet_is_pending(made_up, tmp_path, recipe):
    assert read_trial(tmp_path / "nowhere", TRIAL, LOSS).status == "pending"
    assert read(made_up, tmp_path, recipe, evaluated=False).status == "pending"
    assert read(made_up, tmp_path, recipe, status="running").status == "pending"
    assert not read(made_up, tmp_path, recipe, status="stopped").done


def test_diverged_and_failed(made_up, tmp_path, recipe):
    result = read(made_up, tmp_path, recipe, status="diverged")
    assert (result.status, result.problem, result.done, result.units) == ("diverged", Problem.DIVERGED, True, None)
    result = read(made_up, tmp_path, recipe, status="failed")
    assert (result.problem, result.done, result.reason) == (Problem.MISSING, False, "made up")


@pytest.mark.parametrize(
    ("loss", "validation", "problem"),
    [
        (2.19, (2.3, 2.2), None),
        (2.2, (2.3, 2.2), Problem.NOT_ABOVE_TRIVIAL),  # the unigram's loss
        (2.5, (2.3, 2.4), Problem.NOT_ABOVE_TRIVIAL),
        (2.5, (1.9, 2.5), Problem.COLLAPSED),  # had learned, and lost it
        (1.7, (2.0, 1.7), None),  # worse than a bigram, but it learned something
    ],
)
def test_who_has_learned_nothing_cannot_be_compared(made_up, tmp_path, recipe, loss, validation, problem):
    assert read(made_up, tmp_path, recipe, values=loss, validation=validation).problem is problem


def test_a_classifier_that_predicts_one_class_is_named_so():
    same = {"accuracy": Estimate(0.6, 0.5, 0.7, 10)}
    evaluation = Evaluation("validation", same, baselines={"majority": same}, trivial=("majority",))
    ended = [{"step": 3, "validation_accuracy": 0.7}, {"step": 9, "validation_accuracy": 0.6, "validation_collapsed_to": 1.0}]
    assert problem_of(evaluation, ended, ACCURACY) is Problem.ONE_CLASS
    assert problem_of(evaluation, ended[:1], ACCURACY) is Problem.COLLAPSED
    assert problem_of(evaluation, [ended[1], {"step": 10, "validation_accuracy": 0.6}], ACCURACY) is Problem.NOT_ABOVE_TRIVIAL


def test_a_tainted_trial_leaks(made_up, tmp_path, recipe):
    assert read(made_up, tmp_path, recipe, tainted="breaks causality").problem is Problem.LEAK


class TestDamage:
    def test_another_recipe(self, made_up, tmp_path, recipe):
        made_up.run(tmp_path / "run", recipe)
        with refused(RunError, "damaged", "model.width"):
            read_trial(tmp_path / "run", TRIAL, LOSS, same_recipe=lambda stored: "model.width")
        seen = []
        assert read_trial(tmp_path / "run", TRIAL, LOSS, same_recipe=lambda stored: seen.append(stored)).done
        assert seen == [recipe]

    @pytest.mark.parametrize("name", ["state.json", "environment.json", "recipe.yaml", "evaluations/validation-step-24.json"])
    @pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1, 2]", b'{"a": 1}'])
    def test_no_file_may_be_half(self, made_up, tmp_path, recipe, name, content):
        run = made_up.run(tmp_path / "run", recipe)
        (run.root / name).write_bytes(content)
        with refused(RunError, "damaged"):
            read_trial(run.root, TRIAL, LOSS, same_recipe=lambda stored: None if stored == recipe else "something")

    def test_changed_digits_contradict_themselves(self, made_up, tmp_path, recipe):
        run = made_up.run(tmp_path / "run", recipe)
        file = run.evaluation_file("validation", 24)
        document = read_json(file)
        document["units"]["loss"]["sums"][2] += 0.001
        write_json(file, document)
        with refused(RunError, "damaged", "loss"):
            read_trial(run.root, TRIAL, LOSS)


class TestGathered:
    def rows(self, made_up, *losses: float | None) -> list[TrialResult]:
        made = []
        for seed, loss in enumerate(losses):
            trial = Trial("x", seed, {}, f"x/seed-{seed}")
            if loss is None:
                made.append(TrialResult(trial, "pending"))
            elif math.isnan(loss):
                made.append(TrialResult(trial, "diverged", problem=Problem.DIVERGED))
            else:
                made.append(TrialResult(trial, "finished", units=language_units(made_up.losses(np.full(6, loss)))))
        return made

    def test_rows_end_where_trials_are_still_to_come(self, made_up):
        results = {"base": self.rows(made_up, 1.0, 1.1, 1.2), "alibi": self.rows(made_up, 1.3, None, 1.5)}
        trials, weights = gather_trials(results, LOSS, leaks={}, exploratory=["alibi"])
        assert (trials["base"].seeds, trials["alibi"].seeds) == (3, 1)
        assert trials["alibi"].exploratory
        assert not trials["base"].exploratory
        np.testing.assert_allclose(trials["base"].values[:, 0], [1.0, 1.1, 1.2])
        np.testing.assert_array_equal(weights, [5, 3, 8, 4, 0, 6])

    def test_a_bad_run_is_a_row_of_its_own(self, made_up):
        trials, _ = gather_trials({"base": self.rows(made_up, 1.0, math.nan)}, LOSS, leaks={})
        assert trials["base"].problems == {1: Problem.DIVERGED}
        assert np.isnan(trials["base"].values[1]).all()

    def test_a_leaking_variant_counts_without_a_run(self, made_up):
        results = {"base": self.rows(made_up, 1.0), "cheat": self.rows(made_up, None)}
        trials, _ = gather_trials(results, LOSS, leaks={"cheat": 4})
        assert trials["cheat"].values.shape == (4, 6)
        assert set(trials["cheat"].problems.values()) == {Problem.LEAK}

    def test_nothing_measured_yet(self, made_up):
        trials, weights = gather_trials({"base": self.rows(made_up, None)}, LOSS, leaks={})
        assert trials["base"].seeds == 0
        assert len(weights) == 1

    def test_other_documents_cost_a_change_its_own_verdict_only(self, made_up):
        other = type(made_up)(tokens=np.array([5, 3, 8, 4, 1, 6]))
        results = {"base": self.rows(made_up, 1.0), "alibi": self.rows(other, 1.0), "rotary": self.rows(made_up, 1.0)}
        trials, _ = gather_trials(results, LOSS, leaks={})
        assert trials["alibi"].problems == {0: Problem.OTHER_UNITS}
        assert np.isnan(trials["alibi"].values).all()
        assert trials["rotary"].problems == {}

    def test_a_baseline_on_other_documents_is_refused(self, made_up):
        other = type(made_up)(tokens=np.array([5, 3, 8, 4, 1, 6]))
        results = {"base": [*self.rows(made_up, 1.0), *self.rows(other, 1.0)]}
        with refused(ConfigError, "other-documents"):
            gather_trials(results, LOSS, leaks={})
