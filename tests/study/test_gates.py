"""The promises of the verdict, held by simulation: false findings, coverage, false "same", power.

The quick half runs a few hundred studies per cell, with bounds three standard errors wide around the promise; the full half
(``slow``) runs 2,000 and holds the promises themselves. All of it goes through the code that judges real studies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from glassformer.foundation.metrics import LOSS
from glassformer.study.planning.power import detectable
from glassformer.study.statistics.corrections import Looks, holm
from glassformer.study.statistics.evidence import Trials
from glassformer.study.statistics.two_way import two_way_effects
from glassformer.study.statistics.verdict import Rules, decide

DOCUMENTS, MARGIN = 150, 0.01
TOKENS = np.random.default_rng(11).lognormal(5.0, 0.5, DOCUMENTS).round()


@dataclass(frozen=True)
class World:
    """How trials vary: runs of one seed are correlated, all changes share one baseline, documents and cells add noise."""

    seed_sd: float = 0.01
    correlation: float = 0.5
    document_sd: float = 0.05
    cell_sd: float = 0.1
    tails: float = math.inf  # degrees of freedom of the noise of the runs; infinite is normal

    def losses(self, rng: np.random.Generator, studies: int, changes: int, seeds: int, effect: float) -> np.ndarray:
        """loss[study, variant, seed, document]; variant 0 is the baseline."""
        if math.isinf(self.tails):
            runs = rng.standard_normal((studies, changes + 1, seeds, 1))
        else:
            runs = rng.standard_t(self.tails, (studies, changes + 1, seeds, 1)) / math.sqrt(self.tails / (self.tails - 2))
        shared = rng.standard_normal((studies, 1, seeds, 1))
        runs = self.seed_sd * (math.sqrt(1 - self.correlation) * runs + math.sqrt(self.correlation) * shared)
        likes = self.document_sd / math.sqrt(2) * rng.standard_normal((studies, changes + 1, 1, DOCUMENTS))
        cells = self.cell_sd * rng.standard_normal((studies, changes + 1, seeds, DOCUMENTS))
        losses = 3.0 + runs + likes + cells
        losses[:, 1:] += effect
        return losses

    def sd_of_difference(self) -> float:
        """The true sd over seeds of the paired seed means."""
        share = float((TOKENS**2).sum() / TOKENS.sum() ** 2)
        return math.sqrt(2 * self.seed_sd**2 * (1 - self.correlation) + 2 * self.cell_sd**2 * share)


def words(differences: np.ndarray, looks: Looks, margin: float) -> np.ndarray:
    """word[study, change] of d[study, change, seed, document]: the rule of the verdict for all studies at once."""
    result = np.full(differences.shape[:2], "not decided", dtype="<U11")
    found_before = np.zeros(differences.shape[:2], dtype=bool)
    for look, seeds in enumerate(looks.seeds):
        one = two_way_effects(differences[:, :, :seeds], TOKENS)
        going = result == "not decided"
        # holm counts what is left by itself when what was found before is given as certain
        corrected = holm(np.where(found_before, 0.0, np.where(going, looks.level(one.p, look), 1.0)))
        found = going & (corrected <= looks.alpha)
        same = going & (one.p_same(margin) < looks.same_threshold(look))
        result[found & ~same] = np.where(one.mean < 0, "better", "worse")[found & ~same]
        result[same] = "same"
        found_before |= found
    return result


def simulate(world: World, looks: Looks, studies: int, *, effect: float = 0.0, margin: float = MARGIN, stream: int = 0):
    """The words of many studies, in pieces that fit into memory."""
    rng, found = np.random.default_rng([stream, studies]), []
    for start in range(0, studies, 100):
        losses = world.losses(rng, min(100, studies - start), looks.changes, looks.seeds[-1], effect)
        found.append(words(losses[:, 1:] - losses[:, :1], looks, margin))
    return np.concatenate(found)


def false_findings(world: World, looks: Looks, studies: int) -> int:
    found = simulate(world, looks, studies, margin=1e-9)  # a margin that can never be met: "same" must not hide a false finding
    return int(np.isin(found, ("better", "worse")).any(axis=1).sum())


def three_errors(share: float, studies: int) -> float:
    return 3.0 * math.sqrt(share * (1 - share) / studies)


FIXED, SEQUENTIAL = (8,), (6, 8, 12, 16)
CELLS = [
    pytest.param(changes, looks, world, id=f"{changes}-{'fixed' if len(looks) == 1 else 'looks'}-{name}")
    for changes in (1, 5)
    for looks in (FIXED, SEQUENTIAL)
    for name, world in {
        "normal": World(),
        "heavy": World(tails=3.0),
        "unpaired": World(correlation=0.0, document_sd=0.01),
        "seeds": World(document_sd=0.0005, cell_sd=0.001),
        "documents": World(document_sd=0.3),
    }.items()
]


@pytest.mark.parametrize("looks", [FIXED, SEQUENTIAL])
def test_the_fast_rule_of_this_file_is_the_rule_of_decide(looks):
    rng, changes = np.random.default_rng(5), 3
    plan = Looks(looks, changes=changes)
    losses = World(seed_sd=0.004, document_sd=0.02, cell_sd=0.05).losses(rng, 12, changes, looks[-1], effect=0.0)
    losses[:, 1] -= 0.12
    losses[:, 2] += 0.1
    expected = words(losses[:, 1:] - losses[:, :1], plan, 0.05)
    assert len(set(expected.ravel())) >= 3  # the comparison would be empty if all words were the same
    for study, row in zip(losses, expected):
        base, *others = (Trials(str(i), values) for i, values in enumerate(study))
        verdicts = decide(base, others, Rules(looks, LOSS, 0.05), weights=TOKENS)
        assert [verdict.verdict for verdict in verdicts] == list(row)


@pytest.mark.parametrize(("changes", "looks", "world"), CELLS)
def test_quick_false_findings(changes, looks, world):
    studies = 300
    assert false_findings(world, Looks(looks, changes=changes), studies) / studies <= 0.05 + three_errors(0.05, studies)


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "looks", "world"), CELLS)
def test_at_most_120_false_findings_in_2000_studies(changes, looks, world):
    assert false_findings(world, Looks(looks, changes=changes), 2000) <= 120


def coverage(world: World, seeds: int, studies: int) -> float:
    rng, covered = np.random.default_rng([seeds, studies]), 0
    for _ in range(0, studies, 100):
        losses = world.losses(rng, 100, 1, seeds, effect=0.003)
        one = two_way_effects(losses[:, 1] - losses[:, 0], TOKENS)
        covered += int((np.abs(one.mean - 0.003) <= one.half_width(0.95)).sum())
    return covered / studies


@pytest.mark.parametrize("seeds", [5, 6, 16])
def test_quick_coverage_of_the_printed_interval(seeds):
    assert 0.93 - three_errors(0.05, 400) <= coverage(World(), seeds, 400) <= 0.97 + three_errors(0.05, 400)


@pytest.mark.slow
@pytest.mark.parametrize("world", [World(), World(document_sd=0.15), World(tails=3.0), World(correlation=0.0)], ids=str)
@pytest.mark.parametrize("seeds", [6, 8, 12, 16])
def test_the_printed_interval_covers_93_to_97_per_cent(seeds, world):
    assert 0.93 <= coverage(world, seeds, 4000) <= 0.97


def false_same(world: World, looks: Looks, studies: int) -> float:
    """How often a difference as large as the margin is called the same."""
    return float((simulate(world, looks, studies, effect=MARGIN, stream=3) == "same").mean())


@pytest.mark.parametrize("looks", [FIXED, SEQUENTIAL])
def test_quick_false_same_at_the_margin(looks):
    world = World(seed_sd=0.003, document_sd=0.02, cell_sd=0.05)
    assert false_same(world, Looks(looks), 500) <= 0.065 + three_errors(0.05, 500)


def test_the_two_one_sided_tests_are_neither_too_strict_nor_too_lax():
    """On documents like those seen; what so few documents may have missed comes on top of it."""
    losses = World(seed_sd=0.003, document_sd=0.02, cell_sd=0.05).losses(np.random.default_rng(4), 500, 1, 8, effect=MARGIN)
    same = two_way_effects(losses[:, 1] - losses[:, 0], TOKENS).p_same_here(MARGIN) < 0.05
    assert 0.01 < float(same.mean()) <= 0.065 + three_errors(0.05, 500)


def test_what_is_the_same_is_called_that_on_a_thousand_documents():
    rng = np.random.default_rng(6)
    d = 0.002 * rng.standard_normal((200, 8, 1)) + 0.02 * rng.standard_normal((200, 8, 1000))
    assert float((two_way_effects(d).p_same(MARGIN) < 0.05).mean()) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("looks", [(6,), FIXED, (16,), SEQUENTIAL])
@pytest.mark.parametrize("tails", [math.inf, 3.0])
def test_a_difference_at_the_margin_is_called_same_in_at_most_6_5_per_cent(looks, tails):
    world = World(seed_sd=0.003, document_sd=0.02, cell_sd=0.05, tails=tails)
    assert false_same(world, Looks(looks), 2000) <= 0.065


def power(seeds: int, changes: int, studies: int) -> float:
    """The share of studies that find one true difference of the table's size, other changes being null."""
    world = World(document_sd=0.0, cell_sd=0.001)
    effect = detectable(seeds, changes) * world.sd_of_difference()
    rng, found = np.random.default_rng([seeds, changes, studies]), 0
    for _ in range(0, studies, 100):
        losses = world.losses(rng, 100, changes, seeds, effect=0.0)
        losses[:, 1] += effect
        found += int((words(losses[:, 1:] - losses[:, :1], Looks((seeds,), changes=changes), 1e-9)[:, 0] == "worse").sum())
    return found / studies


@pytest.mark.parametrize(("seeds", "changes"), [(6, 5), (8, 1)])
def test_quick_power_is_that_of_the_table(seeds, changes):
    assert power(seeds, changes, 400) == pytest.approx(0.80, abs=0.04 + three_errors(0.8, 400))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [6, 8, 12, 16])
@pytest.mark.parametrize("changes", [1, 3, 5])
def test_power_is_within_4_points_of_the_table(seeds, changes):
    assert power(seeds, changes, 2000) == pytest.approx(0.80, abs=0.04)
