"""Four verdicts from made-up losses: 8 seeds, 1,000 documents, and changes whose true effect we know."""

import numpy as np

from glassformer.figures.intervals import IntervalRow, difference_intervals
from glassformer.figures.save import save_figure
from glassformer.foundation.metrics import LOSS
from glassformer.study.statistics.evidence import Problem, Trials
from glassformer.study.statistics.verdict import Rules, decide

rng = np.random.default_rng(4)
tokens = rng.integers(50, 500, 1000)  # the length of each document
document = rng.normal(3.0, 0.4, 1000)  # some documents are harder than others, for every variant
luck = rng.normal(0.0, 0.01, (8, 1))  # what a seed does to every variant alike


def losses(effect, own_luck=0.003):
    """loss[seed, document] in nats per token."""
    noise = rng.normal(0.0, own_luck, (8, 1)) + rng.normal(0.0, 0.02, (8, 1000))
    return document + luck + effect + noise


base = Trials("base", losses(0.0))
changes = [
    Trials("helps", losses(-0.03)),
    Trials("does nothing", losses(0.0)),
    Trials("may help", losses(-0.01, own_luck=0.02)),
    Trials("cheats", losses(-0.8), problems=dict.fromkeys(range(8), Problem.LEAK)),
]
verdicts = decide(base, changes, Rules(looks=(8,), metric=LOSS, margin=0.01), weights=tokens)
for verdict in verdicts:
    print(f"[{verdict.verdict}] {verdict.sentence}")

rows = [
    IntervalRow(v.variant, v.verdict, v.difference.value, v.difference.low, v.difference.high, v.evidence.seed_differences)
    for v in verdicts
]
save_figure(difference_intervals(rows, margin=0.01, unit="nats per token", title="Four changes, 8 seeds"), "statistics.svg")
