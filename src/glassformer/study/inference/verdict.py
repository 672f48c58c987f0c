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
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric
from glassformer.study.inference.corrections import ALPHA, Looks, holm
from glassformer.study.inference.evidence import Analysis, Evidence, Problem, Rate, Trials, gather
from glassformer.study.inference.two_way import TwoWayEffects
from glassformer.study.planning.power import FEWEST_SEEDS, SeedsNeeded, documents_wanted, seeds_needed
from glassformer.study.reporting import wording
from glassformer.study.reporting.explanation import Explanation

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
            raise ConfigError(f"margin={self.margin} must be above 0: it is the smallest difference that would matter to you.")


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
    planned = _judge_all_looks(analysis, base, [change for change in changes if not change.exploratory], rules)
    # An exploratory change is corrected over all changes tried; it never weakens the correction of the planned ones.
    everything = _judge_all_looks(analysis, base, changes, rules) if any(change.exploratory for change in changes) else planned
    verdicts = []
    for change in changes:
        judged = (everything if change.exploratory else planned)[change.name]
        decided = judged is not None and judged.word != "not decided"
        if not decided and base.all_problems() and Problem.LEAK not in change.all_problems().values():
            verdicts.append(_baseline_invalid(analysis, base, change))
        elif not decided and change.all_problems():
            verdicts.append(_invalid(analysis, base, change))
        elif judged is None:
            verdicts.append(_waiting(base, change, rules))
        else:
            verdicts.append(_verdict(analysis, base, change, judged, rules, _family_size(changes, change)))
    return verdicts


def _family_size(changes: Sequence[Trials], change: Trials) -> int:
    """The number of changes over which this one is corrected."""
    return len(changes) if change.exploratory else sum(not other.exploratory for other in changes)


def _judge_all_looks(analysis: Analysis, base: Trials, changes: Sequence[Trials], rules: Rules) -> dict[str, _Judgement | None]:
    """Judges look after look; each change keeps its last judgement, None where its seeds reached no look.

    Only significant changes lower the number of hypotheses left. One that is the same, or that failed, rejected no null
    hypothesis: giving its share of alpha to the others would break the family-wise error rate.
    """
    looks = Looks(rules.looks, rules.alpha, max(1, len(changes)))
    judged: dict[str, _Judgement | None] = {change.name: None for change in changes}
    undecided = list(changes)
    left = len(changes)
    for look, seeds in enumerate(looks.seeds):
        ready = [change for change in undecided if _runs_complete(base, change, seeds, rules.by_pairs)]
        for change, now in zip(ready, _judge_look(analysis, base, ready, looks, look, left)):
            judged[change.name] = now
            if now.word != "not decided":
                undecided.remove(change)
            if now.p <= rules.alpha and seeds >= FEWEST_SEEDS:
                left -= 1
    return judged


def _runs_complete(base: Trials, change: Trials, seeds: int, by_pairs: bool) -> bool:
    """Whether all runs of this look exist, of change and baseline, and none of them failed."""
    needed = seeds if by_pairs else base.seeds
    there = change.seeds >= seeds and base.seeds >= needed >= 2
    return there and not change.all_problems(seeds) and not base.all_problems(needed)


def _judge_look(
    analysis: Analysis, base: Trials, ready: Sequence[Trials], looks: Looks, look: int, left: int
) -> list[_Judgement]:
    """Judges the changes that have reached this look. Every p is corrected over looks, then changes, then studies.

    ``left``: the number of changes not significant before this look. "By more than the margin" is a hypothesis of its own, so
    it is corrected over all changes: one that was significant before need not have been beyond the margin.
    """
    if not ready:
        return []
    all_effects = [analysis.effects(base, change, looks.seeds[look]) for change in ready]
    levels = _correct_for_looks([float(analysis.p(effects)) for effects in all_effects], looks, look, left)
    seed_levels = _correct_for_looks([float(effects.p_seed) for effects in all_effects], looks, look, left)
    beyond_levels = _correct_for_looks([float(analysis.p_beyond(e)) for e in all_effects], looks, look, looks.changes)
    claims = [_direction(analysis, float(effects.mean)) for effects in all_effects]
    p = _correct_for_studies(holm(levels), ready, claims)
    p_seed = _correct_for_studies(holm(seed_levels), ready, claims)
    p_beyond = _correct_for_studies(holm(beyond_levels), ready, [None] * len(ready))
    steps = left - np.argsort(np.argsort(levels, kind="stable"), kind="stable")
    return [
        _Judgement(
            look=look,
            effects=effects,
            p=p[n],
            p_seed=p_seed[n],
            p_beyond=p_beyond[n],
            steps=int(steps[n]),
            word=_word(analysis, change, effects, looks, look, p[n]),
        )
        for n, (change, effects) in enumerate(zip(ready, all_effects))
    ]


