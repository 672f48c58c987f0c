"""All trials of a study -> one verdict per change: better, worse, same, not decided or invalid, in one fixed order.

The first row that holds decides (docs/statistics.md says why):

1. a run leaks, diverged, collapsed, is not above the trivial baseline, or is missing: invalid
2. fewer than 6 seeds: not decided
3. both one-sided tests place the difference inside the margin: same, also where p is small
4. the corrected p is at most alpha: better or worse
5. only the corrected p over seeds alone is at most alpha: not decided for other text, better or worse on this set
6. otherwise: not decided

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
from glassformer.study.planning.power import FEWEST_SEEDS, SeedsNeeded, documents_wanted, seeds_needed
from glassformer.study.reporting import wording
from glassformer.study.statistics.corrections import ALPHA, Looks, holm
from glassformer.study.statistics.evidence import Analysis, Evidence, Problem, Rate, Trials, gather
from glassformer.study.statistics.two_way import TwoWayEffects

Word = Literal["better", "worse", "same", "not decided", "invalid"]
DEFAULT_MARGIN = 0.01  # of a metric that states none


@dataclass(frozen=True)
class Rules:
    """The decision rule that the plan fixed before the first run. ``looks`` has one entry, n, for a study without looks.

    ``by_pairs``: paired by seed; else each change against all runs of the baseline, by Welch's test. ``command``: the command
    for a study on fresh seeds, with ``{seeds}`` for their number. ``remarks``: caveats appended to every sentence.
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
    decided_alone_by: Mapping[int, str] | None = None
    """Leave-one-out: the seeds without which the verdict would change, each with that other verdict."""
    failed_seeds: tuple[int, ...] = ()
    seeds_run: int = 0
    rates: Mapping[str, Rate] | None = None

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
            "exploratory": self.exploratory,
            "decided_alone_by": {str(seed): word for seed, word in (self.decided_alone_by or {}).items()},
            "failed_seeds": list(self.failed_seeds),
            "failure_rates": {name: rate.to_dict() for name, rate in (self.rates or {}).items()},
        }


