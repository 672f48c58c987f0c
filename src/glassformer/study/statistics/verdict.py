"""All trials of a study -> one verdict per change: better, worse, same, not decided or invalid.

The path from values to word: first ``two_way_effects`` (two_way.py), then ``decide`` and ``_Family._judge`` below; formula and
source stand beside each step.

    d[s, i] = change - baseline          per seed s and document i (or group of documents), seeds of earlier studies included
    g = mean, V = SA/n + SB/m - SE/(nm)  crossed random effects, jackknife over documents, cosines over blocks
    p = max(p_seed, p_crossed)           t tests with SA/n alone and with V
    p over its boundary                  corrections.py: alpha spending over looks and studies (Lan and DeMets 1983)
    p_corrected                          over the planned changes (Holm 1979); exploratory ones: over all, at a fifth of alpha
    p_same                               two one-sided tests against the margin (Schuirmann 1987), alpha spent likewise

The first row that holds decides (docs/statistics.md says why):

1. a run leaks, diverged, collapsed, is not above the trivial baseline, or is missing: invalid; failures in earlier studies of
   the question count, too
2. fewer than 6 seeds: not decided
3. p_same below its boundary: same, also where p is small
4. p_corrected at most alpha: better or worse
5. otherwise not decided; where p over seeds alone is small, better or worse on these documents

A look is an interim analysis, at a planned number of seeds; a study of n seeds is a study with one look. A change is judged at
every look its seeds have reached until it is decided; a decision is final, whatever fails later. The verdicts depend on the
trials alone, so an interrupted study ends with the same ones. Pairs are never dropped, and a change that fails still counts in
the correction for multiple comparisons. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric
from glassformer.study.planning.conditions import Condition, worst_first
from glassformer.study.planning.power import FEWEST_SEEDS, SeedsNeeded
from glassformer.study.reporting import wording
from glassformer.study.statistics.corrections import ALPHA, Looks, over_boundaries
from glassformer.study.statistics.evidence import Evidence, Problem, Rate, Trials, Word
from glassformer.study.statistics.two_way import two_way_effects

DEFAULT_MARGIN = 0.01  # of a metric that states none
RULES = 2
"""The number of these rules: a study that was judged by others shows its first words beside the new ones."""


def decide(
    base: Trials,
    changes: Sequence[Trials],
    rules: Rules,
    *,
    weights: npt.ArrayLike | None = None,
    labels: Sequence[int] | None = None,
    blocks: bool = False,
    groups: Sequence[object] | None = None,
    base_labels: Sequence[int] = (),
) -> list[Verdict]:
    """A verdict per change, in the order given. ``weights`` are the documents' token counts, ``labels`` the seeds.

    ``blocks``: the documents are consecutive blocks of one text. ``groups``: by document, what it belongs to (a speaker, an
    article). ``base_labels``: the baseline's seeds, if it has its own.
    """
    for change in changes:
        if change.values.shape[1] != base.values.shape[1]:
            raise ConfigError(
                f"{change.name} was evaluated on {change.values.shape[1]} documents and {base.name} on {base.values.shape[1]}; "
                "every variant must be evaluated on the same whole set.",
                reason="other-documents",
            )
    w = np.ones(base.values.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64)
    grouped = groups if groups is not None and 1 < len(set(groups)) < len(groups) else None
    seeds = max([rules.looks[-1], base.seeds, *(change.seeds for change in changes)])
    own = tuple(range(seeds)) if labels is None else tuple(labels)
    # Exploratory changes are corrected over all changes tried; they never weaken the correction of the planned ones.
    planned = [change for change in changes if not change.exploratory]
    families = {
        kind: _Family(base, family, rules, w, grouped, blocks and grouped is None, own, tuple(base_labels) or own)
        for kind, family in ((False, planned), (True, changes))
    }
    judged = {kind: family.judged() for kind, family in families.items()}
    return [families[one.exploratory].verdict(one, judged[one.exploratory][one.name]) for one in changes]


@dataclass(frozen=True)
class _Family:
    """The changes over which p values are corrected together."""

    base: Trials
    changes: Sequence[Trials]
    rules: Rules
    weights: npt.NDArray[np.float64]
    groups: Sequence[object] | None
    blocks: bool
    labels: tuple[int, ...]
    base_labels: tuple[int, ...]

    def judged(self) -> dict[str, Evidence | None]:
        """Each change as it was judged last, None where its seeds reached no look.

        Only significant changes lower the number of hypotheses left. One that is the same, or that failed, rejected no null
        hypothesis: giving its share of alpha to the others would break the family-wise error rate.
        """
        judged: dict[str, Evidence | None] = {change.name: None for change in self.changes}
        undecided, left = list(self.changes), len(self.changes)
        for look, seeds in enumerate(self.rules.looks):
            ready = [change for change in undecided if self._runs_complete(change, seeds)]
            for change, one in zip(ready, self._judge(ready, look, left)):
                judged[change.name] = one
                if one.word != "not decided":
                    undecided.remove(change)
                if one.p_corrected <= self.rules.alpha and one.seeds >= FEWEST_SEEDS:
                    left -= 1
        return judged

    def _judge(self, ready: Sequence[Trials], look: int, left: int) -> list[Evidence]:
        """Those that have reached this look, with their words; ``left``: the changes not significant before it."""
        alpha, looks = self.rules.alpha, [self._looks(change) for change in ready]
        found = [self._evidence(change, self.rules.looks[look]) for change in ready]

        def boundary(at: int, count: int) -> float:
            """What an earlier study of the question left open stays open: dropping the other changes cannot lower p."""
            return looks[at].threshold(look, max(count, ready[at].earlier.left))

        ratio, rank = over_boundaries([one.p for one in found], boundary, left)
        # a hypothesis of its own, over all changes: one that was significant before need not have been beyond the margin
        beyond, _ = over_boundaries([one.effects.p_beyond(one.margin) for one in found], boundary, len(self.changes))
        passed, judged = sum(one <= 1.0 for one in ratio), []
        for at, one in enumerate(found):
            word: Word = "not decided"
            same_level = looks[at].same_threshold(look)
            if one.seeds >= FEWEST_SEEDS and one.effects.p_same(one.margin) < same_level:
                word = "same"
            elif one.seeds >= FEWEST_SEEDS and ratio[at] <= 1.0:
                word = "better" if self.rules.metric.better(one.effects.mean) else "worse"
            judged.append(
                replace(
                    one,
                    look=look,
                    word=word,
                    p_corrected=min(1.0, alpha * ratio[at]),
                    level=boundary(at, left - min(rank[at], passed)),
                    same_level=same_level,
                    beyond_margin=beyond[at] <= 1.0,
                    sought=(self.rules.planned_effect or one.margin, max(1, len(self.changes)), alpha),
                )
            )
        return judged

    def _evidence(self, change: Trials, seeds: int) -> Evidence:
        """The analysis after so many of the change's own seeds; those of earlier studies come first."""
        own, pairs, metric = change.values[:seeds], self.rules.by_pairs, self.rules.metric
        labels, base_means, earlier = change.earlier.rows() if pairs else ((), [], [])
        used = self.weights > 0.0
        base = self.base.values[:seeds] if pairs else self.base.values
        means = [*base_means, *(base[:, used] @ (self.weights[used] / self.weights.sum()))]
        effects = two_way_effects(
            np.stack([*earlier, *(own - base)]) if pairs else own,
            self.weights,
            base=None if pairs else base,
            blocks=self.blocks,
            groups=self.groups,
            tuning_variance=self.base.tuning_variance + change.tuning_variance,
            answers=metric.answers,
        )
        return Evidence(
            metric=metric,
            margin=change.earlier.margin or self.rules.margin,  # that of the question's first study
            effects=effects,
            level=self.rules.alpha,
            same_level=self.rules.alpha,
            unit="groups" if self.groups is not None else "blocks" if self.blocks else "documents",
            base_value=float(np.mean(means)),
            seed_labels=(*labels, *self.labels[: len(own)]),
            earlier_seeds=len(labels),
            base_runs=None if pairs else self.base.seeds,
        )

    def _runs_complete(self, change: Trials, seeds: int) -> bool:
        """Whether all runs of this look exist, of change and baseline, and none of them failed."""
        needed = seeds if self.rules.by_pairs else self.base.seeds
        there = change.seeds >= seeds and self.base.seeds >= needed >= 2
        return there and not change.all_problems(seeds) and not self.base.all_problems(needed)

    def _looks(self, change: Trials) -> Looks:
        """The looks of this study after those of earlier ones of the question."""
        return change.earlier.looks(self.rules.looks, self.rules.alpha, exploratory=change.exploratory)

    def verdict(self, change: Trials, judged: Evidence | None) -> Verdict:
        """The first row that holds, and its sentences."""
        failed, base_failed, _ = change.earlier.failures()
        undecided = judged is None or judged.word == "not decided"
        if failed > base_failed or (undecided and (self.base.all_problems() or change.all_problems())):
            return self._invalid(change)
        if judged is None:
            run = min(change.seeds, self.base.seeds) if self.rules.by_pairs else change.seeds
            return self._without_numbers(change, "not decided", wording.waiting(run, self.rules.looks), run)
        looks = self._looks(change)
        conditions = tuple(worst_first(change.conditions, better=self.rules.metric.better(judged.effects.mean)))
        told = wording.Explanation(replace(change, conditions=conditions), judged, looks, len(self.changes), self.rules)
        return Verdict(
            variant=change.name,
            verdict=judged.word,
            reason=told.reason(),
            headline=told.headline(),
            caveats=told.caveats(),
            evidence=judged,
            exploratory=change.exploratory,
            seeds_run=judged.seeds,
            conditions=conditions,
            analyses=tuple(looks.spent(judged.look + 1)) if judged.seeds >= FEWEST_SEEDS else (),
        )

    def _without_numbers(self, change: Trials, word: Word, reason: str, seeds: int) -> Verdict:
        headline = wording.headline(change.name, word, reason)
        return Verdict(change.name, word, reason, headline, exploratory=change.exploratory, seeds_run=seeds)

    def _invalid(self, change: Trials) -> Verdict:
        """Row 1. Of a leaking variant that was trained anyway, the sentence adds the apparent difference.

        An undecided change has nothing to be compared with where the baseline failed. Failures of training count over all
        studies of the question, or a study could be repeated until no run fails.
        """
        base, problems, seeds = self.base, change.all_problems(), min(self.base.seeds, change.seeds)
        failed, base_failed, runs = change.earlier.failures()
        if base.all_problems() and not failed > base_failed and Problem.LEAK not in problems.values():
            reason = wording.problem(base.all_problems(), self.base_labels, base.seeds, "the baseline")
            seeds_failed = tuple(self.base_labels[position] for position in base.all_problems())
            return replace(self._without_numbers(change, "invalid", reason, seeds), failed_seeds=seeds_failed)
        measured = seeds > 1 and np.isfinite(change.values[:seeds]).all() and np.isfinite(base.values[:seeds]).all()
        evidence = self._evidence(change, seeds) if measured else None
        own = Rate(len(change.unstable()) + failed, change.seeds + runs)
        its = Rate(len(base.unstable()) + base_failed, base.seeds + runs)
        more_often = own.failed * its.runs > its.failed * own.runs
        unstable = more_often and own.failed < own.runs  # one that always fails is not unstable: it does not train
        reason, headline, apparent = wording.invalid(change, self.labels, evidence, (own, its) if unstable else None)
        return Verdict(
            variant=change.name,
            verdict="invalid",
            reason=reason,
            headline=headline,
            caveats=() if base.all_problems() else apparent,
            evidence=evidence,
            exploratory=change.exploratory,
            failed_seeds=tuple(self.labels[position] for position in problems),
            seeds_run=seeds,
            conditions=change.conditions,
            rates={"change": own, "baseline": its} if unstable else None,
        )


