"""The promises of the verdict where the world is not normal: unequal documents, blocks, rare losses, many claims, tuning.

Each cell was a broken promise once; what it gave then stands beside it. The quick half runs a few hundred studies per cell,
with bounds three standard errors wide; the full half (``slow``) runs 2,000 and holds the promise. All of it goes through the
code that judges real studies.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from glassformer.foundation.metrics import ACCURACY
from glassformer.study.statistics.corrections import Looks, holm
from glassformer.study.statistics.evidence import Analysis
from glassformer.study.statistics.selection_variance import tuning_variance
from glassformer.study.statistics.two_way import two_way_effects, unpaired

SEEDS, MARGIN = 8, 0.01
QUICK, FULL = 300, 2000


def three_errors(share: float, studies: int) -> float:
    return 3.0 * math.sqrt(share * (1 - share) / studies)


def pieces(studies: int) -> list[int]:
    """Sizes that fit into memory."""
    return [min(100, studies - start) for start in range(0, studies, 100)]


# -- unequal documents ---------------------------------------------------------------------------------------------------


def three_long(rng: np.random.Generator) -> np.ndarray:
    """3 of 150 documents hold 80 % of the tokens. Without the jackknife's weights: 12 % false alarms."""
    return np.concatenate([np.full(3, 0.8 / 3), np.full(147, 0.2 / 147)])


def pareto(rng: np.random.Generator) -> np.ndarray:
    """Sizes without a mean to speak of. Without the jackknife's weights: 9 %."""
    return rng.pareto(1.1, 150) + 1.0


def false_alarms_of_sizes(sizes, studies: int, stream: int = 0) -> tuple[float, float]:
    """The share of studies that find a difference where there is none, and of intervals that hold the truth."""
    rng, found, covered = np.random.default_rng([stream, studies]), 0, 0
    for _ in range(0, studies, 10):  # ten studies on each set of sizes
        likes = 0.05 * rng.standard_normal((10, 1, 150))
        d = 0.001 * rng.standard_normal((10, SEEDS, 1)) + likes + 0.02 * rng.standard_normal((10, SEEDS, 150))
        one = two_way_effects(d, sizes(rng))
        found += int((one.p <= 0.05).sum())
        covered += int((np.abs(one.mean) <= one.half_width(0.95)).sum())
    return found / studies, covered / studies


@pytest.mark.parametrize("sizes", [three_long, pareto])
def test_quick_few_documents_with_most_of_the_tokens(sizes):
    found, covered = false_alarms_of_sizes(sizes, QUICK)
    assert found <= 0.07 + three_errors(0.06, QUICK)
    assert covered >= 0.93 - three_errors(0.06, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [three_long, pareto])
def test_few_documents_with_most_of_the_tokens(sizes):
    found, covered = false_alarms_of_sizes(sizes, FULL)
    assert found <= 0.075
    assert covered >= 0.925


# -- blocks of one text --------------------------------------------------------------------------------------------------


def neighbours(rng: np.random.Generator, shape: tuple[int, ...], blocks: int, correlation: float) -> np.ndarray:
    """Values along a text, each alike the one before it."""
    values = rng.standard_normal((*shape, blocks))
    for at in range(1, blocks):
        values[..., at] = correlation * values[..., at - 1] + np.sqrt(1 - correlation**2) * values[..., at]
    return values


def false_alarms_of_blocks(correlation: float, blocks: int, studies: int, *, known: bool = True) -> float:
    rng, found = np.random.default_rng([blocks, studies, round(10 * correlation)]), 0
    for count in pieces(studies):
        d = 0.05 * neighbours(rng, (count, 1), blocks, correlation) + 0.003 * rng.standard_normal((count, SEEDS, 1))
        d = d + 0.02 * neighbours(rng, (count, SEEDS), blocks, correlation)
        found += int((two_way_effects(d, blocks=known).p <= 0.05).sum())
    return found / studies


@pytest.mark.parametrize("correlation", [0.3, 0.6])
def test_quick_blocks_of_one_text(correlation):
    assert false_alarms_of_blocks(correlation, 110, QUICK) <= 0.06 + three_errors(0.06, QUICK)
    assert false_alarms_of_blocks(correlation, 110, QUICK, known=False) > 0.1  # 14 and 31 %: blocks taken for documents


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [20, 110, 1000])
@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6])
def test_blocks_of_one_text(blocks, correlation):
    assert false_alarms_of_blocks(correlation, blocks, FULL) <= 0.07


