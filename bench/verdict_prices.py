"""What a verdict costs: the prices that docs/statistics.md quotes, by simulation through ``decide``.

    python bench/verdict_prices.py [STUDIES]   # 500 studies a figure take about a minute

Noise is 1 everywhere: the standard deviation over seeds of a paired difference.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from scipy.optimize import brentq
from scipy.stats import nct, t

from glassformer.foundation.metrics import LOSS
from glassformer.study.history.ledger import Attempt, Earlier
from glassformer.study.statistics.corrections import FIRST_STUDY
from glassformer.study.statistics.evidence import Trials
from glassformer.study.statistics.selection_variance import tuning_variance
from glassformer.study.statistics.verdict import Rules, Verdict, decide

LANDSCAPES = {
    "five settings, curve .3": [0.3 * (at - 2.2) ** 2 for at in range(5)],
    "five settings, curve 1": [(at - 2.2) ** 2 for at in range(5)],
    "a rival 1 sd worse": [0.0, 1.0],
    "two rivals .7 worse": [0.0, 0.7, 0.7],
    "rivals on both sides": [4.0, 1.0, 0.0, 1.0, 4.0],
}
"""True means of the settings that are tried, in standard deviations of a run."""
TUNING_SEEDS = 4


def judge(d: np.ndarray, margin: float = 1e-9, tuned: float = 0.0, earlier: Earlier | None = None) -> Verdict:
    change = Trials("change", d, tuning_variance=tuned, earlier=earlier or Earlier())
    return decide(Trials("base", np.zeros_like(d)), [change], Rules((len(d),), LOSS, margin))[0]


def tuning(studies: int) -> None:
    """How much wider an interval is when both variants were tuned: the median ratio."""
    print("| settings tried | 8 seeds | 16 seeds | 16 seeds, pairs correlated by .6 |\n|---|---:|---:|---:|")
    for name, means in LANDSCAPES.items():
        rng, shown = np.random.default_rng(1), []
        for seeds, correlation in ((8, 0.0), (16, 0.0), (16, 0.6)):
            ratios = []
            for _ in range(studies):
                grids = [np.array(means)[:, None] + rng.standard_normal((len(means), TUNING_SEEDS)) for _ in range(2)]
                d = math.sqrt(2.0 * (1.0 - correlation)) * rng.standard_normal((seeds, 1)) + np.zeros((1, 2))
                luck = sum(tuning_variance(grid) for grid in grids)
                tuned, plain = (judge(d, tuned=one).difference.half_width for one in (luck, 0.0))
                ratios.append(tuned / plain)
            shown.append(f"{np.median(ratios):.2f}")
        print(f"| {name} | {' | '.join(shown)} |")


def same(studies: int) -> None:
    """How often "same" is said where it is true: 8 seeds, documents that add as much noise as 8 seeds at about 150."""
    sizes = (150, 300, 500, 1000)
    print("\n| margin | " + " | ".join(f"{m} documents" for m in sizes) + " |\n|---|" + "---:|" * len(sizes))
    for margin in (1.0, 2.0):
        shares = []
        for m in sizes:
            rng = np.random.default_rng(m)
            worlds = (
                rng.standard_normal((8, 1)) + 4.3 * rng.standard_normal((1, m)) + rng.standard_normal((8, m))
                for _ in range(studies)
            )
            shares.append(sum(judge(d, margin).verdict == "same" for d in worlds) / studies)
        print(f"| {margin:g} sd | " + " | ".join(f"{100 * share:.0f} %" for share in shares) + " |")


def seeds_for(level: float) -> float:
    """The seeds (fractions are fine) with which a t test at this level finds one standard deviation in 80 %."""

    def missing(n: float) -> float:
        return float(nct.sf(t.isf(level / 2, n - 1), n - 1, math.sqrt(n))) - 0.8

    return float(brentq(missing, 4.0, 60.0))


def studies_of_one_question(studies: int) -> None:
    """Seeds for one standard deviation: an ideal t test, the first study, a second one by other code."""
    spent = Attempt(
        "first", "p", "q", "old code", "change", 1e-9, tuple(range(100, 108)), {}, {}, "not decided", ((8, FIRST_STUDY),)
    )
    second = Earlier((spent,), "q", "new code", tuple(range(60)))
    rows = {"t test, alpha .05": (0.05, None), "first study": (0.04, None), "second study, not pooled": (0.005, second)}
    print("\n| test | nominal p | seeds for one sd with 80 % | found through decide (seeds) |\n|---|---:|---:|---:|")
    for name, (level, earlier) in rows.items():
        seeds, rng, shown = seeds_for(level), np.random.default_rng(3), "-"
        if name != "t test, alpha .05":
            n = math.ceil(seeds)
            worlds = (1.0 + rng.standard_normal((n, 1)) + np.zeros((1, 2)) for _ in range(studies))
            shown = f"{100 * sum(judge(d, earlier=earlier).verdict == 'worse' for d in worlds) / studies:.0f} % ({n})"
        print(f"| {name} | {level} | {seeds:.1f} | {shown} |")
    print(f"\nThe second study, not pooled, needs {seeds_for(0.005) / seeds_for(0.04):.2f} times the seeds of the first.")


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    tuning(count)
    same(count)
    studies_of_one_question(count)
