"""All trials of a study -> one verdict per change: better, worse, same, not decided or invalid, in one fixed order.

A study of n seeds is a study with one look. With planned looks, each change is judged at every look its seeds have reached
and leaves once it is decided; the answer depends on the trials alone, so a study that was interrupted ends with the same
verdicts. Pairs are never dropped, and a change that fails still counts among the planned ones. Imports no torch.
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
from glassformer.study import wording
from glassformer.study.evidence import Evidence, Problem, Trials, Yardstick, gather, nothing_differs, p_same, paired
from glassformer.study.power import FEWEST_SEEDS, SeedsNeeded, seeds_needed
from glassformer.study.sequential import ALPHA, Looks
from glassformer.study.statistics import Crossed, holm, without_each_seed

Word = Literal["better", "worse", "same", "not decided", "invalid"]
DEFAULT_MARGIN = 0.01  # of a metric that states none


@dataclass(frozen=True)
class Rules:
    """What the plan wrote down before the first run. ``looks`` has one entry, n, for a study without looks."""

    looks: tuple[int, ...]
    metric: Metric
    margin: float = DEFAULT_MARGIN
    alpha: float = ALPHA
    planned_effect: float | None = None

    def __post_init__(self) -> None:
        if not self.margin > 0.0:
            raise ConfigError(f"margin={self.margin} must be above 0: it is the smallest difference that would matter to you.")


@dataclass(frozen=True)
class Verdict:
    """One word about one change, why, and the evidence. ``sentence`` is the headline and what belongs to it."""

    variant: str
    verdict: Word
    reason: str
    headline: str
    sentence: str
    evidence: Evidence | None = None
    exploratory: bool = False
    decided_alone_by: Mapping[int, str] | None = None
    failed_seeds: tuple[int, ...] = ()
    seeds_run: int = 0

    @property
    def difference(self) -> Estimate:
        return self.evidence.difference if self.evidence else Estimate(None, reason=self.reason)

    def around_name(self) -> tuple[str, str]:
        """The sentence before and after the variant's name, for a place that shows the name in its own way."""
        marked = self.sentence.startswith(f"{wording.EXPLORATORY} {self.variant} ")
        before = wording.EXPLORATORY if marked else ""
        return before, self.sentence.removeprefix(before).lstrip().removeprefix(self.variant).lstrip()

    def plain(self) -> dict[str, Any]:
        """The JSON form of the contract, and more."""
        nothing = {"p": None, "p_corrected": None, "seeds": self.seeds_run, "seeds_needed": SeedsNeeded(None).plain()}
        numbers = self.evidence.plain() if self.evidence else {"difference": self.difference.plain(), **nothing}
        return {
            "variant": self.variant,
            "verdict": self.verdict,
            **numbers,
            "reason": self.reason,
            "sentence": self.sentence,
            "headline": self.headline,
            "exploratory": self.exploratory,
            "decided_alone_by": {str(seed): word for seed, word in (self.decided_alone_by or {}).items()},
            "failed_seeds": list(self.failed_seeds),
        }


@dataclass(frozen=True)
class _Judged:
    """Where one change stands after one look. ``steps`` is how many changes Holm still counted when it came to this one."""

    look: int
    found: Crossed
    corrected: float
    seed_corrected: float
    steps: int
    word: Word


def decide(
    base: Trials,
    changes: Sequence[Trials],
    rules: Rules,
    *,
    weights: npt.ArrayLike | None = None,
    labels: Sequence[int] | None = None,
) -> list[Verdict]:
    """A verdict per change, in the order given. ``weights`` are the documents' tokens, ``labels`` the names of the seeds."""
    seeds = max(rules.looks[-1], base.seeds, *(change.seeds for change in changes))
    yardstick = Yardstick(
        rules.metric,
        rules.margin,
        tuple(range(seeds)) if labels is None else tuple(labels),
        np.ones(base.values.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64),
    )
    broken = base.all_problems()
    if broken:
        return [_invalid(yardstick, base, change, broken, of_baseline=True) for change in changes]
    planned = _walk(yardstick, base, [change for change in changes if not change.exploratory], rules)
    # A change thought of later is judged as one of all that were tried, and never makes it harder for the planned ones.
    everything = _walk(yardstick, base, changes, rules) if any(change.exploratory for change in changes) else planned
    verdicts = []
    for change in changes:
        problems = change.all_problems()
        if problems:
            verdicts.append(_invalid(yardstick, base, change, problems))
        else:
            judged = (everything if change.exploratory else planned)[change.name]
            verdicts.append(_verdict(yardstick, base, change, judged, rules, _counted(changes, change)))
    return verdicts


def _counted(changes: Sequence[Trials], change: Trials) -> int:
    """How many changes the correction of this one is over."""
    return len(changes) if change.exploratory else sum(not other.exploratory for other in changes)


def _walk(yardstick: Yardstick, base: Trials, changes: Sequence[Trials], rules: Rules) -> dict[str, _Judged | None]:
    """Goes from look to look; each change keeps the last judgement it got, None where its seeds reached no look.

    Only changes that were *found* lower the count of those left. One that is the same, or that failed, was not refuted:
    handing its share of the error to the others would break the family-wise level.
    """
    looks = Looks(rules.looks, rules.alpha, max(1, len(changes)))
    judged: dict[str, _Judged | None] = {change.name: None for change in changes}
    going = [change for change in changes if not change.all_problems()]
    left = len(changes)
    for look, seeds in enumerate(looks.seeds):
        ready = [change for change in going if min(change.seeds, base.seeds) >= seeds]
        for change, now in zip(ready, _judge(yardstick, base, ready, looks, look, left)):
            judged[change.name] = now
            if now.word != "not decided":
                going.remove(change)
            left -= now.corrected <= rules.alpha and seeds >= FEWEST_SEEDS
    return judged


