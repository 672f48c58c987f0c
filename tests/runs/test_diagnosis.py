"""The diagnosis: each rule on curves made by hand; on the records of planted faults and sound runs; on the runs themselves."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.runs.planted_runs import CURVES, PLANTED, SOUND, train_all

from glassformer.foundation.metrics import ACCURACY, LOSS, Metric
from glassformer.runs.diagnosis import Facts, diagnose, diagnosis_of
from glassformer.runs.directory import RunDirectory

RECORDED = json.loads(CURVES.read_text(encoding="utf-8"))


def codes(records: list[dict[str, Any]], **facts: Any) -> list[str]:
    return [one.code for one in diagnose(records, Facts(**{"num_outputs": 20, **facts}))]


def run(train: list[float], validation: list[float], **more: list[float]) -> list[dict[str, Any]]:
    """A step for each training loss, evaluations evenly among them."""
    records: list[dict[str, Any]] = []
    for step, loss in enumerate(train, start=1):
        records.append({"step": step, "loss": loss})
        at = step * len(validation) / len(train)
        if validation and at == int(at):
            records.append(
                {"step": step, "validation_loss": validation[int(at) - 1]}
                | {key: one[int(at) - 1] for key, one in more.items()}
            )
    return records


def falling(start: float, end: float, count: int = 40) -> list[float]:
    """Falls fast and ends level."""
    return [end + (start - end) * math.exp(-8 * at / count) for at in range(count)]


def test_a_sound_run_has_nothing() -> None:
    assert codes(run(falling(3.0, 1.0), falling(2.8, 1.1, 10))) == []


def test_a_source_that_saves_nothing() -> None:
    learned = run(falling(3.0, 1.0), falling(2.8, 1.1, 10), validation_source_gain=[0.0] * 9 + [0.021])
    assert [(one.code, one.tone) for one in diagnose(learned, Facts(num_outputs=20))] == [("ignores-source", "warning")]
    assert codes(run(falling(3.0, 1.0), falling(2.8, 1.1, 10), validation_source_gain=[0.0] * 9 + [0.023])) == []
    early = run(falling(3.0, 1.0), [3.0 - 0.1 * at for at in range(10)], validation_source_gain=[0.0] * 10)
    assert [(one.code, one.tone) for one in diagnose(early, Facts())] == [
        ("ignores-source", "note"),
        ("still-learning", "note"),
    ]


def test_numbers_far_from_all_others() -> None:
    error = Metric("scaled_mae", "standard deviations")
    rising = run([0.01, *[0.7, 2.5, 0.8] * 13], [2.0] * 10, validation_scaled_mae=[0.2] * 10)
    facts = {"metric": error, "num_outputs": 1}
    assert codes(rising, **facts, baselines={"mean": 0.2}) == ["far-numbers"]
    assert codes(rising, **facts, baselines={"mean": 0.8}) != ["far-numbers"]


def test_an_unstable_run_is_not_told_to_raise_its_rate_too() -> None:
    assert codes(run([3.0, *[5.0] * 10, *[3.0] * 29], [3.0] * 10)) == ["unstable"]


def test_flat() -> None:
    assert codes(run([3.0] * 40, [2.99] * 10)) == ["flat"]
    assert codes(run([3.0] * 39 + [2.9], [2.9] * 10)) == []  # a few hundredths are a beginning


def test_no_better_than_a_guess_that_reads_nothing() -> None:
    slow, baselines = falling(2.9, 2.7, 10), {"uniform": 2.996, "unigram": 2.5, "bigram": 2.0}
    assert codes(run(falling(3.0, 2.7), slow), baselines=baselines) == ["flat"]
    assert codes(run(falling(3.0, 2.7), slow), baselines={**baselines, "unigram": 2.71}) == []
    assert codes(run(falling(3.0, 2.7), [3.0 - 0.03 * at for at in range(10)]), baselines=baselines) == ["still-learning"]
    learned_by_heart = [2.8, 2.6, 2.55, 2.7, 2.8, 2.9, 2.95, 2.95, 2.96, 2.96]
    assert codes(run(falling(3.0, 0.1), learned_by_heart), baselines=baselines) == ["overfitting"]
    mae = Metric("scaled_mae", "deviations", lower_is_better=True)
    scattered = run([1.2, *[1.0] * 39], [1.1] * 10, validation_scaled_mae=[0.86] * 10)
    assert codes(scattered, metric=mae, baselines={"mean": 0.85}, num_outputs=1) == ["flat"]


def test_worse_than_uniform_and_unstable() -> None:
    assert codes(run([3.0, 5.0, *[4.0] * 38], [4.0] * 10)) == ["worse-than-uniform"]  # ln 20 = 2.996
    assert codes(run([3.0] * 5 + [9.0] * 10 + falling(9.0, 1.0, 25), falling(2.8, 1.1, 10))) == ["unstable"]


def test_several_labels_are_a_yes_or_no_each() -> None:
    """Four labels cost 4 ln 2 = 2.77 by guessing, not ln 4 = 1.39."""
    curve = run(falling(2.8, 2.1), falling(2.8, 2.1, 10))
    assert codes(curve, num_outputs=4, several=True) == []
    assert codes(curve, num_outputs=4) == ["worse-than-uniform"]


def test_squared_errors_of_a_few_texts_scatter() -> None:
    """A number's loss of 1 is that of the mean; single batches of a sound run go well above it."""
    scattered = [1.0, 0.9, 1.7, 1.6, *falling(1.2, 0.05, 36)]
    assert codes(run(scattered, falling(1.0, 0.06, 10)), num_outputs=1) == []
    assert codes(run([1.0] * 5 + [9.0] * 10 + falling(9.0, 0.1, 25), falling(1.0, 0.06, 10)), num_outputs=1) == ["unstable"]


