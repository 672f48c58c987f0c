"""All trials of a study -> one verdict per change: better, worse, same, not decided or invalid.

The path from values to word:

    d[s, i] = change - baseline          per seed s and document i (or group of documents), seeds of earlier studies included
    g = mean, V = SA/n + SB/m - SE/(nm)  two_way.py: crossed random effects, jackknife over documents, cosines over blocks
    p = max(p_seed, p_crossed)           t tests with V and with SA/n alone, df by Satterthwaite (1946)
    level(p)                             corrections.py: alpha spending over looks and studies (Lan and DeMets 1983)
    p_corrected = holm(levels)           over the planned changes (Holm 1979); exploratory ones: over all, with a fifth of alpha
    p_same                               two one-sided tests against the margin (Schuirmann 1987), alpha spent likewise

and the first row that holds decides (docs/statistics.md says why):

1. a run leaks, diverged, collapsed, is not above the trivial baseline, or is missing: invalid; failures in earlier studies of
   the question count, too
2. fewer than 6 seeds: not decided
3. p_same below its boundary: same, also where p is small
4. p_corrected at most alpha: better or worse
5. otherwise not decided; where p over seeds alone is small, better or worse on these documents

A look is an interim analysis, at a planned number of seeds; a study of n seeds is a study with one look. With several, each
change is judged at every look its seeds have reached until it is decided; a decision is final, whatever fails later. The
verdicts depend on the trials alone, so an interrupted study ends with the same ones. Pairs are never dropped, and a change
that fails still counts in the correction for multiple comparisons. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric
from glassformer.study.planning.conditions import Condition, worst_first
from glassformer.study.planning.power import FEWEST_SEEDS, SeedsNeeded
from glassformer.study.reporting import wording
from glassformer.study.statistics.corrections import ALPHA, Looks
from glassformer.study.statistics.evidence import Evidence, Problem, Rate, Trials
from glassformer.study.statistics.two_way import two_way_effects

Word = Literal["better", "worse", "same", "not decided", "invalid"]
DEFAULT_MARGIN = 0.01  # of a metric that states none
RULES = 2
"""The number of these rules: a study that was judged by others shows its first words beside the new ones."""


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
    """The verdict on one change, its reason, and the evidence.

    ``headline`` is the shortest form; ``sentence`` adds the caveats; ``details`` is everything else, a sentence each.
    """

    variant: str
    verdict: Word
    reason: str
    headline: str
    sentence: str
    details: tuple[str, ...] = ()
    evidence: Evidence | None = None
    exploratory: bool = False
    failed_seeds: tuple[int, ...] = ()
    seeds_run: int = 0
    rates: Mapping[str, Rate] | None = None
    conditions: tuple[Condition, ...] = ()
    """What else differs from the baseline, the worst first."""
    analyses: tuple[tuple[int, float], ...] = ()
    """At how many of the study's own seeds it was judged, and the fraction of alpha each spent: for the ledger."""

    @property
    def difference(self) -> Estimate:
        return self.evidence.difference if self.evidence else Estimate(None, reason=self.reason)

    def around_name(self) -> tuple[str, str]:
        """The sentence before and after the variant's name, for a renderer that formats the name itself."""
        marked = self.sentence.startswith(f"{wording.EXPLORATORY} {self.variant} ")
        before = wording.EXPLORATORY if marked else ""
        return before, self.sentence.removeprefix(before).lstrip().removeprefix(self.variant).lstrip()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as ``compare --json`` and the study's files have it."""
        nothing = {"p": None, "p_corrected": None, "seeds": self.seeds_run, "seeds_needed": SeedsNeeded(None).to_dict()}
        numbers = self.evidence.to_dict() if self.evidence else {"difference": self.difference.to_dict(), **nothing}
        return {
            "variant": self.variant,
            "verdict": self.verdict,
            **numbers,
            "reason": self.reason,
            "sentence": self.sentence,
            "headline": self.headline,
            "details": list(self.details),
            "conditions": [one.to_dict() for one in self.conditions],
            "exploratory": self.exploratory,
            "failed_seeds": list(self.failed_seeds),
            "failure_rates": {name: rate.to_dict() for name, rate in (self.rates or {}).items()},
        }


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
class _Judged:
    """One change at one look."""

    word: Word
    look: int
    evidence: Evidence


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

    def judged(self) -> dict[str, _Judged | None]:
        """Each change's last judgement, None where its seeds reached no look.

        Only significant changes lower the number of hypotheses left. One that is the same, or that failed, rejected no null
        hypothesis: giving its share of alpha to the others would break the family-wise error rate.
        """
        judged: dict[str, _Judged | None] = {change.name: None for change in self.changes}
        undecided, left = list(self.changes), len(self.changes)
        for look, seeds in enumerate(self.rules.looks):
            ready = [change for change in undecided if self._runs_complete(change, seeds)]
            for change, one in zip(ready, self._judge(ready, look, left)):
                judged[change.name] = one
                if one.word != "not decided":
                    undecided.remove(change)
                if one.evidence.p_corrected <= self.rules.alpha and one.evidence.seeds >= FEWEST_SEEDS:
                    left -= 1
        return judged

    def _runs_complete(self, change: Trials, seeds: int) -> bool:
        """Whether all runs of this look exist, of change and baseline, and none of them failed."""
        needed = seeds if self.rules.by_pairs else self.base.seeds
        there = change.seeds >= seeds and self.base.seeds >= needed >= 2
        return there and not change.all_problems(seeds) and not self.base.all_problems(needed)

    def _judge(self, ready: Sequence[Trials], look: int, left: int) -> list[_Judged]:
        """The words of the changes that have reached this look; ``left``: the changes not significant before it."""
        alpha, seeds = self.rules.alpha, self.rules.looks[look]
        found = [self._evidence(change, seeds) for change in ready]
        looks = [self._looks(change) for change in ready]

        def over_changes(p: Sequence[float], count: int) -> tuple[list[float], list[int]]:
            """Each p over its boundary, and its rank (Holm 1979): the i-th smallest against that for count - i hypotheses.

            What an earlier study of the question left open stays open: dropping the other changes cannot lower p.
            """
            order = sorted(range(len(ready)), key=lambda at: p[at] / looks[at].threshold(look, count))
            ratios, worst = [0.0] * len(ready), 0.0
            for rank, at in enumerate(order):
                worst = max(worst, p[at] / looks[at].threshold(look, count - rank))
                ratios[at] = max(worst, p[at] / looks[at].threshold(look, ready[at].earlier.left))
            return ratios, [order.index(at) for at in range(len(ready))]

        ratio, rank = over_changes([one.p for one in found], left)
        # a hypothesis of its own, over all changes: one that was significant before need not have been beyond the margin
        beyond, _ = over_changes([one.effects.p_beyond(one.margin) for one in found], len(self.changes))
        passed, judged = sum(one <= 1.0 for one in ratio), []
        for at, (change, one, own) in enumerate(zip(ready, found, looks)):
            one = replace(
                one,
                p_corrected=min(1.0, alpha * ratio[at]),
                level=own.threshold(look, max(left - min(rank[at], passed), change.earlier.left)),
                same_level=own.same_threshold(look),
                beyond_margin=beyond[at] <= 1.0,
                sought=(self.rules.planned_effect or one.margin, max(1, len(self.changes)), alpha),
            )
            word: Word = "not decided"
            if one.seeds >= FEWEST_SEEDS:
                if one.effects.p_same(one.margin) < one.same_level:
                    word = "same"
                elif ratio[at] <= 1.0:
                    word = "better" if self.rules.metric.better(one.effects.mean) else "worse"
            judged.append(_Judged(word, look, one))
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

    def _looks(self, change: Trials) -> Looks:
        """The looks of this study after those of earlier ones of the question."""
        return change.earlier.looks(self.rules.looks, self.rules.alpha, exploratory=change.exploratory)

    def verdict(self, change: Trials, judged: _Judged | None) -> Verdict:
        """The first row that holds."""
        if judged is None or judged.word == "not decided":
            if self.base.all_problems() and Problem.LEAK not in change.all_problems().values():
                return self._baseline_invalid(change)
            if change.all_problems():
                return self._invalid(change)
        failed, base_failed, _ = change.earlier.failures()
        if failed > base_failed:
            return self._invalid(change)
        if judged is None:
            run = min(change.seeds, self.base.seeds) if self.rules.by_pairs else change.seeds
            return _without_numbers(change, "not decided", wording.waiting(run, self.rules.looks), run)
        looks, evidence = self._looks(change), judged.evidence
        conditions = tuple(worst_first(change.conditions, better=self.rules.metric.better(evidence.effects.mean)))
        explanation = wording.Explanation(
            replace(change, conditions=conditions), judged.word, evidence, looks, judged.look, len(self.changes), self.rules
        )
        return Verdict(
            variant=change.name,
            verdict=judged.word,
            reason=explanation.reason(),
            headline=explanation.headline(),
            sentence=explanation.sentence(),
            details=tuple(explanation.details()),
            evidence=evidence,
            exploratory=change.exploratory,
            seeds_run=evidence.seeds,
            conditions=conditions,
            analyses=tuple(looks.spent(judged.look + 1)) if evidence.seeds >= FEWEST_SEEDS else (),
        )

    def _baseline_invalid(self, change: Trials) -> Verdict:
        """Row 1, because of the baseline: an undecided change has nothing to be compared with."""
        problems, labels = self.base.all_problems(), self.base_labels
        reason = wording.problem(problems, labels, self.base.seeds, "the baseline")
        found = _without_numbers(change, "invalid", reason, min(self.base.seeds, change.seeds))
        return replace(found, failed_seeds=tuple(labels[position] for position in problems))

    def _invalid(self, change: Trials) -> Verdict:
        """Row 1. If all values exist (a leaking variant that was trained anyway), the sentence adds the apparent difference.

        Failures of training count over all studies of the question, or a study could be repeated until no run fails.
        """
        base, problems, seeds, evidence = self.base, change.all_problems(), min(self.base.seeds, change.seeds), None
        if seeds > 1 and np.isfinite(change.values[:seeds]).all() and np.isfinite(base.values[:seeds]).all():
            evidence = self._evidence(change, seeds)
        failed, base_failed, runs = change.earlier.failures()
        own = Rate(len(change.unstable()) + failed, change.seeds + runs)
        its = Rate(len(base.unstable()) + base_failed, base.seeds + runs)
        more_often = own.failed * its.runs > its.failed * own.runs
        unstable = more_often and own.failed < own.runs  # one that always fails is not unstable: it does not train
        reason, headline, measured = wording.invalid(change, self.labels, evidence, (own, its) if unstable else None)
        return Verdict(
            variant=change.name,
            verdict="invalid",
            reason=reason,
            headline=headline,
            sentence=headline + ("" if base.all_problems() else measured),
            evidence=evidence,
            exploratory=change.exploratory,
            failed_seeds=tuple(self.labels[position] for position in problems),
            seeds_run=seeds,
            conditions=change.conditions,
            rates={"change": own, "baseline": its} if unstable else None,
        )


def _without_numbers(change: Trials, word: Word, reason: str, seeds_run: int) -> Verdict:
    headline = wording.headline(change.name, word, reason)
    return Verdict(change.name, word, reason, headline, headline, exploratory=change.exploratory, seeds_run=seeds_run)