# -- rare losses ---------------------------------------------------------------------------------------------------------


def answers(rng: np.random.Generator, studies: int, items: int, lost: float, turned: float) -> np.ndarray:
    """-1, 0 or 1 by [study, seed, item]: a share ``lost`` of the items in every run, and a share turned either way by luck."""
    always = rng.random((studies, 1, items)) < lost
    luck = (rng.random((studies, SEEDS, items)) < turned) * rng.choice([-1.0, 1.0], (studies, SEEDS, items))
    return np.where(always, -1.0, luck)


def called_same(d: np.ndarray, answers: bool = True) -> int:
    return int((two_way_effects(d).p_same(MARGIN, answers=answers) < 0.05).sum())


@pytest.mark.parametrize("items", [50, 100, 300, 600])
def test_quick_items_that_are_always_lost_are_not_the_same(items):
    """One per cent of the items, the margin itself. By the variance alone: 29 % at 100 items and 12 % at 600."""
    rng = np.random.default_rng(items)
    d = answers(rng, 2 * QUICK, items, MARGIN, 0.0)
    assert called_same(d) / (2 * QUICK) <= 0.05 + three_errors(0.05, 2 * QUICK)
    if items == 100:
        assert float((two_way_effects(d).p_same_here(MARGIN) < 0.05).mean()) > 0.15


@pytest.mark.slow
@pytest.mark.parametrize("items", [50, 100, 300, 600, 1000])
@pytest.mark.parametrize("turned", [0.0, 0.02])
def test_items_that_are_always_lost_are_not_the_same(items, turned):
    rng = np.random.default_rng([items, 7])
    same = sum(called_same(answers(rng, count, items, MARGIN, turned)) for count in pieces(FULL))
    assert same / FULL <= 0.065


@pytest.mark.parametrize(("items", "least"), [(1000, 0.95), (5000, 0.95)])
def test_answers_that_differ_by_luck_alone_are_still_found_the_same(items, least):
    rng = np.random.default_rng(items)
    assert called_same(answers(rng, 60, items, 0.0, 0.02)) / 60 >= least


def false_findings_of_answers(items: int, studies: int) -> float:
    """Right or wrong, as accurate as the baseline, with items that either one always loses."""
    rng, found = np.random.default_rng([items, studies]), 0
    for count in pieces(studies):
        sign = rng.choice([-1.0, 1.0], (count, 1, items)) * (rng.random((count, 1, items)) < 0.06)
        luck = (rng.random((count, SEEDS, items)) < 0.05) * rng.choice([-1.0, 1.0], (count, SEEDS, items))
        found += int((two_way_effects(np.where(sign != 0.0, sign, luck)).p <= 0.05).sum())
    return found / studies


@pytest.mark.parametrize("items", [3, 4, 5, 12])
@pytest.mark.parametrize("undone", [0.0, 0.2])
def test_quick_false_findings_of_few_answers(items, undone):
    """Each item won or lost by chance, the same with every seed but for some: by t alone 24, 13, 7 and 5 % are found."""
    rng = np.random.default_rng([items, round(10 * undone)])
    d = np.repeat(rng.choice([-1.0, 1.0], (QUICK, 1, items)), 8, axis=1) * (rng.random((QUICK, 8, items)) >= undone)
    analysis = Analysis(ACCURACY, MARGIN, tuple(range(8)), np.ones(items))
    assert float((analysis.p(two_way_effects(d)) <= 0.05).mean()) <= 0.06 + three_errors(0.06, QUICK)