def test_weighted_labels_scatter() -> None:
    """A lucky first batch, then what three labels cost by guessing, up and down."""
    scattered = [0.8, *[1.1 + (0.4 if at % 3 else -0.4) for at in range(20)], *falling(1.0, 0.5, 19)]
    assert codes(run(scattered, falling(1.0, 0.6, 10)), num_outputs=3) == []
    rare = [0.8] * 3 + [1.0] * 8 + [1.55, 1.5, 1.6] + falling(1.0, 0.1, 26)  # three batches with texts of the rarest class
    assert codes(run(rare, falling(1.0, 0.6, 10)), num_outputs=3) == ["unstable"]
    assert codes(run(rare, falling(1.0, 0.6, 10)), num_outputs=3, weighted=True) == []


def test_the_judged_metric_is_compared_with_its_own_baselines() -> None:
    mae = Metric("scaled_mae", "deviations", lower_is_better=True)
    fine = run(falling(1.0, 0.01), falling(1.0, 0.016, 10), validation_scaled_mae=falling(0.8, 0.1, 10))
    assert codes(fine, metric=mae, baselines={"mean": 0.85, "word pairs": 0.21}, num_outputs=1) == []


def test_diverged_says_nothing_else() -> None:
    assert codes(run([3.0, 2.0, math.nan], [])) == ["diverged"]
    (finding,) = diagnose([], Facts(status="diverged", reason="Diverged at step 5."))
    assert (finding.code, finding.sign) == ("diverged", "Diverged at step 5.")


def test_overfitting_says_since_when() -> None:
    validation = [2.0, 1.5, 1.4, 1.5, 1.7, 1.9, 2.0, 2.1, 2.2, 2.3]
    (finding,) = diagnose(run(falling(3.0, 0.2), validation), Facts())
    assert (finding.code, finding.step) == ("overfitting", 12)
    both_worse = [2.0, *[1.0] * 20, *[1.5] * 19]
    assert codes(run(both_worse, validation)) == []


def test_a_loss_that_rises_beside_an_accuracy_is_a_note() -> None:
    """A classifier grows too sure: its loss rises, its answers get better, and the best checkpoint is a later one."""
    validation = [2.0, 1.5, 1.4, 1.5, 1.7, 1.9, 2.0, 2.1, 2.2, 2.3]
    rising = [0.5, 0.55, 0.6, 0.62, 0.64, 0.65, 0.66, 0.67, 0.69, 0.68]
    (note,) = diagnose(run(falling(3.0, 0.2), validation, validation_accuracy=rising), Facts(metric=ACCURACY))
    assert (note.code, note.tone, note.step) == ("overfitting", "note", 12)
    worse = [0.5, 0.55, 0.6, 0.61, 0.58, 0.57, 0.56, 0.55, 0.55, 0.54]
    (warning,) = diagnose(run(falling(3.0, 0.2), validation, validation_accuracy=worse), Facts(metric=ACCURACY))
    assert (warning.code, warning.tone, warning.step) == ("overfitting", "warning", 12)
    assert "step 16 " in warning.remedy  # the checkpoint is chosen by accuracy, whose best evaluation is the fourth