def _correct_for_looks(p: Sequence[float], looks: Looks, look: int, count: int) -> npt.NDArray[np.float64]:
    """p at this look as levels that Holm's method compares with alpha; 1 for planned changes without a p here."""
    return np.concatenate([looks.level(p, look), np.ones(count - len(p))])


def _direction(analysis: Analysis, mean: float) -> Literal["better", "worse"]:
    return "better" if analysis.metric.better(mean) else "worse"


def _correct_for_studies(p: npt.ArrayLike, changes: Sequence[Trials], claims: Sequence[str | None]) -> list[float]:
    """p of each change, corrected for earlier studies; a claim that one of them made already needs no correction."""
    rows = zip(changes, np.asarray(p), claims)
    return [change.earlier.corrected(float(one), claim=claim) for change, one, claim in rows]


def _same_level(looks: Looks, look: int, change: Trials) -> float:
    """The significance level of "same" at a look, with the correction for earlier studies."""
    return looks.same_threshold(look) * change.earlier.share(claim="same")


def _word(analysis: Analysis, change: Trials, effects: TwoWayEffects, looks: Looks, look: int, p: float) -> Word:
    """Rows 2, 3, 4 and 6 (row 5 gives the same word as row 6). ``p`` is corrected."""
    if looks.seeds[look] < FEWEST_SEEDS:
        return "not decided"
    same = float(analysis.p_same(effects, change)) < _same_level(looks, look, change)
    return _word_of(analysis, float(effects.mean), is_same=same, is_significant=p <= looks.alpha)


def _word_of(analysis: Analysis, mean: float, *, is_same: bool, is_significant: bool) -> Word:
    if is_same:
        return "same"
    if is_significant:
        return _direction(analysis, mean)
    return "not decided"


def _deciding_seeds(analysis: Analysis, base: Trials, change: Trials, judged: _Judgement, looks: Looks) -> dict[int, str]:
    """Leave-one-out: the seeds without which the verdict would change, each with that other verdict."""
    effects = judged.effects
    nothing_differs = float(effects.mean) == float(effects.from_seeds) == float(effects.from_documents) == 0.0
    if effects.seeds < FEWEST_SEEDS or nothing_differs:
        return {}
    without = analysis.without_each_seed(base, change, effects.seeds)
    levels = np.minimum(looks.level(analysis.p(without), judged.look) * judged.steps, 1.0)
    claims = [_direction(analysis, float(mean)) for mean in without.mean]
    found = [change.earlier.corrected(float(p), claim=claim) for p, claim in zip(levels, claims)]
    is_significant = np.array(found) <= looks.alpha
    is_same = analysis.p_same(without, change) < _same_level(looks, judged.look, change)
    words = [
        _word_of(analysis, float(mean), is_same=bool(same), is_significant=bool(significant))
        for mean, same, significant in zip(without.mean, is_same, is_significant)
    ]
    return {label: word for label, word in zip(analysis.labels, words) if word != judged.word}


def _waiting(base: Trials, change: Trials, rules: Rules) -> Verdict:
    """Too few seeds have run for the first look."""
    run = min(change.seeds, base.seeds) if rules.by_pairs else change.seeds
    reason = wording.waiting(run, rules.looks)
    headline = wording.headline(change.name, "not decided", reason)
    return Verdict(
        variant=change.name,
        verdict="not decided",
        reason=reason,
        headline=headline,
        sentence=headline,
        exploratory=change.exploratory,
        seeds_run=run,
    )


def _evidence(
    analysis: Analysis, base: Trials, change: Trials, judged: _Judgement, looks: Looks, effect: float, max_seeds: int
) -> Evidence:
    """Every number behind a judgement. ``effect``: the difference that the study should be able to find."""
    alpha, changes = looks.alpha, looks.changes
    return replace(
        gather(
            analysis,
            base,
            change,
            judged.effects,
            same_level=_same_level(looks, judged.look, change),
            any_look_level=looks.threshold(judged.look, 1) if len(looks.seeds) > 1 else None,
            needed=seeds_needed(judged.effects, effect, changes, alpha),
        ),
        seeds_next=seeds_needed(judged.effects, effect, changes, alpha * change.earlier.next_share(max_seeds)),
        documents_wanted=documents_wanted(judged.effects, effect, changes, alpha),
        p_corrected=judged.p,
        p_seed_corrected=judged.p_seed,
        p_beyond_corrected=judged.p_beyond,
    )


