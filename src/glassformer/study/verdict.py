"""All trials of a study -> one verdict per change: better, worse, same, not decided or invalid, in one fixed order.

A study of n seeds is a study with one look. With planned looks, each change is judged at every look its seeds have reached
and leaves once it is decided; what was decided is never taken back, whatever fails later. The answer depends on the trials
alone, so a study that was interrupted ends with the same verdicts. Pairs are never dropped, and a change that fails still
counts among the planned ones. Imports no torch.
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
from glassformer.study.counts import Rate
from glassformer.study.evidence import Evidence, Problem, Trials, Yardstick, gather
from glassformer.study.power import FEWEST_SEEDS, SeedsNeeded, documents_wanted, seeds_needed
from glassformer.study.sequential import ALPHA, Looks
from glassformer.study.statistics import holm
from glassformer.study.story import Story
from glassformer.study.two_way import TwoWayEffects

Word = Literal["better", "worse", "same", "not decided", "invalid"]
DEFAULT_MARGIN = 0.01  # of a metric that states none


@dataclass(frozen=True)
class Rules:
    """What the plan wrote down before the first run. ``looks`` has one entry, n, for a study without looks.

    ``by_pairs``: seed against seed; else every change against all runs of the baseline, by Welch's test. ``command``: how to
    ask for a study on fresh seeds, with ``{seeds}`` where their number goes. ``remarks``: what every sentence has to say too.
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
    """One word about one change, why, and the evidence.

    ``headline`` is the shortest form; ``sentence`` adds what bites; ``details`` is everything else, a sentence each.
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
    failed_seeds: tuple[int, ...] = ()
    seeds_run: int = 0
    rates: Mapping[str, Rate] | None = None

    @property
    def difference(self) -> Estimate:
        return self.evidence.difference if self.evidence else Estimate(None, reason=self.reason)

    def around_name(self) -> tuple[str, str]:
        """The sentence before and after the variant's name, for a place that shows the name in its own way."""
        marked = self.sentence.startswith(f"{wording.EXPLORATORY} {self.variant} ")
        before = wording.EXPLORATORY if marked else ""
        return before, self.sentence.removeprefix(before).lstrip().removeprefix(self.variant).lstrip()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form of the contract, and more."""
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
class _Judged:
    """Where one change stands after one look. ``steps`` is how many changes Holm still counted when it came to this one."""

    look: int
    found: TwoWayEffects
    corrected: float
    seed_corrected: float
    beyond_corrected: float
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
    """A verdict per change, in the order given. ``weights`` are the documents' tokens, ``labels`` the names of the seeds.

    ``blocks``: the documents are consecutive stretches of one text. ``base_labels``: the baseline's seeds, if it has its own.
    """
    seeds = max(rules.looks[-1], base.seeds, *(change.seeds for change in changes))
    yardstick = Yardstick(
        rules.metric,
        rules.margin,
        tuple(range(seeds)) if labels is None else tuple(labels),
        np.ones(base.values.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64),
        blocks,
        rules.by_pairs,
        tuple(base_labels),
    )
    planned = _walk(yardstick, base, [change for change in changes if not change.exploratory], rules)
    # A change thought of later is judged as one of all that were tried, and never makes it harder for the planned ones.
    everything = _walk(yardstick, base, changes, rules) if any(change.exploratory for change in changes) else planned
    verdicts = []
    for change in changes:
        judged = (everything if change.exploratory else planned)[change.name]
        settled = judged is not None and judged.word != "not decided"
        if not settled and base.all_problems():
            verdicts.append(_baseline_broke(yardstick, base, change))
        elif not settled and change.all_problems():
            verdicts.append(_invalid(yardstick, base, change))
        else:
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
    going = list(changes)
    left = len(changes)
    for look, seeds in enumerate(looks.seeds):
        ready = [change for change in going if _usable(base, change, seeds, rules.by_pairs)]
        for change, now in zip(ready, _judge(yardstick, base, ready, looks, look, left)):
            judged[change.name] = now
            if now.word != "not decided":
                going.remove(change)
            left -= now.corrected <= rules.alpha and seeds >= FEWEST_SEEDS
    return judged


def _usable(base: Trials, change: Trials, seeds: int, by_pairs: bool) -> bool:
    """Whether this look's runs are all there, on both sides, and none of them failed."""
    needed = seeds if by_pairs else base.seeds
    there = change.seeds >= seeds and base.seeds >= needed >= 2
    return there and not change.all_problems(seeds) and not base.all_problems(needed)