@dataclass(frozen=True)
class Rules:
    """The decision rule that the plan fixed before the first run. ``looks`` has one entry, n, for a study without looks.

    ``by_pairs``: paired by seed; else each change against all runs of the baseline, by Welch's test. ``command``: the command
    that adds seeds, with ``{seeds}`` for their number. ``remarks``: caveats appended to every sentence.
    """

    looks: tuple[int, ...]
    metric: Metric
    margin: float = DEFAULT_MARGIN
    alpha: float = ALPHA
    planned_effect: float | None = None
    by_pairs: bool = True
    command: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def default_margin(self) -> float:
        return self.metric.margin or DEFAULT_MARGIN

    def __post_init__(self) -> None:
        if not self.margin > 0.0:
            raise ConfigError(
                f"margin={self.margin} must be above 0: it is the smallest difference that would matter to you.",
                reason="margin-not-positive",
            )


@dataclass(frozen=True)
class Verdict:
    """The verdict on one change: its word, its reason as a code, ``sentence`` (headline and caveats), and the evidence."""

    variant: str
    verdict: Word
    """better, worse, same, not decided or invalid."""
    reason: str
    headline: str
    caveats: tuple[str, ...] = ()
    evidence: Evidence | None = None
    """The numbers behind the word; None where nothing could be compared."""
    exploratory: bool = False
    failed_seeds: tuple[int, ...] = ()
    seeds_run: int = 0
    rates: Mapping[str, Rate] | None = None
    conditions: tuple[Condition, ...] = ()
    """What else differs from the baseline, the worst first."""
    analyses: tuple[tuple[int, float], ...] = ()
    """At how many of the study's own seeds it was judged, and the fraction of alpha each spent: for the ledger."""

    @property
    def sentence(self) -> str:
        """Headline and caveats."""
        return " ".join([self.headline, *self.caveats])

    @property
    def difference(self) -> Estimate:
        """Of the judged metric, variant minus baseline, with its interval."""
        return self.evidence.difference if self.evidence else Estimate(None, reason=self.reason)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as ``compare --json`` and the study's files have it."""
        nothing = {"p": None, "p_corrected": None, "seeds": self.seeds_run, "seeds_needed": SeedsNeeded(None).to_dict()}
        numbers = self.evidence.to_dict() if self.evidence else {"difference": self.difference.to_dict(), **nothing}
        if self.verdict != "not decided":  # more seeds are asked for by nobody
            numbers = {**numbers, "seeds_needed": SeedsNeeded(None).to_dict()}
        return {
            "variant": self.variant,
            "verdict": self.verdict,
            **numbers,
            "reason": self.reason,
            "sentence": self.sentence,
            "headline": self.headline,
            "conditions": [one.to_dict() for one in self.conditions],
            "exploratory": self.exploratory,
            "failed_seeds": list(self.failed_seeds),
            "failure_rates": {name: rate.to_dict() for name, rate in (self.rates or {}).items()},
        }

    def __str__(self) -> str:
        return f"[{self.verdict}] {self.sentence}"

    def __repr__(self) -> str:
        numbers = "" if self.difference.value is None else f", difference {self.difference}"
        return f"Verdict({self.variant!r}, {self.verdict!r}{numbers})"