def _verdict(analysis: Analysis, base: Trials, change: Trials, judged: _Judgement, rules: Rules, changes: int) -> Verdict:
    looks = Looks(rules.looks, rules.alpha, max(1, changes))
    effect = rules.planned_effect or rules.margin
    evidence = _evidence(analysis, base, change, judged, looks, effect, rules.looks[-1])
    alone = _deciding_seeds(analysis, base, change, judged, looks)
    claim = _direction(analysis, float(judged.effects.mean))
    explanation = Explanation(
        name=change.name,
        word=judged.word,
        evidence=evidence,
        looks=looks,
        look=judged.look,
        effect=effect,
        alone=alone,
        exploratory=change.exploratory,
        command=rules.command,
        remarks=(*change.earlier.remarks(rules.margin, claim=claim), *change.remarks, *rules.remarks),
        studies=1 if change.earlier.share(claim=claim) == 1.0 else len(change.earlier.others) + 1,
        same_level=_same_level(looks, judged.look, change),
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


def _baseline_invalid(analysis: Analysis, base: Trials, change: Trials) -> Verdict:
    """Row 1, because of the baseline: an undecided change has nothing to be compared with."""
    problems, labels = base.all_problems(), analysis.base_labels or analysis.labels
    reason = wording.problem(problems, labels, base.seeds, "the baseline")
    headline = wording.headline(change.name, "invalid", reason)
    failed = tuple(labels[position] for position in problems)
    run = min(base.seeds, change.seeds)
    return Verdict(
        variant=change.name,
        verdict="invalid",
        reason=reason,
        headline=headline,
        sentence=headline,
        exploratory=change.exploratory,
        failed_seeds=failed,
        seeds_run=run,
    )


def _invalid(analysis: Analysis, base: Trials, change: Trials) -> Verdict:
    """Row 1. If all values exist (a leaking variant that was trained anyway), the sentence adds the apparent difference."""
    problems = change.all_problems()
    seeds = min(base.seeds, change.seeds)
    complete = seeds > 1 and np.isfinite(change.values[:seeds]).all() and np.isfinite(base.values[:seeds]).all()
    evidence = None
    if complete:
        effects = analysis.effects(base, change, seeds)
        evidence = gather(analysis, base, change, effects, same_level=ALPHA, any_look_level=None, needed=SeedsNeeded(None))
    rates = {"change": Rate(change.unstable(), change.seeds), "baseline": Rate(base.unstable(), base.seeds)}
    more_often = rates["change"].failed * base.seeds > rates["baseline"].failed * change.seeds
    unstable = more_often and rates["change"].failed < change.seeds  # one that always fails is not unstable: it does not train
    only_leaks, only_differs = (set(problems.values()) == {what} for what in (Problem.LEAK, Problem.STEP_DIFFERS))
    reason = "unstable" if unstable else wording.problem(problems, analysis.labels, change.seeds, "it")
    if only_leaks and change.leak:
        headline = wording.cheats(change.name, change.leak, _when_leak_found(change, trained=evidence is not None))
    elif only_differs and change.leak:
        headline = wording.step_differs(change.name, change.leak)
    elif unstable:
        headline = wording.unstable(change.name, problems, analysis.labels, rates["change"], rates["baseline"])
    else:
        headline = wording.headline(change.name, "invalid", reason)
    measured = ""
    if evidence is not None and (only_leaks or only_differs) and not base.all_problems():
        measured = f" {wording.by_that_step(evidence) if only_differs else wording.believed(evidence)}"
    return Verdict(
        variant=change.name,
        verdict="invalid",
        reason=reason,
        headline=headline,
        sentence=headline + measured,
        evidence=evidence,
        exploratory=change.exploratory,
        failed_seeds=tuple(analysis.labels[position] for position in problems),
        seeds_run=seeds,
        rates=rates if unstable else None,
    )


def _when_leak_found(change: Trials, *, trained: bool) -> str:
    if change.leaks_in_step or change.leaks_once_trained:
        return wording.leak_found(in_step=change.leaks_in_step)
    return "" if trained else "and was not trained"