def _judge(yardstick: Yardstick, base: Trials, ready: Sequence[Trials], looks: Looks, look: int, left: int) -> list[_Judged]:
    """The changes that have reached this look, corrected for ``left`` that were not found before it.

    "By more than the margin" is a claim of its own, so it is corrected on its own, over all changes: what was found before
    may or may not have been beyond the margin.
    """
    if not ready:
        return []
    found = [yardstick.analyse(base, change, looks.seeds[look]) for change in ready]

    def levels(p: Sequence[float], count: int) -> npt.NDArray[np.float64]:
        return np.concatenate([looks.level(p, look), np.ones(count - len(ready))])  # the others: planned, but without a p here

    all_levels = levels([float(one.p) for one in found], left)
    corrected, seed_corrected = holm(all_levels), holm(levels([float(one.p_seed) for one in found], left))
    beyond = holm(levels([float(one.p_beyond(yardstick.margin)) for one in found], looks.changes))
    steps = left - np.argsort(np.argsort(all_levels, kind="stable"), kind="stable")
    all_p, all_p_seed, all_p_beyond = (
        [change.earlier.corrected(float(p), claim=claim) for change, p in zip(ready, row)]
        for row, claim in ((corrected, "found"), (seed_corrected, "found"), (beyond, None))
    )
    return [
        _Judged(look, one, p, p_seed, p_beyond, int(step), _word(yardstick, change, one, looks, look, p))
        for change, one, p, p_seed, p_beyond, step in zip(ready, found, all_p, all_p_seed, all_p_beyond, steps)
    ]


def _same_level(looks: Looks, look: int, change: Trials) -> float:
    """The level of "same" at a look, for a change that other studies may have asked about before."""
    return looks.same(look) * change.earlier.share(claim="same")


def _word(yardstick: Yardstick, change: Trials, found: TwoWayEffects, looks: Looks, look: int, corrected: float) -> Word:
    """Rows 2, 3, 4 and 6 of the table (row 5 has the word of row 6)."""
    if looks.seeds[look] < FEWEST_SEEDS:
        return "not decided"
    same = float(yardstick.p_same(found, change.earlier.margin)) < _same_level(looks, look, change)
    return _word_of(yardstick, float(found.mean), same, corrected <= looks.alpha)


def _word_of(yardstick: Yardstick, mean: float, is_same: bool, is_found: bool) -> Word:
    if is_same:
        return "same"
    if is_found:
        return "better" if yardstick.metric.better(mean) else "worse"
    return "not decided"


def _alone(yardstick: Yardstick, base: Trials, change: Trials, judged: _Judged, looks: Looks) -> dict[int, str]:
    """The seeds without which the word would be another, each with that word."""
    found = judged.found
    nothing_differs = float(found.mean) == float(found.from_seeds) == float(found.from_documents) == 0.0
    if found.seeds < FEWEST_SEEDS or nothing_differs:
        return {}
    without = yardstick.without_each_seed(base, change, found.seeds)
    levels = np.minimum(looks.level(without.p, judged.look) * judged.steps, 1.0)
    is_found = np.array([change.earlier.corrected(float(p)) for p in levels]) <= looks.alpha
    is_same = yardstick.p_same(without, change.earlier.margin) < _same_level(looks, judged.look, change)
    words = [_word_of(yardstick, float(mean), bool(s), bool(f)) for mean, s, f in zip(without.mean, is_same, is_found)]
    return {label: word for label, word in zip(yardstick.labels, words) if word != judged.word}


