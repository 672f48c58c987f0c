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
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from glassformer.foundation.distributions import Floats
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric
from glassformer.study.planning.conditions import Condition, worst_first
from glassformer.study.planning.power import FEWEST_SEEDS, SeedsNeeded, documents_wanted, seeds_needed
from glassformer.study.reporting import wording
from glassformer.study.statistics.corrections import ALPHA, Looks, holm
from glassformer.study.statistics.evidence import Evidence, Problem, Rate, Trials, interval, long_and_short, outliers
from glassformer.study.statistics.two_way import TwoWayEffects, by_group, two_way_effects, unpaired

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


@dataclass(frozen=True)
class _Judgement:
    """One change at one look. Corrected p values: of a difference, over seeds alone, and of "by more than the margin".

    ``steps``: by how many hypotheses Holm's method divided alpha for this change.
    """

    look: int
    effects: TwoWayEffects
    p: float
    p_seed: float
    p_beyond: float
    steps: int
    word: Word


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
    seeds = max([rules.looks[-1], base.seeds, *(change.seeds for change in changes)])
    units = _Units(
        np.ones(base.values.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64),
        None if groups is None or not 1 < len(set(groups)) < len(groups) else tuple(groups),
        blocks,
        tuple(range(seeds)) if labels is None else tuple(labels),
        tuple(base_labels),
    )
    for change in changes:
        if change.values.shape[1] != base.values.shape[1]:
            raise ConfigError(
                f"{change.name} was evaluated on {change.values.shape[1]} documents and {base.name} on {base.values.shape[1]}; "
                "every variant must be evaluated on the same whole set.",
                reason="other-documents",
            )
    # Exploratory changes are corrected over all changes tried; they never weaken the correction of the planned ones.
    planned = [change for change in changes if not change.exploratory]
    families = {False: _Family(units, base, planned, rules), True: _Family(units, base, changes, rules)}
    return [families[change.exploratory].verdict(change) for change in changes]


@dataclass(frozen=True)
class _Units:
    """The documents of the evaluation set, and the seeds."""

    weights: Floats
    groups: tuple[object, ...] | None
    blocks: bool
    labels: tuple[int, ...]
    base_labels: tuple[int, ...]

    @property
    def name(self) -> str:
        return "groups" if self.groups is not None else "blocks" if self.blocks else "documents"

    def effects(self, change: Floats, base: Floats | None = None) -> TwoWayEffects:
        """Of paired differences, or of two independent arms; documents of one group are one unit."""
        arms, weights = [change] if base is None else [change, base], self.weights
        if self.groups is not None:
            grouped = [by_group(arm, self.weights, self.groups) for arm in arms]
            arms, weights = [values for values, _ in grouped], grouped[0][1]
        blocks = self.blocks and self.groups is None
        if base is None:
            return two_way_effects(arms[0], weights, blocks=blocks)
        return unpaired(arms[0], arms[1], weights, blocks=blocks)

    def seed_means(self, values: Floats) -> Floats:
        used = self.weights > 0.0
        return np.asarray(values[:, used] @ (self.weights[used] / self.weights.sum()))