@pytest.mark.parametrize("items", [50, 300])
def test_quick_false_findings_of_accuracy(items):
    assert false_findings_of_answers(items, QUICK) <= 0.06 + three_errors(0.06, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("items", [50, 100, 300, 600, 1000])
def test_false_findings_of_accuracy(items):
    assert false_findings_of_answers(items, FULL) <= 0.06


def hurt(rng: np.random.Generator, studies: int, documents: int, worst: float) -> np.ndarray:
    """Losses by [study, seed, document]: so few documents lose ``worst`` nats that all of them together make the margin."""
    few = worst * (rng.random((studies, 1, documents)) < MARGIN / worst)
    return few + 0.002 * rng.standard_normal((studies, SEEDS, documents)) + 0.001 * rng.standard_normal((studies, SEEDS, 1))


@pytest.mark.parametrize("documents", [100, 600])
@pytest.mark.parametrize("worst", [0.3, 1.0])
def test_quick_rare_badly_hurt_documents_are_not_the_same(documents, worst):
    """By the variance alone: 38 % at 100 documents of which one in a hundred loses a nat."""
    d = hurt(np.random.default_rng([documents, 1]), QUICK, documents, worst)
    assert called_same(d, answers=False) / QUICK <= 0.05 + three_errors(0.05, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("documents", [100, 300, 600, 1000])
@pytest.mark.parametrize("worst", [0.1, 0.3, 1.0, 2.0])
def test_rare_badly_hurt_documents_are_not_the_same(documents, worst):
    """Two nats at once and one document in two hundred: only what is seen can be counted, so 300 documents miss some."""
    rng = np.random.default_rng([documents, 9])
    same = sum(called_same(hurt(rng, count, documents, worst), answers=False) for count in pieces(FULL))
    missed = (1 - MARGIN / worst) ** documents if worst > 1.0 and documents >= 299 else 0.0
    assert same / FULL <= 0.065 + missed


# -- claims over several changes -----------------------------------------------------------------------------------------


def false_claims_beyond(changes: int, studies: int, *, corrected: bool = True) -> float:
    """Every change differs by the margin exactly: how often one is said to differ by more than it."""
    rng, wrong = np.random.default_rng([changes, studies]), 0
    looks = Looks((SEEDS,), changes=changes)
    for count in pieces(studies):
        runs = rng.standard_normal((count, changes + 1, SEEDS, 1))
        d = MARGIN + 0.01 * (runs[:, 1:] - runs[:, :1]) + 0.02 * rng.standard_normal((count, changes, SEEDS, 40))
        p = looks.level(two_way_effects(d).p_beyond(MARGIN), 0)
        wrong += int((((holm(p) if corrected else p) <= 0.05) & (two_way_effects(d).mean > MARGIN)).any(axis=1).sum())
    return wrong / studies


@pytest.mark.parametrize("changes", [5, 8])
def test_quick_by_more_than_the_margin(changes):
    assert false_claims_beyond(changes, QUICK) <= 0.05 + three_errors(0.05, QUICK)
    assert false_claims_beyond(changes, QUICK, corrected=False) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("changes", [1, 5, 8])
def test_by_more_than_the_margin(changes):
    """Uncorrected, 10 and 12 % for 5 and 8 changes."""
    assert false_claims_beyond(changes, FULL) <= 0.05


# -- a limit that no test can mend ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("rare_runs", "least", "most"), [(0.02, 0.08, 0.35), (0.05, 0.25, 0.65)])
def test_a_change_with_rare_bad_runs_fools_every_test(rare_runs, least, most):
    """Its mean is the baseline's, its typical run is better: 8 runs mostly show the typical ones. The sentence says so."""
    rng = np.random.default_rng(5)
    bad = rng.random((FULL, SEEDS, 1)) < rare_runs
    d = 0.01 * rng.standard_normal((FULL, SEEDS, 1)) + 0.2 * (bad - rare_runs)
    found = two_way_effects(np.broadcast_to(d, (FULL, SEEDS, 40)))
    assert least <= float((found.p <= 0.05).mean()) <= most


# -- tuning --------------------------------------------------------------------------------------------------------------


NEAR_RIVAL, TWO_RIVALS = np.array([0.0, 1.0]), np.array([0.0, 0.7, 0.7])


def false_findings_after_tuning(
    real: np.ndarray, tuning_seeds: int, studies: int, *, seeds: int = SEEDS, shared: float = 0.0, luck: bool = True
) -> float:
    """Both variants choose on the same landscape (in sd of a run), and are then compared on fresh seeds, shared or not."""
    rng, found = np.random.default_rng([studies, tuning_seeds, len(real), round(10 * real.sum())]), 0
    for _ in range(studies):
        grids = [real[:, None] + rng.standard_normal((len(real), tuning_seeds)) for _ in range(2)]
        first, second = (real[grid.mean(axis=1).argmin()] for grid in grids)
        d = first - second + np.sqrt(2.0 * (1.0 - shared)) * rng.standard_normal((seeds, 1))
        extra = sum(tuning_variance(grid) for grid in grids) if luck else 0.0
        found += bool(two_way_effects(np.repeat(d, 2, axis=1)).with_tuning_variance(extra).p_seed <= 0.05)
    return found / studies


def curved(curve: float) -> np.ndarray:
    """Five settings whose best lies between two of them."""
    return curve * (np.arange(5) - 2.2) ** 2


def test_quick_tuning_on_identical_landscapes():
    assert false_findings_after_tuning(curved(1.0), 4, QUICK) <= 0.06 + three_errors(0.06, QUICK)
    assert false_findings_after_tuning(curved(1.0), 2, QUICK, luck=False) > 0.09


def test_quick_tuning_with_few_settings_that_are_nearly_level():
    """Two or three settings, seeds that go together: 14 to 17 % where means were shrunk towards each other."""
    assert false_findings_after_tuning(TWO_RIVALS, 4, QUICK, shared=0.6) <= 0.05 + three_errors(0.05, QUICK)
    assert false_findings_after_tuning(NEAR_RIVAL, 2, QUICK, shared=0.6) <= 0.05 + three_errors(0.05, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("curve", [0.1, 0.3, 1.0, 2.0])
@pytest.mark.parametrize(("tuning_seeds", "most"), [(2, 0.09), (4, 0.065), (8, 0.065)])
def test_tuning_on_identical_landscapes(curve, tuning_seeds, most):
    """Without the luck of the choice in the interval: 10 to 15 % on 2 seeds, 9 % on 4."""
    assert false_findings_after_tuning(curved(curve), tuning_seeds, FULL) <= most


@pytest.mark.slow
@pytest.mark.parametrize("real", [NEAR_RIVAL, TWO_RIVALS, np.array([4.0, 1.0, 0.0, 1.0, 4.0])])
@pytest.mark.parametrize(("seeds", "shared", "most"), [(8, 0.0, 0.065), (8, 0.6, 0.08), (16, 0.0, 0.105)])
def test_tuning_with_settings_that_are_nearly_level(real, seeds, shared, most):
    """16 seeds see a wrong choice of one sd clearly, and 4 tuning seeds make one in seven: 9 % at worst, 15 % before."""
    assert false_findings_after_tuning(real, 4, FULL, seeds=seeds, shared=shared) <= most


# -- a bank of baselines -------------------------------------------------------------------------------------------------


def bank_studies(rng, studies: int, *, kept: int, new: int, sd: float, effect: float, documents: float) -> np.ndarray:
    """p by study, of ``new`` runs of a change whose runs vary ``sd`` times as much, against ``kept`` of the baseline."""
    likes = documents * rng.standard_normal((studies, 1, 60))
    change = effect + sd * rng.standard_normal((studies, new, 1)) + 0.3 * rng.standard_normal((studies, new, 60)) + likes
    base = rng.standard_normal((studies, kept, 1)) + 0.3 * rng.standard_normal((studies, kept, 60))
    return unpaired(change, base).p


@pytest.mark.parametrize("sd", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("documents", [0.0, 2.0])
def test_quick_false_findings_against_a_bank(sd, documents):
    p = bank_studies(np.random.default_rng(8), QUICK, kept=32, new=6, sd=sd, effect=0.0, documents=documents)
    assert float((p <= 0.05).mean()) <= 0.06 + three_errors(0.06, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("sd", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("documents", [0.0, 1.0, 4.0])
@pytest.mark.parametrize(("kept", "new"), [(16, 6), (32, 6), (32, 8)])
def test_false_findings_against_a_bank(sd, documents, kept, new):
    rng = np.random.default_rng([kept, new])
    p = np.concatenate(
        [bank_studies(rng, count, kept=kept, new=new, sd=sd, effect=0.0, documents=documents) for count in pieces(FULL)]
    )
    assert float((p <= 0.05).mean()) <= 0.065


def test_six_new_runs_against_32_kept_find_more_than_eight_pairs():
    """Uncorrelated seeds, a difference of 1.5 standard deviations of a run: 82 % against 73 %."""
    rng = np.random.default_rng(9)
    bank = bank_studies(rng, 600, kept=32, new=6, sd=1.0, effect=1.5, documents=0.0)
    pairs = 1.5 + rng.standard_normal((600, 8, 1)) - rng.standard_normal((600, 8, 1)) + 0.4 * rng.standard_normal((600, 8, 60))
    assert float((bank <= 0.05).mean()) > float((two_way_effects(pairs).p <= 0.05).mean()) + 0.03
    assert float((bank <= 0.05).mean()) == pytest.approx(0.82, abs=0.06)
