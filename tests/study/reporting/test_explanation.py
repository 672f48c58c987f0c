"""The sentences of a verdict: short, whole, and in the words of the models they were made after."""

from __future__ import annotations

import numpy as np

from glassformer.foundation.metrics import ACCURACY, LOSS
from glassformer.study.inference.evidence import Trials
from glassformer.study.inference.verdict import Rules, decide


def told(shift: float, sd: float, changes: int = 1, **rules):
    rng = np.random.default_rng(3)
    base = Trials("base", 2.28 + 0.1 * rng.normal(size=(8, 700)))
    effects = np.array([-1.5, -0.9, -0.5, -0.1, 0.1, 0.5, 0.9, 1.5])[:, None]
    others = [Trials(f"other {i}", base.values + 0.001 * effects) for i in range(changes - 1)]
    own = Trials("rotary positions", base.values + shift + sd * effects)
    return decide(base, [own, *others], Rules((8,), LOSS, margin=0.02, **rules))[0]


def test_better_is_one_sentence_and_its_p():
    assert told(-0.4, 0.05, 3).sentence == (
        "rotary positions is better, by more than your margin of 0.02: loss 2.281 -> 1.881, lower by 0.400 "
        "(95 % interval 0.359 to 0.441), in 8 of 8 seeds. p < 0.0001, corrected for 3 changes."
    )


def test_not_decided_says_what_fits_and_what_to_do():
    verdict = told(-0.007, 0.03, command="glassformer compare plan.yaml --seeds {seeds} --first-seed 8")
    assert verdict.headline == (
        "rotary positions is not decided: 8 seeds are not enough. Anything from 0.031 better to 0.017 worse is possible; your "
        "margin is 0.02. To detect a difference of 0.02 (your margin), a further study needs about 42 new seeds (21 to 75): "
        "glassformer compare plan.yaml --seeds 42 --first-seed 8."
    )
    assert verdict.details[0].startswith("Measured: loss 2.281 -> 2.274, lower by 0.007")


def test_accuracy_is_better_when_it_rises():
    rng = np.random.default_rng(1)
    base = Trials("base", (rng.random((8, 400)) < 0.5).astype(float))
    change = Trials("more", np.where(rng.random((8, 400)) < 0.3, 1.0, base.values))
    verdict = decide(base, [change], Rules((8,), ACCURACY))[0]
    assert verdict.headline.startswith("more is better, by more than your margin of 0.01: accuracy 0.")
    noise = Trials("noise", np.where(rng.random((8, 400)) < 0.3, rng.integers(0, 2, (8, 400)), base.values))
    assert " better to 0." in decide(base, [noise], Rules((8,), ACCURACY))[0].headline
