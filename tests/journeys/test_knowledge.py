"""The world through its recipes: without pretraining, with, mixed; six seeds and a verdict. Minutes each."""

from __future__ import annotations

import pytest

import glassformer as gf

pytestmark = pytest.mark.slow


def match(run) -> float:
    return run.evaluate().metrics["exact_match"].value


def test_pretraining_makes_people_of_the_text_known(tmp_path):
    scratch, tuned, mixed = (gf.train(f"world-{name}", out=tmp_path / name) for name in ("scratch", "finetune", "mixed"))
    baselines = scratch.evaluate().baselines
    assert match(scratch) <= baselines["bag of letters"]["exact_match"].value + 0.1
    assert match(tuned) >= 0.8
    assert match(mixed) >= 0.8
    metrics = mixed.evaluate().metrics
    assert metrics["nowhere_unread"].value >= 0.8
    assert metrics["retrieved_auc"].value >= 0.9


@pytest.mark.parametrize("sound", [0.0, 1.0])
def test_what_is_said_about_nobody_follows_the_sound_where_there_is_one(tmp_path, sound):
    run = gf.train("world-mixed", set={"data.set.sound": sound}, out=tmp_path / "run")
    pull = run.evaluate().metrics["sound_pull"]
    assert (pull.low <= 0 <= pull.high) if sound == 0 else pull.low > 0.3


def test_six_seeds_and_a_verdict(tmp_path):
    study = gf.compare(
        "world-mixed",
        vary={"objective.parts.spans.salient": [0.0]},
        seeds=6,
        out=tmp_path / "study",
    )
    (verdict,) = study.verdicts
    assert verdict.verdict in ("worse", "not decided", "same")
    assert verdict.seeds == 6