def test_what_is_soon_as_good_as_a_guess_gets_no_larger_rate() -> None:
    """Eight layers at 0.1: at once at the unigram's loss, and there for ever. Ten times the rate would not help."""
    baselines = {"uniform": 2.996, "unigram": 2.5, "bigram": 2.0}
    (stuck,) = diagnose(run(falling(3.0, 2.51), [2.52, 2.51] * 5), Facts(num_outputs=20, lr=0.1, baselines=baselines))
    (slow,) = diagnose(run(falling(3.0, 2.7), falling(2.9, 2.7, 10)), Facts(num_outputs=20, lr=0.1, baselines=baselines))
    assert (stuck.code, slow.code) == ("flat", "flat")
    assert "try 0.01" in stuck.remedy
    assert "try 1)" in slow.remedy


def test_a_training_metric_is_compared_like_with_like() -> None:
    """With dropout the loss of the steps is above; where the training loss was measured without, that one is used."""
    validation = [2.0, 1.5, 1.4, 1.5, 1.7, 1.9, 2.0, 2.1, 2.2, 2.3]
    assert codes(run([3.0, *[1.6] * 39], validation)) == []
    assert codes(run([3.0, *[1.6] * 39], validation, train_loss=falling(2.0, 0.1, 10))) == ["overfitting"]


def test_still_learning() -> None:
    assert codes(run(falling(3.0, 1.0), [3.0 - 0.1 * at for at in range(10)])) == ["still-learning"]
    assert codes(run(falling(3.0, 1.0), [3.0 - 0.1 * at for at in range(10)]), status="stopped") == []


def test_one_class_names_it_and_the_step() -> None:
    collapsed = run([0.7] * 40, [0.69] * 10, validation_collapsed_to=[1] * 10)
    for record in collapsed[:10]:
        record.pop("validation_collapsed_to", None)
    (finding,) = diagnose(collapsed, Facts(num_outputs=2, metric=ACCURACY, label_names=["bad", "good"]))
    assert (finding.code, finding.step) == ("one-class", 12)
    assert "(good)" in finding.what


def test_same_text_too_good_and_constant() -> None:
    sound = run(falling(3.0, 1.0), falling(2.8, 1.1, 10))
    assert codes(sound, overlap=0.49) == []
    assert codes(sound, overlap=0.51) == ["same-text"]
    assert codes(sound, baselines={"unigram": 5.5, "bigram": 4.3}) == []
    assert codes(sound, baselines={"unigram": 5.5, "bigram": 4.5}) == ["too-good"]
    assert codes(sound, baselines={"unigram": 0.01}) == ["constant-data"]
    assert codes(sound, metric=ACCURACY, baselines={"majority": 1.0}) == ["constant-data"]
    assert codes(sound, metric=ACCURACY, baselines={"majority": 0.98}) == []  # a rare class is worth learning
    assert codes(sound, metric=ACCURACY, baselines={"majority": 0.5, "bag of words": 1.0}) == []  # that is worth learning
    assert codes(sound, metric=ACCURACY, baselines={"majority": 0.8}) == []


@pytest.mark.parametrize("name", [*PLANTED, *SOUND])
def test_recorded_curves(name: str) -> None:
    """Of the planted faults each gets its code and no other, of the sound runs none gets any."""
    one = RECORDED[name]
    records = [{key: float(value) if isinstance(value, str) else value for key, value in row.items()} for row in one["records"]]
    facts = Facts(**{**one["facts"], "metric": Metric.from_dict(one["facts"]["metric"])})
    assert {finding.code for finding in diagnose(records, facts)} == (PLANTED[name][1] if name in PLANTED else set())


@pytest.mark.slow
def test_the_runs_themselves(tmp_path: Path) -> None:
    found = train_all(tmp_path, [*PLANTED, *SOUND])
    wanted = {name: codes for name, (_, codes) in PLANTED.items()} | {name: set() for name in SOUND}
    assert {name: set(one["codes"]) for name, one in found.items()} == wanted


def test_of_a_folder(trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    run_ = RunDirectory(folder)
    assert set(run_.read_environment()) >= {"num_outputs", "overlap", "steps_per_epoch"}
    assert set(run_.read_state()["baselines"]) == {"uniform", "unigram", "bigram"}
    assert all(finding.code for finding in diagnosis_of(run_))
    run_.state_file.write_text("{")
    assert diagnosis_of(run_) == []
    assert LOSS.lower_is_better