class _Family:
    """The changes over which p values are corrected together, judged at every look that their seeds have reached."""

    def __init__(self, units: _Units, base: Trials, changes: Sequence[Trials], rules: Rules) -> None:
        self.units, self.base, self.changes, self.rules = units, base, changes, rules
        count = max(1, len(changes))
        self.looks = {
            one.name: one.earlier.looks(rules.looks, rules.alpha, count, exploratory=one.exploratory) for one in changes
        }

    def effects(self, change: Trials, seeds: int) -> TwoWayEffects:
        """The analysis of a change after so many of its own seeds; those of earlier studies come first."""
        own = change.values[:seeds]
        if self.rules.by_pairs:
            d = np.stack([*change.earlier.rows()[2], *(own - self.base.values[:seeds])])
            effects = self.units.effects(d)
        else:
            effects = self.units.effects(own, self.base.values)
        return effects.with_tuning_variance(self.base.tuning_variance + change.tuning_variance)

    def margin(self, change: Trials) -> float:
        """The margin of the question's first study, or the plan's."""
        return change.earlier.margin or self.rules.margin

    @cached_property
    def judged(self) -> dict[str, _Judgement | None]:
        """Each change's last judgement, None where its seeds reached no look.

        Only significant changes lower the number of hypotheses left. One that is the same, or that failed, rejected no null
        hypothesis: giving its share of alpha to the others would break the family-wise error rate.
        """
        judged: dict[str, _Judgement | None] = {change.name: None for change in self.changes}
        undecided, left = list(self.changes), len(self.changes)
        for look, seeds in enumerate(self.rules.looks):
            ready = [change for change in undecided if self._runs_complete(change, seeds)]
            for change, judgement in zip(ready, self._judge(ready, look, left)):
                judged[change.name] = judgement
                if judgement.word != "not decided":
                    undecided.remove(change)
                if judgement.p <= self.rules.alpha and self._enough(change, seeds):
                    left -= 1
        return judged

    def _enough(self, change: Trials, seeds: int) -> bool:
        return self.looks[change.name].pooled + seeds >= FEWEST_SEEDS

    def _runs_complete(self, change: Trials, seeds: int) -> bool:
        """Whether all runs of this look exist, of change and baseline, and none of them failed."""
        needed = seeds if self.rules.by_pairs else self.base.seeds
        there = change.seeds >= seeds and self.base.seeds >= needed >= 2
        return there and not change.all_problems(seeds) and not self.base.all_problems(needed)

    def _judge(self, ready: Sequence[Trials], look: int, left: int) -> list[_Judgement]:
        """Judges the changes that have reached this look; ``left``: the changes not significant before it.

        "By more than the margin" is a hypothesis of its own, so it is corrected over all changes: one that was significant
        before need not have been beyond the margin.
        """
        answers, alpha, seeds = self.rules.metric.answers, self.rules.alpha, self.rules.looks[look]
        effects = [self.effects(change, seeds) for change in ready]

        def over_looks(p: Sequence[Floats]) -> list[float]:
            """p corrected over looks and studies."""
            return [float(self.looks[change.name].level(float(one), look)) for change, one in zip(ready, p)]

        def corrected(levels: list[float], count: int) -> Floats:
            """Over ``count`` changes; 1 for planned changes without a p at this look."""
            holms = holm([*levels, *np.ones(count - len(levels))])
            # what an earlier study of the question left open stays open: dropping the others cannot lower p
            return np.array([max(own, min(1.0, level * one.earlier.left)) for own, level, one in zip(holms, levels, ready)])

        p = [np.maximum(one.p, one.smallest_p) if answers else one.p for one in effects]
        p_beyond = [one.p_beyond(self.margin(change)) for one, change in zip(effects, ready)]
        p_beyond = [np.maximum(own, one.smallest_p) if answers else own for own, one in zip(p_beyond, effects)]
        levels = over_looks(p)
        by_p, by_seeds = corrected(levels, left), corrected(over_looks([one.p_seed for one in effects]), left)
        by_beyond = corrected(over_looks(p_beyond), len(self.changes))
        found, order = int((by_p <= alpha).sum()), np.argsort(np.argsort(levels, kind="stable"), kind="stable")
        judgements = []
        for n, (change, own) in enumerate(zip(ready, effects)):
            same = float(own.p_same(self.margin(change), answers=answers)) < self.looks[change.name].same_threshold(look)
            word: Word = "not decided"
            if self._enough(change, seeds):
                word = "same" if same else self._direction(float(own.mean)) if by_p[n] <= alpha else "not decided"
            steps = max(left - min(int(order[n]), found), change.earlier.left)
            judgements.append(_Judgement(look, own, float(by_p[n]), float(by_seeds[n]), float(by_beyond[n]), steps, word))
        return judgements

    def _direction(self, mean: float) -> Literal["better", "worse"]:
        return "better" if self.rules.metric.better(mean) else "worse"

    def verdict(self, change: Trials) -> Verdict:
        """The first row that holds."""
        judged, failed, base_failed = self.judged[change.name], *change.earlier.failures()[:2]
        if judged is None or judged.word == "not decided":
            if self.base.all_problems() and Problem.LEAK not in change.all_problems().values():
                return self._baseline_invalid(change)
            if change.all_problems():
                return self._invalid(change)
        if failed > base_failed:
            return self._invalid(change)
        if judged is None:
            run = min(change.seeds, self.base.seeds) if self.rules.by_pairs else change.seeds
            return _without_numbers(change, "not decided", wording.waiting(run, self.rules.looks), run)
        looks = self.looks[change.name]
        evidence = self._evidence(change, judged, looks)
        better = self.rules.metric.better(float(judged.effects.mean))
        conditions = tuple(worst_first(change.conditions, better=better))
        explanation = wording.Explanation(
            name=change.name,
            word=judged.word,
            evidence=evidence,
            looks=looks,
            look=judged.look,
            changes=len(self.changes),
            effect=self.rules.planned_effect or evidence.margin,
            default_margin=evidence.margin == (self.rules.metric.margin or DEFAULT_MARGIN),
            exploratory=change.exploratory,
            command=self.rules.command,
            remarks=(*change.earlier.remarks(self.rules.margin), *change.remarks, *self.rules.remarks),
            studies=change.earlier.number,
            conditions=conditions,
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
            analyses=tuple(looks.spent(judged.look + 1)) if self._enough(change, self.rules.looks[judged.look]) else (),
        )

    def _evidence(self, change: Trials, judged: _Judgement | None, looks: Looks, seeds: int = 0) -> Evidence:
        """The numbers behind a judgement; of an invalid change without one, over its first ``seeds`` seeds."""
        effects = self.effects(change, seeds) if judged is None else judged.effects
        metric, margin, alpha = self.rules.metric, self.margin(change), self.rules.alpha
        effect, count = self.rules.planned_effect or margin, max(1, len(self.changes))
        level = alpha if judged is None else looks.threshold(judged.look, judged.steps)
        same_level = alpha if judged is None else looks.same_threshold(judged.look)
        labels, base_means, _ = change.earlier.rows()
        own = effects.seeds - (len(labels) if self.rules.by_pairs else 0)
        labels = (*labels, *self.units.labels[:own]) if self.rules.by_pairs else self.units.labels[:own]
        means = tuple(float(mean) for mean in effects.seed_means)
        base = [*base_means, *self.units.seed_means(self.base.values[: own if self.rules.by_pairs else None])]
        base_value = float(np.mean(base if self.rules.by_pairs else base[len(base_means) :]))
        return Evidence(
            metric=metric,
            margin=margin,
            difference=interval(effects, 1.0 - level, metric),
            on_this_set=effects.estimate(1.0 - level, on_this_set=True).within(metric.difference_bounds),
            same_interval=interval(effects, 1.0 - 2.0 * same_level, metric),
            base_value=base_value,
            value=base_value + float(effects.mean),
            p=float(np.maximum(effects.p, effects.smallest_p) if metric.answers else effects.p),
            p_seed=float(effects.p_seed),
            p_crossed=float(effects.p_crossed),
            p_same=float(effects.p_same(margin, answers=metric.answers)),
            p_beyond=float(effects.p_beyond(margin)),
            p_corrected=1.0 if judged is None else judged.p,
            p_seed_corrected=1.0 if judged is None else judged.p_seed,
            p_beyond_corrected=1.0 if judged is None else judged.p_beyond,
            documents=effects.documents,
            unit=self.units.name,
            documents_wanted=documents_wanted(effects, effect, count, alpha),
            document_share=float(effects.document_share),
            tuning_share=float(effects.tuning_share),
            long_and_short=None if self.units.blocks else long_and_short(effects),
            seeds_needed=SeedsNeeded(None) if judged is None else seeds_needed(effects, effect, count, alpha),
            seed_labels=labels,
            seed_differences=means,
            far_off_seeds=tuple(labels[position] for position in outliers(means)),
            earlier_seeds=len(labels) - own,
            base_runs=None if self.rules.by_pairs else self.base.seeds,
        )

    def _baseline_invalid(self, change: Trials) -> Verdict:
        """Row 1, because of the baseline: an undecided change has nothing to be compared with."""
        problems, labels = self.base.all_problems(), self.units.base_labels or self.units.labels
        reason = wording.problem(problems, labels, self.base.seeds, "the baseline")
        found = _without_numbers(change, "invalid", reason, min(self.base.seeds, change.seeds))
        return replace(found, failed_seeds=tuple(labels[position] for position in problems))

    def _invalid(self, change: Trials) -> Verdict:
        """Row 1. If all values exist (a leaking variant that was trained anyway), the sentence adds the apparent difference.

        Failures of training count over all studies of the question, or a study could be repeated until no run fails.
        """
        base, labels, problems = self.base, self.units.labels, change.all_problems()
        seeds, evidence = min(base.seeds, change.seeds), None
        if seeds > 1 and np.isfinite(change.values[:seeds]).all() and np.isfinite(base.values[:seeds]).all():
            evidence = self._evidence(change, None, self.looks[change.name], seeds)
        failed, base_failed, runs = change.earlier.failures()
        own = Rate(len(change.unstable()) + failed, change.seeds + runs)
        its = Rate(len(base.unstable()) + base_failed, base.seeds + runs)
        more_often = own.failed * its.runs > its.failed * own.runs
        unstable = more_often and own.failed < own.runs  # one that always fails is not unstable: it does not train
        only_leaks, only_differs = (set(problems.values()) == {what} for what in (Problem.LEAK, Problem.STEP_DIFFERS))
        found = wording.problem(problems, labels, change.seeds, "it")
        reason = "unstable" if unstable else found
        if only_leaks and change.unjudged:
            reason = wording.NOT_JUDGED
        why = reason
        if only_leaks and change.leak:
            when = "" if evidence is not None else " and was not trained"
            if change.leaks_in_step or change.leaks_once_trained:
                when = f" {wording.leak_found(in_step=change.leaks_in_step)}"
            why = f"{wording.NOT_JUDGED if change.unjudged else 'it cheats'}{when}: {change.leak}"
        elif only_differs and change.leak:
            why = f"{wording.STEP_FOUND}: {change.leak}"
        elif unstable:
            where = found or "in earlier studies of this question"
            why = f"it is unstable. {own}, of the baseline {its} (exact 95 % intervals): {where}"
        if change.unequal and Problem.UNEQUAL in problems.values():
            reason = why = f"the plan demands what it does not have: {change.unequal}"
        headline, measured = wording.headline(change.name, "invalid", why), ""
        if evidence is not None and (only_leaks or only_differs) and not base.all_problems():
            believed = "Trained by that step" if only_differs else "Without the check one would have believed"
            measured = f" {believed}: {wording.apparent_difference(evidence)}."
        return Verdict(
            variant=change.name,
            verdict="invalid",
            reason=reason,
            headline=headline,
            sentence=headline + measured,
            evidence=evidence,
            exploratory=change.exploratory,
            failed_seeds=tuple(labels[position] for position in problems),
            seeds_run=seeds,
            conditions=change.conditions,
            rates={"change": own, "baseline": its} if unstable else None,
        )


def _without_numbers(change: Trials, word: Word, reason: str, seeds_run: int) -> Verdict:
    headline = wording.headline(change.name, word, reason)
    return Verdict(change.name, word, reason, headline, headline, exploratory=change.exploratory, seeds_run=seeds_run)