def _judge(yardstick: Yardstick, base: Trials, ready: Sequence[Trials], looks: Looks, look: int, left: int) -> list[_Judged]:
    """The changes that have reached this look, corrected for ``left`` that were not found before it."""
    if not ready:
        return []
    found = [yardstick.analyse(base, change, looks.seeds[look]) for change in ready]
    others = np.ones(left - len(ready))  # planned and not found, but without a p here
    levels = np.concatenate([looks.level([float(one.p) for one in found], look), others])
    seed_levels = np.concatenate([looks.level([float(one.p_seed) for one in found], look), others])
    corrected, seed_corrected = holm(levels), holm(seed_levels)
    steps = left - np.argsort(np.argsort(levels, kind="stable"), kind="stable")
    return [
        _Judged(look, one, p, p_seed, int(step), _word(yardstick, one, looks, look, p))
        for one, p, p_seed, step in zip(found, map(float, corrected), map(float, seed_corrected), steps)
    ]


def _word(yardstick: Yardstick, found: Crossed, looks: Looks, look: int, corrected: float) -> Word:
    """Rows 2, 3, 4 and 6 of the table (row 5 has the word of row 6)."""
    if looks.seeds[look] < FEWEST_SEEDS:
        return "not decided"
    same = p_same(found, yardstick.margin, yardstick.metric) < looks.same(look)
    return _word_of(yardstick, float(found.mean), same, corrected <= looks.alpha)


def _word_of(yardstick: Yardstick, mean: float, is_same: bool, is_found: bool) -> Word:
    if is_same:
        return "same"
    if is_found:
        return "better" if yardstick.metric.better(mean) else "worse"
    return "not decided"


def _alone(yardstick: Yardstick, base: Trials, change: Trials, judged: _Judged, looks: Looks) -> dict[int, str]:
    """The seeds without which the word would be another, each with that word."""
    if judged.found.seeds < FEWEST_SEEDS or nothing_differs(judged.found, yardstick.metric):
        return {}
    without = without_each_seed(paired(base, change, judged.found.seeds), yardstick.weights)
    is_found = looks.level(without.p, judged.look) * judged.steps <= looks.alpha
    is_same = without.p_same(yardstick.margin) < looks.same(judged.look)
    words = [_word_of(yardstick, float(mean), bool(s), bool(f)) for mean, s, f in zip(without.mean, is_same, is_found)]
    return {label: word for label, word in zip(yardstick.labels, words) if word != judged.word}


def _verdict(yardstick: Yardstick, base: Trials, change: Trials, judged: _Judged | None, rules: Rules, changes: int) -> Verdict:
    looks = Looks(rules.looks, rules.alpha, max(1, changes))
    if judged is None:
        run = min(change.seeds, base.seeds)
        reason = wording.waiting(run, rules.looks)
        headline = wording.headline(change.name, "not decided", reason)
        return Verdict(change.name, "not decided", reason, headline, headline, None, change.exploratory, seeds_run=run)
    effect = rules.planned_effect or rules.margin
    evidence = replace(
        gather(
            yardstick,
            base,
            change,
            judged.found,
            same_level=looks.same(judged.look),
            any_look_level=looks.found(judged.look, 1) if len(looks.seeds) > 1 else None,
            needed=seeds_needed(judged.found, effect, changes, rules.alpha),
        ),
        p_corrected=judged.corrected,
        p_seed_corrected=judged.seed_corrected,
    )
    alone = _alone(yardstick, base, change, judged, looks)
    story = wording.Story(change.name, judged.word, evidence, looks, judged.look, effect, alone, change.exploratory)
    return Verdict(
        variant=change.name,
        verdict=judged.word,
        reason=story.reason(),
        headline=story.headline(),
        sentence=story.sentence(),
        evidence=evidence,
        exploratory=change.exploratory,
        decided_alone_by=alone,
    )


def _invalid(
    yardstick: Yardstick, base: Trials, change: Trials, problems: Mapping[int, Problem], of_baseline: bool = False
) -> Verdict:
    """Row 1. Where every number is there (a leak trained all the same), what one would have believed is told too."""
    seeds = min(base.seeds, change.seeds)
    complete = seeds > 1 and np.isfinite(change.values[:seeds]).all() and np.isfinite(base.values[:seeds]).all()
    evidence = None
    if complete and not of_baseline:
        found = yardstick.analyse(base, change, seeds)
        evidence = gather(yardstick, base, change, found, same_level=ALPHA, any_look_level=None, needed=SeedsNeeded(None))
    failed = tuple(yardstick.labels[position] for position in problems)
    total = base.seeds if of_baseline else change.seeds
    reason = wording.problem(problems, yardstick.labels, total, "the baseline" if of_baseline else "it")
    headline = wording.headline(change.name, "invalid", reason)
    only_leaks = set(problems.values()) == {Problem.LEAK}
    sentence = f"{headline} {wording.believed(evidence)}" if evidence is not None and only_leaks else headline
    return Verdict(change.name, "invalid", reason, headline, sentence, evidence, change.exploratory, None, failed, seeds)