def _verdict(yardstick: Yardstick, base: Trials, change: Trials, judged: _Judged | None, rules: Rules, changes: int) -> Verdict:
    looks = Looks(rules.looks, rules.alpha, max(1, changes))
    if judged is None:
        run = min(change.seeds, base.seeds) if rules.by_pairs else change.seeds
        reason = wording.waiting(run, rules.looks)
        headline = wording.headline(change.name, "not decided", reason)
        return Verdict(change.name, "not decided", reason, headline, headline, (), None, change.exploratory, seeds_run=run)
    effect, same_level = rules.planned_effect or rules.margin, _same_level(looks, judged.look, change)
    evidence = replace(
        gather(
            yardstick,
            base,
            change,
            judged.found,
            same_level=same_level,
            any_look_level=looks.found(judged.look, 1) if len(looks.seeds) > 1 else None,
            needed=seeds_needed(judged.found, effect, changes, rules.alpha),
        ),
        seeds_next=seeds_needed(judged.found, effect, changes, rules.alpha * change.earlier.next_share(rules.looks[-1])),
        documents_wanted=documents_wanted(judged.found, effect, changes, rules.alpha),
        p_corrected=judged.corrected,
        p_seed_corrected=judged.seed_corrected,
        p_beyond_corrected=judged.beyond_corrected,
    )
    alone = _alone(yardstick, base, change, judged, looks)
    story = Story(
        change.name,
        judged.word,
        evidence,
        looks,
        judged.look,
        effect,
        alone,
        change.exploratory,
        rules.command,
        (*change.earlier.remarks(rules.margin), *change.remarks, *rules.remarks),
        len(change.earlier.others) + 1,
        same_level,
    )
    return Verdict(
        variant=change.name,
        verdict=judged.word,
        reason=story.reason(),
        headline=story.headline(),
        sentence=story.sentence(),
        details=tuple(story.details()),
        evidence=evidence,
        exploratory=change.exploratory,
        decided_alone_by=alone,
        seeds_run=evidence.seeds,
    )


def _baseline_broke(yardstick: Yardstick, base: Trials, change: Trials) -> Verdict:
    """Row 1, by the baseline: what was still open cannot be compared any more."""
    problems, labels = base.all_problems(), yardstick.base_labels or yardstick.labels
    reason = wording.problem(problems, labels, base.seeds, "the baseline")
    headline = wording.headline(change.name, "invalid", reason)
    failed = tuple(labels[position] for position in problems)
    run = min(base.seeds, change.seeds)
    return Verdict(change.name, "invalid", reason, headline, headline, (), None, change.exploratory, None, failed, run)


def _invalid(yardstick: Yardstick, base: Trials, change: Trials) -> Verdict:
    """Row 1. Where every number is there (a leak trained all the same), what one would have believed is told too."""
    problems = change.all_problems()
    seeds = min(base.seeds, change.seeds)
    complete = seeds > 1 and np.isfinite(change.values[:seeds]).all() and np.isfinite(base.values[:seeds]).all()
    evidence = None
    if complete:
        found = yardstick.analyse(base, change, seeds)
        evidence = gather(yardstick, base, change, found, same_level=ALPHA, any_look_level=None, needed=SeedsNeeded(None))
    rates = {"change": Rate(change.unstable(), change.seeds), "baseline": Rate(base.unstable(), base.seeds)}
    more_often = rates["change"].failed * base.seeds > rates["baseline"].failed * change.seeds
    unstable = more_often and rates["change"].failed < change.seeds  # one that always fails is not unstable: it does not train
    only_leaks = set(problems.values()) == {Problem.LEAK}
    reason = "unstable" if unstable else wording.problem(problems, yardstick.labels, change.seeds, "it")
    if only_leaks and change.leak:
        headline = wording.cheats(change.name, change.leak, trained=evidence is not None)
    elif unstable:
        headline = wording.unstable(change.name, problems, yardstick.labels, rates["change"], rates["baseline"])
    else:
        headline = wording.headline(change.name, "invalid", reason)
    believed = f" {wording.believed(evidence)}" if evidence is not None and only_leaks else ""
    return Verdict(
        variant=change.name,
        verdict="invalid",
        reason=reason,
        headline=headline,
        sentence=headline + believed,
        evidence=evidence,
        exploratory=change.exploratory,
        failed_seeds=tuple(yardstick.labels[position] for position in problems),
        seeds_run=seeds,
        rates=rates if unstable else None,
    )
