"""Evidence -> plain English: the reason, the headline and the full sentence of a verdict.

Says better or worse, so that nobody needs the sign of a difference. Computes no statistics; decides nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from glassformer.foundation.estimate import Estimate
from glassformer.study.evidence import Evidence, Problem
from glassformer.study.power import FEWEST_SEEDS
from glassformer.study.sequential import Looks
from glassformer.study.statistics import failures_not_excluded

_PROBLEMS = {
    Problem.LEAK: "{it} sees what it has to predict (a check found a leak)",
    Problem.DIVERGED: "{it} diverged",
    Problem.COLLAPSED: "{it} collapsed (it had learned, and ended no better than the trivial baseline)",
    Problem.NOT_ABOVE_TRIVIAL: "{it} is not above the trivial baseline",
    Problem.MISSING: "{it} has no result",
}
EXPLORATORY = "Exploratory, added after the plan:"
"""What the sentence of a change that the plan did not have begins with."""


def number(value: float, half_width: float | None = None) -> str:
    """As many decimals as the uncertainty leaves meaning: two digits of the half width, or four digits without one."""
    scale = half_width if half_width and math.isfinite(half_width) else abs(value) / 100.0
    if scale == 0.0:
        return f"{value:g}"
    return f"{value:.{max(0, min(10, 1 - math.floor(math.log10(scale))))}f}"


def p_value(p: float) -> str:
    """``= 0.021``, with two digits; ``< 0.0001`` for what no normal noise could vouch for."""
    return "< 0.0001" if p < 1e-4 else f"= {p:.2g}"


def listed(things: Sequence[object], one: str) -> str:
    """``seed 3``; ``seeds 3 and 5``; ``seeds 3, 5 and 7``."""
    names = [str(thing) for thing in things]
    if len(names) == 1:
        return f"{one} {names[0]}"
    return f"{one}s {', '.join(names[:-1])} and {names[-1]}"


def headline(name: str, word: str, rest: str) -> str:
    return f"{name} is {word}: {rest}."


def problem(problems: Mapping[int, Problem], labels: Sequence[int], seeds: int, it: str) -> str:
    """Every kind of problem with the seeds that have it."""
    parts = []
    for kind in Counter(problems.values()):
        at = [labels[position] for position, found in problems.items() if found is kind]
        which = "" if len(at) == seeds else f" ({listed(at, 'seed')})"
        parts.append(f"{_PROBLEMS[kind].format(it=it)} in {len(at)} of {seeds} seeds{which}")
    after = "; nothing can be compared with it" if it != "it" else ""
    return " and ".join(parts) + after


def waiting(seeds: int, looks: Sequence[int]) -> str:
    what = "planned" if len(looks) == 1 else "needed for the first look"
    return f"{seeds} of the {looks[0]} seeds {what} have run"


def believed(evidence: Evidence) -> str:
    """What a leaking variant would have been taken for."""
    return f"Without the check one would have believed: {_direction(evidence)} ({_interval(evidence.difference)})."


def _half(estimate: Estimate) -> float | None:
    return None if estimate.low is None or estimate.high is None else 0.5 * (estimate.high - estimate.low)


def _direction(evidence: Evidence) -> str:
    """``loss lower by 0.032 nats per token``."""
    value = evidence.difference.value
    assert value is not None
    if value == 0.0:
        return f"{evidence.metric.name} exactly equal"
    way = "lower" if value < 0.0 else "higher"
    return f"{evidence.metric.name} {way} by {number(abs(value), _half(evidence.difference))} {evidence.metric.unit}"


def _interval(estimate: Estimate, percent: str = "95 %") -> str:
    """``95 % interval 0.015 to 0.049`` when it lies on one side of zero, ``0.012 lower to 0.008 higher`` when it does not."""
    if estimate.low is None or estimate.high is None:
        return f"no {percent} interval"
    half = _half(estimate)
    near, far = sorted((number(abs(estimate.low), half), number(abs(estimate.high), half)), key=float)
    if estimate.low < 0.0 < estimate.high:
        return f"{percent} interval {number(-estimate.low, half)} lower to {number(estimate.high, half)} higher"
    return f"{percent} interval {near} to {far}"


@dataclass(frozen=True)
class Story:
    """One judged change and everything its sentence mentions."""

    name: str
    word: str
    evidence: Evidence
    looks: Looks
    look: int
    effect: float
    alone: Mapping[int, str]
    exploratory: bool

    @property
    def corrected(self) -> str:
        return f"corrected p {p_value(self._p)}"

    @property
    def _p(self) -> float:
        return 1.0 if self.evidence.p_corrected is None else self.evidence.p_corrected

    def reason(self) -> str:
        """Which row of the table spoke, in a few words."""
        if self.word == "same":
            return "the difference is smaller than the margin" + (", though real" if self._p <= self.looks.alpha else "")
        if self.word in ("better", "worse"):
            return self.corrected + (", by more than the margin" if self._beyond_margin() else "")
        if self.evidence.seeds < FEWEST_SEEDS:
            return f"below {FEWEST_SEEDS} seeds we do not decide"
        if self._only_here():
            return "shown for these documents, not for others"
        return f"the next look is at {self._next_look} seeds" if self._next_look else self.corrected

    @property
    def _next_look(self) -> int | None:
        return self.looks.seeds[self.look + 1] if self.look + 1 < len(self.looks.seeds) else None

    def headline(self) -> str:
        e = self.evidence
        measured = f"{_direction(e)} ({_interval(e.difference)})"
        if self.word == "same":
            text = self._same_text()
        elif self.word in ("better", "worse"):
            beyond = f", by more than the margin of {e.margin:g}" if self._beyond_margin() else ""
            text = f"{self.name} is {self.word} than the baseline{beyond}: {measured}, {self.corrected}"
        elif e.seeds < FEWEST_SEEDS:
            text = f"{self.name} is not decided, as below {FEWEST_SEEDS} seeds we do not decide: {measured}; {self._needed()}"
        elif self._only_here():
            text = self._only_here_text()
        else:
            text = f"{self.name} is not decided: {measured}, {self.corrected}; {self._what_next()}"
        return f"{EXPLORATORY} {text}." if self.exploratory else f"{text}."

    def _same_text(self) -> str:
        e = self.evidence
        percent = f"{100 * (1 - 2 * self.looks.same(self.look)):.3g} %"
        text = (
            f"{self.name} is the same as the baseline within the margin of {e.margin:g} {e.metric.unit}: "
            f"{_direction(e)} ({_interval(e.same_interval, percent)}), {self.corrected}"
        )
        return text + (": real, but smaller than the margin" if self._p <= self.looks.alpha else "")

    def sentence(self) -> str:
        """The headline and what every verdict is told with."""
        return " ".join([self.headline(), *self._always()])

    def _beyond_margin(self) -> bool:
        """The whole interval lies past the margin; with looks, the interval that holds at every look."""
        reach = self.evidence.any_look or self.evidence.difference
        return reach.low is not None and reach.high is not None and max(reach.low, -reach.high) > self.evidence.margin

    def _only_here(self) -> bool:
        p = self.evidence.p_seed_corrected
        return self.word == "not decided" and p is not None and p <= self.looks.alpha

    def _only_here_text(self) -> str:
        e = self.evidence
        here = "better" if e.metric.better(e.difference.value or 0.0) else "worse"
        return (
            f"{self.name} is not decided for other text: on these {e.documents} documents it is {here}, "
            f"{_direction(e)} ({_interval(e.on_this_set)}, corrected p {p_value(e.p_seed_corrected or 0.0)}), "
            f"but not shown for others ({_interval(e.difference)}, {self.corrected}); "
            f"{100 * e.document_share:.0f} % of the variance comes from the documents: more documents are needed, not seeds"
        )

    def _needed(self) -> str:
        needed, target = self.evidence.seeds_needed, f"a difference of {self.effect:g} {self.evidence.metric.unit}"
        if needed.value is None:
            return f"to find {target}, {needed}"
        return f"{needed} would find {target} four times in five"

    def _what_next(self) -> str:
        if self._next_look:
            return f"the next look is at {self._next_look} of up to {self.looks.seeds[-1]} seeds; {self._needed()}"
        if self.evidence.seeds_needed.value is None:
            return self._needed()
        return f"{self._needed()}: as a new study on fresh seeds, since adding them to this one would find too much"

    def _always(self) -> list[str]:
        e, n = self.evidence, self.evidence.seeds
        sentences = []
        if self._next_look and self.word != "not decided" and e.any_look is not None:
            sentences.append(
                f"Stopped after {n} of up to {self.looks.seeds[-1]} seeds; valid at every look: {_interval(e.any_look)}."
            )
        sentences += [
            f"{e.seeds_better} of {n} seeds better; sign-flip p {p_value(e.flips.p)} "
            f"({n} seeds cannot give less than {e.flips.floor:.2g}).",
            f"On this set alone: {_interval(e.on_this_set)}; documents make {100 * e.document_share:.0f} % of the variance.",
        ]
        if self.alone:
            sentences.append(self._alone_text())
        if e.far_off_seeds:
            verb = "lies" if len(e.far_off_seeds) == 1 else "lie"
            sentences.append(f"{listed(e.far_off_seeds, 'seed').capitalize()} {verb} far off the others.")
        sentences.append(f"0 of {n} runs failed: up to {100 * failures_not_excluded(0, n):.0f} % not excluded.")
        return sentences

    def _alone_text(self) -> str:
        if len(self.alone) == self.evidence.seeds:
            return "With any one seed fewer the verdict would be another."
        parts = []
        for word in dict.fromkeys(self.alone.values()):
            seeds = [seed for seed, other in self.alone.items() if other == word]
            one = listed(seeds, "seed") if len(seeds) == 1 else f"any one of the {listed(seeds, 'seed')}"
            parts.append(f"Without {one} it would be {word}.")
        return " ".join(parts)