@dataclass(frozen=True)
class _Judgement:
    """One change at one look. Corrected p values: of a difference, over seeds alone, and of "by more than the margin".

    ``steps`` is the multiplier of Holm's method: the number of hypotheses left when it reached this change.
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
    base_labels: Sequence[int] = (),
) -> list[Verdict]:
    """A verdict per change, in the order given. ``weights`` are the documents' token counts, ``labels`` the seeds.

    ``blocks``: the documents are consecutive blocks of one text. ``base_labels``: the baseline's seeds, if it has its own.
    """
    seeds = max([rules.looks[-1], base.seeds, *(change.seeds for change in changes)])
    analysis = Analysis(
        rules.metric,
        rules.margin,
        tuple(range(seeds)) if labels is None else tuple(labels),
        np.ones(base.values.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64),
        blocks,
        rules.by_pairs,
        tuple(base_labels),
    )
    # An exploratory change is corrected over all changes tried; it never weakens the correction of the planned ones.
    planned = [change for change in changes if not change.exploratory]
    families = {False: _Family(analysis, base, planned, rules), True: _Family(analysis, base, changes, rules)}
    return [families[change.exploratory].verdict(change) for change in changes]


class _Family:
    """The changes over which p values are corrected together, judged at every look that their seeds have reached."""

    def __init__(self, analysis: Analysis, base: Trials, changes: Sequence[Trials], rules: Rules) -> None:
        self.analysis, self.base, self.changes, self.rules = analysis, base, changes, rules
        self.looks = Looks(rules.looks, rules.alpha, max(1, len(changes)))

    @cached_property
    def judged(self) -> dict[str, _Judgement | None]:
        """Each change's last judgement, None where its seeds reached no look.

        Only significant changes lower the number of hypotheses left. One that is the same, or that failed, rejected no null
        hypothesis: giving its share of alpha to the others would break the family-wise error rate.
        """
        judged: dict[str, _Judgement | None] = {change.name: None for change in self.changes}
        undecided, left = list(self.changes), len(self.changes)
        for look, seeds in enumerate(self.looks.seeds):
            ready = [change for change in undecided if self._runs_complete(change, seeds)]
            for change, judgement in zip(ready, self._judge(ready, look, left)):
                judged[change.name] = judgement
                if judgement.word != "not decided":
                    undecided.remove(change)
                if judgement.p <= self.rules.alpha and seeds >= FEWEST_SEEDS:
                    left -= 1
        return judged

    def _runs_complete(self, change: Trials, seeds: int) -> bool:
        """Whether all runs of this look exist, of change and baseline, and none of them failed."""
        needed = seeds if self.rules.by_pairs else self.base.seeds
        there = change.seeds >= seeds and self.base.seeds >= needed >= 2
        return there and not change.all_problems(seeds) and not self.base.all_problems(needed)

    def _judge(self, ready: Sequence[Trials], look: int, left: int) -> list[_Judgement]:
        """Judges the changes that have reached this look. Every p is corrected over looks, then changes, then studies.

        ``left``: the number of changes not significant before this look. "By more than the margin" is a hypothesis of its own,
        so it is corrected over all changes: one that was significant before need not have been beyond the margin.
        """
        if not ready:
            return []

        def over_looks(p: Sequence[Floats], count: int) -> Floats:
            """Levels that Holm's method compares with alpha; 1 for planned changes without a p at this look."""
            return np.concatenate([self.looks.level([float(one) for one in p], look), np.ones(count - len(p))])

        effects = [self.analysis.effects(self.base, change, self.looks.seeds[look]) for change in ready]
        levels = over_looks([self.analysis.p(one) for one in effects], left)
        p = holm(levels)
        p_seed = holm(over_looks([one.p_seed for one in effects], left))
        p_beyond = holm(over_looks([self.analysis.p_beyond(one) for one in effects], self.looks.changes))
        steps = left - np.argsort(np.argsort(levels, kind="stable"), kind="stable")
        judgements = []
        for n, (change, own) in enumerate(zip(ready, effects)):
            earlier, claim = change.earlier, self._direction(float(own.mean))
            corrected = earlier.corrected(float(p[n]), claim=claim)
            same = float(self.analysis.p_same(own, change)) < self._same_level(change, look)
            judgements.append(
                _Judgement(
                    look=look,
                    effects=own,
                    p=corrected,
                    p_seed=earlier.corrected(float(p_seed[n]), claim=claim),
                    p_beyond=earlier.corrected(float(p_beyond[n]), claim=None),
                    steps=int(steps[n]),
                    word="not decided"
                    if self.looks.seeds[look] < FEWEST_SEEDS
                    else self._word(float(own.mean), same=same, significant=corrected <= self.looks.alpha),
                )
            )
        return judgements

    def _direction(self, mean: float) -> Literal["better", "worse"]:
        return "better" if self.analysis.metric.better(mean) else "worse"

    def _same_level(self, change: Trials, look: int) -> float:
        """The significance level of "same" at a look, with the correction for earlier studies."""
        return self.looks.same_threshold(look) * change.earlier.share(claim="same")

    def _word(self, mean: float, *, same: bool, significant: bool) -> Word:
        """Rows 3, 4 and 6 (row 5 gives the same word as row 6)."""
        return "same" if same else self._direction(mean) if significant else "not decided"

    def verdict(self, change: Trials) -> Verdict:
        """The first row that holds."""
        judged = self.judged[change.name]
        if judged is None or judged.word == "not decided":
            if self.base.all_problems() and Problem.LEAK not in change.all_problems().values():
                return self._baseline_invalid(change)
            if change.all_problems():
                return self._invalid(change)
        if judged is None:
            run = min(change.seeds, self.base.seeds) if self.rules.by_pairs else change.seeds
            return _without_numbers(change, "not decided", wording.waiting(run, self.rules.looks), run)
        effect, claim = self.rules.planned_effect or self.rules.margin, self._direction(float(judged.effects.mean))
        evidence, alone = self._evidence(change, judged, effect), self._deciding_seeds(change, judged)
        explanation = wording.Explanation(
            name=change.name,
            word=judged.word,
            evidence=evidence,
            looks=self.looks,
            look=judged.look,
            effect=effect,
            alone=alone,
            exploratory=change.exploratory,
            command=self.rules.command,
            remarks=(*change.earlier.remarks(self.rules.margin, claim=claim), *change.remarks, *self.rules.remarks),
            studies=1 if change.earlier.share(claim=claim) == 1.0 else len(change.earlier.others) + 1,
            same_level=self._same_level(change, judged.look),
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
            decided_alone_by=alone,
            seeds_run=evidence.seeds,
        )

    def _evidence(self, change: Trials, judged: _Judgement, effect: float) -> Evidence:
        """Every number behind a judgement. ``effect``: the difference that the study should be able to find."""
        alpha, changes = self.looks.alpha, self.looks.changes
        next_alpha = alpha * change.earlier.next_share(self.rules.looks[-1])
        return replace(
            gather(
                self.analysis,
                self.base,
                change,
                judged.effects,
                same_level=self._same_level(change, judged.look),
                any_look_level=self.looks.threshold(judged.look, 1) if len(self.looks.seeds) > 1 else None,
                needed=seeds_needed(judged.effects, effect, changes, alpha),
            ),
            seeds_next=seeds_needed(judged.effects, effect, changes, next_alpha),
            documents_wanted=documents_wanted(judged.effects, effect, changes, alpha),
            p_corrected=judged.p,
            p_seed_corrected=judged.p_seed,
            p_beyond_corrected=judged.p_beyond,
        )

    def _deciding_seeds(self, change: Trials, judged: _Judgement) -> dict[int, str]:
        """Leave-one-out: the seeds without which the verdict would change, each with that other verdict."""
        effects = judged.effects
        nothing_differs = float(effects.mean) == float(effects.from_seeds) == float(effects.from_documents) == 0.0
        if effects.seeds < FEWEST_SEEDS or nothing_differs:
            return {}
        without = self.analysis.without_each_seed(self.base, change, effects.seeds)
        levels = np.minimum(self.looks.level(self.analysis.p(without), judged.look) * judged.steps, 1.0)
        is_same = self.analysis.p_same(without, change) < self._same_level(change, judged.look)
        words = {}
        for label, mean, level, same in zip(self.analysis.labels, without.mean, levels, is_same):
            p = change.earlier.corrected(float(level), claim=self._direction(float(mean)))
            words[label] = self._word(float(mean), same=bool(same), significant=p <= self.looks.alpha)
        return {label: word for label, word in words.items() if word != judged.word}

    def _baseline_invalid(self, change: Trials) -> Verdict:
        """Row 1, because of the baseline: an undecided change has nothing to be compared with."""
        problems, labels = self.base.all_problems(), self.analysis.base_labels or self.analysis.labels
        reason = wording.problem(problems, labels, self.base.seeds, "the baseline")
        found = _without_numbers(change, "invalid", reason, min(self.base.seeds, change.seeds))
        return replace(found, failed_seeds=tuple(labels[position] for position in problems))

    def _invalid(self, change: Trials) -> Verdict:
        """Row 1. If all values exist (a leaking variant that was trained anyway), the sentence adds the apparent difference."""
        base, labels, problems = self.base, self.analysis.labels, change.all_problems()
        seeds, evidence = min(base.seeds, change.seeds), None
        if seeds > 1 and np.isfinite(change.values[:seeds]).all() and np.isfinite(base.values[:seeds]).all():
            effects, needed = self.analysis.effects(base, change, seeds), SeedsNeeded(None)
            evidence = gather(self.analysis, base, change, effects, same_level=ALPHA, any_look_level=None, needed=needed)
        own, its = Rate(change.unstable(), change.seeds), Rate(base.unstable(), base.seeds)
        more_often = own.failed * base.seeds > its.failed * change.seeds
        unstable = more_often and own.failed < change.seeds  # one that always fails is not unstable: it does not train
        only_leaks, only_differs = (set(problems.values()) == {what} for what in (Problem.LEAK, Problem.STEP_DIFFERS))
        reason = "unstable" if unstable else wording.problem(problems, labels, change.seeds, "it")
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
            found = wording.problem(problems, labels, change.seeds, "it")
            why = f"it is unstable. {own}, of the baseline {its} (exact 95 % intervals): {found}"
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
            rates={"change": own, "baseline": its} if unstable else None,
        )


def _without_numbers(change: Trials, word: Word, reason: str, seeds_run: int) -> Verdict:
    headline = wording.headline(change.name, word, reason)
    return Verdict(change.name, word, reason, headline, headline, exploratory=change.exploratory, seeds_run=seeds_run)
