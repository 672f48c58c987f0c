"""A judged change -> English: its headline, its sentence with caveats, its details; numbers, intervals, problems of runs.

Says better or worse, so that a reader needs no sign convention. Computes no statistics; decides nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from glassformer.foundation.estimate import Estimate
from glassformer.study.planning.power import FEWEST_SEEDS, MORE_TUNING
from glassformer.study.statistics.corrections import Looks
from glassformer.study.statistics.evidence import Evidence, Problem, upper_bound

STEP_DIFFERS = "{it} trains by a step that differs from the plain step"
LEAK_FOUND, STEP_FOUND = "a check found a leak", "the step that trains it differs from the plain step"
NOT_JUDGED = "the checks could not judge it"
"""Why the table has no figure of a variant."""
_PROBLEMS = {
    Problem.LEAK: f"{{it}} sees what it has to predict ({LEAK_FOUND})",
    Problem.STEP_DIFFERS: STEP_DIFFERS,
    Problem.DIVERGED: "{it} diverged",
    Problem.COLLAPSED: "{it} collapsed (it had learned, and ended no better than the trivial baseline)",
    Problem.ONE_CLASS: "{it} collapsed to one class for every text",
    Problem.NOT_ABOVE_TRIVIAL: "{it} learned nothing (not better than a trivial guess; train longer or at another training.lr)",
    Problem.MISSING: "{it} has no result",
}
EXPLORATORY = "Exploratory, added after the plan:"
"""How the sentence of a change that the plan did not have begins."""


def number(value: float, half_width: float | None = None) -> str:
    """Rounded to two significant digits of the half width; to four significant digits without one."""
    scale = half_width if half_width and math.isfinite(half_width) else abs(value) / 100.0
    if scale == 0.0 or 0.0 < abs(value) < 1e-6 > scale:  # 8.1e-09 is read at a glance, 0.0000000081 is not
        return f"{value:.2g}"
    return f"{value:.{max(0, min(10, 1 - math.floor(math.log10(scale))))}f}"


def p_value(p: float) -> str:
    """``= 0.021``, two digits; ``< 0.0001`` below that, where the normal approximation is not trustworthy."""
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
    """Each kind of problem with its seeds."""
    parts = []
    for kind in Counter(problems.values()):
        at = [labels[position] for position, found in problems.items() if found is kind]
        which = "" if len(at) == seeds else f" ({listed(at, 'seed')})"
        parts.append(f"{_PROBLEMS[kind].format(it=it)} in {len(at)} of {seeds} seeds{which}")
    after = "; nothing can be compared with it" if it != "it" else ""
    return " and ".join(parts) + after


def leak_found(*, in_step: bool) -> str:
    """Where a leak was found that the check of the untrained model missed: in the compiled step, or after training."""
    return "in the step that trains it" if in_step else "once it is trained"


def waiting(seeds: int, looks: Sequence[int]) -> str:
    first = f"{looks[0]} planned seeds" if len(looks) == 1 else f"{looks[0]} seeds needed for the first look"
    return f"{seeds} of the {first} have run"


def apparent_difference(evidence: Evidence) -> str:
    """``loss lower by 0.032 nats per token (95 % interval 0.015 to 0.049)``: of a change whose runs do not count."""
    value = evidence.difference.value
    assert value is not None
    text = f"{evidence.metric.name} exactly equal"
    if value != 0.0:
        way = "lower" if value < 0.0 else "higher"
        text = f"{evidence.metric.name} {way} by {number(abs(value), evidence.difference.half_width)} {evidence.metric.unit}"
    return f"{text} ({interval_text(evidence.difference)})"


def interval_text(estimate: Estimate, percent: str = "95 %") -> str:
    """``95 % interval 0.015 to 0.049`` when it lies on one side of zero, ``0.012 lower to 0.008 higher`` when it does not."""
    if estimate.low is None or estimate.high is None:
        return f"no {percent} interval"
    half = estimate.half_width
    near, far = sorted((number(abs(estimate.low), half), number(abs(estimate.high), half)), key=float)
    if estimate.low < 0.0 < estimate.high:
        return f"{percent} interval {number(-estimate.low, half)} lower to {number(estimate.high, half)} higher"
    return f"{percent} interval {near} to {far}"


MUCH_FROM_DOCUMENTS = 0.25
"""Above this fraction of the variance, the sentence itself mentions the documents."""

MANY = 50
"""More seeds than anybody trains: then the sentence says how to need fewer."""


@dataclass(frozen=True)
class Explanation:
    """One judged change and everything its sentences mention."""

    name: str
    word: str
    evidence: Evidence
    looks: Looks
    look: int
    effect: float
    alone: Mapping[int, str]
    exploratory: bool
    command: str | None = None
    remarks: tuple[str, ...] = ()
    studies: int = 1
    same_level: float = 0.05

    @property
    def _p(self) -> float:
        return 1.0 if self.evidence.p_corrected is None else self.evidence.p_corrected

    @property
    def _next_look(self) -> int | None:
        return self.looks.seeds[self.look + 1] if self.look + 1 < len(self.looks.seeds) else None

    @property
    def _units(self) -> str:
        return "blocks" if self.evidence.blocks else "documents"

    @property
    def _others(self) -> str:
        return "other parts of this text" if self.evidence.blocks else "other text"

    @property
    def _beyond_margin(self) -> bool:
        """Whether the difference is significantly larger than the margin, corrected over all changes and looks."""
        p = self.evidence.p_beyond_corrected
        return p is not None and p <= self.looks.alpha

    @property
    def _only_here(self) -> bool:
        p = self.evidence.p_seed_corrected
        return self.word == "not decided" and p is not None and p <= self.looks.alpha

    @property
    def _too_few_documents(self) -> bool:
        e = self.evidence
        return self.word == "not decided" and e.seeds >= FEWEST_SEEDS and e.p_same_here < self.same_level <= e.p_same

    def reason(self) -> str:
        """The row of verdict.py that decided, in a few words."""
        corrected = f"corrected p {p_value(self._p)}"
        if self.word == "same":
            return "the difference is smaller than the margin" + (", but significant" if self._p <= self.looks.alpha else "")
        if self.word in ("better", "worse"):
            return corrected + (", by more than the margin" if self._beyond_margin else "")
        if self.evidence.seeds < FEWEST_SEEDS:
            return f"a verdict needs at least {FEWEST_SEEDS} seeds"
        if self._only_here:
            return f"significant on these {self._units}, not for {self._others}"
        if self._too_few_documents:
            return f"the same on these {self._units}, but they are too few to rule out rare large losses"
        return f"the next look is at {self._next_look} seeds" if self._next_look else corrected

    # -- the short sentence ----------------------------------------------------------------------------------------------

    def headline(self) -> str:
        """The result in one or two short sentences."""
        e, measured = self.evidence, self._measured()
        looks = "better" if e.metric.better(e.difference.value or 0.0) else "worse"
        if self.word == "same":
            percent = f"{100 * (1 - 2 * self.same_level):.3g} %"
            interval = interval_text(e.same_interval, percent)
            text = f"the same within your margin of {e.margin:g}: {measured} ({interval})."
            text += " The difference is significant, but smaller than the margin." if self._p <= self.looks.alpha else ""
        elif self.word in ("better", "worse"):
            clause = f", by more than your margin of {e.margin:g}" if self._beyond_margin else ""
            margin = "" if self._beyond_margin else f"; your margin {e.margin:g}"
            runs = f"in {e.seeds_better if self.word == 'better' else e.seeds - e.seeds_better} of {e.seeds} seeds"
            text = f"{self.word}{clause}: {measured} ({interval_text(e.difference)}{margin}), {runs}. {self._p_text()}."
        elif e.seeds < FEWEST_SEEDS:
            text = f"not decided: a verdict needs at least {FEWEST_SEEDS} seeds. So far: {measured}. {self._needed()}"
        elif self._only_here:
            text = (
                f"not decided for {self._others}: on these {e.documents} {self._units} it is {looks}, {measured} "
                f"({interval_text(e.on_this_set)}); for {self._others}, {self._possible()} is possible. "
                f"{self._more_documents()}"
            )
        elif self._too_few_documents:
            text = (
                f"not decided for {self._others}: on these {e.documents} {self._units} it is the same, {measured}. But so few "
                f"{self._units} cannot rule out rare ones with a large loss, which would change the mean by {e.same_margin:g}; "
                f"{e.documents_needed} {self._units} without such a loss would be enough."
            )
        else:
            fits = f"{self._possible().capitalize()} is possible; your margin is {e.margin:g}."
            if e.difference.low is not None and e.difference.high is not None and e.difference.low * e.difference.high > 0.0:
                but = f"{self._p_text()}, is above {self.looks.alpha:g}"
                fits = f"It looks {looks} ({measured}, {interval_text(e.difference)}), but {but}."
            text = f"not decided: {e.seeds} seeds are not enough. {fits} {self._what_next()}"
        return f"{EXPLORATORY} {self.name} is {text}" if self.exploratory else f"{self.name} is {text}"

    def _measured(self) -> str:
        """``loss 2.28 -> 1.88, lower by 0.40``."""
        e = self.evidence
        value, half = e.difference.value, e.difference.half_width
        assert value is not None
        levels = f"{e.metric.name} {number(e.base_value, half)} -> {number(e.value, half)}"
        if value == 0.0:
            return f"{levels}, exactly equal"
        return f"{levels}, {'lower' if value < 0.0 else 'higher'} by {number(abs(value), half)}"

    def _p_text(self) -> str:
        """``p = 0.03, corrected for 3 changes and 4 looks``."""
        counts = {"changes": self.looks.changes, "looks": len(self.looks.seeds), "studies": self.studies}
        several = [f"{count} {what}" for what, count in counts.items() if count > 1]
        corrected = f", corrected for {' and '.join(filter(None, [', '.join(several[:-1]), several[-1]]))}" if several else ""
        return f"p {p_value(self._p)}{corrected}"

    def _possible(self) -> str:
        """``anything from 0.036 better to 0.022 worse``."""
        estimate, half = self.evidence.difference, self.evidence.difference.half_width
        if estimate.low is None or estimate.high is None:
            return "any difference"
        ends = [estimate.low, estimate.high]
        if not self.evidence.metric.lower_is_better:
            ends = [-end for end in reversed(ends)]
        words = [f"{number(abs(end), half)} {'better' if end < 0.0 else 'worse'}" for end in ends]
        return f"anything from {words[0]} to {words[1]}"

    def _needed(self) -> str:
        needed, target = self.evidence.seeds_needed, f"a difference of {self.effect:g}"
        if needed.value is None:
            return f"To detect {target}, {needed}."
        return f"About {needed.value} seeds ({needed.low} to {needed.high}) would detect {target} with 80 % power."

    def _what_next(self) -> str:
        needed = self.evidence.seeds_next
        if self._next_look:
            return f"The next look is at {self._next_look} of up to {self.looks.seeds[-1]} seeds."
        if needed.reason == MORE_TUNING:
            return (
                f"{100 * self.evidence.tuning_share:.0f} % of the variance comes from tuning (which setting happened to be "
                f"chosen), too much to detect {self.effect:g} with any number of seeds: use more tuning seeds (--tune-seeds)."
            )
        if needed.value is None:
            return self._more_documents()
        target = f"a difference of {self.effect:g}" + (" (your margin)" if self.effect == self.evidence.margin else "")
        spread = f"({needed.low} to {needed.high}{'; fewer with a larger --margin' if needed.value > MANY else ''})"
        command = "" if self.command is None else f": {self.command.replace('{seeds}', str(needed.value))}"
        return f"To detect {target}, a further study needs about {needed.value} new seeds {spread}{command}."

    def _more_documents(self) -> str:
        e, about = self.evidence, ""
        if e.documents_wanted is not None:
            about = f" About {e.documents_wanted} {self._units} would be enough (a larger data.validation or data.split)."
        share = f"{100 * e.document_share:.0f} % of the variance comes from the {self._units}"
        reason = share if e.document_share > 0.0 else f"Too few {self._units}"
        return f"{reason}: more text is needed, not more seeds.{about}"

    # -- the caveats, and the rest ----------------------------------------------------------------------------------------

    def sentence(self) -> str:
        """The headline and its caveats."""
        e, caveats = self.evidence, []
        if e.blocks:
            blocks = "1 block" if e.documents == 1 else f"{e.documents} blocks"
            caveats.append(f"Measured on {blocks} of one text: the verdict is about other parts of this text.")
        mentioned = self._only_here or (self.word == "not decided" and e.seeds_needed.value is None)
        if e.document_share > MUCH_FROM_DOCUMENTS and not mentioned:
            caveats.append(
                f"{100 * e.document_share:.0f} % of the variance comes from the {self._units}: more text would help most."
            )
        if e.far_off_seeds:
            what = "is an outlier" if len(e.far_off_seeds) == 1 else "are outliers"
            who = listed(e.far_off_seeds, "seed").capitalize()
            caveats.append(f"{who} {what}, so the verdict is about a typical run, not about the mean of many runs.")
        if len(self.alone) == e.seeds:
            caveats.append("Leaving out any one seed would change the verdict.")
        else:
            for word in dict.fromkeys(self.alone.values()):
                seeds = [seed for seed, other in self.alone.items() if other == word]
                one = listed(seeds, "seed") if len(seeds) == 1 else f"any one of the {listed(seeds, 'seed')}"
                caveats.append(f"Without {one} the verdict would be: {word}.")
        return " ".join([self.headline(), *caveats, *self.remarks])

    def details(self) -> list[str]:
        """The statistics behind the verdict, shown on request."""
        e, n = self.evidence, self.evidence.seeds
        sentences = []
        if self._next_look and self.word != "not decided" and e.any_look is not None:
            sentences.append(
                f"Stopped after {n} of up to {self.looks.seeds[-1]} seeds. Valid at every look: {interval_text(e.any_look)}."
            )
        if self.word == "not decided" and e.seeds >= FEWEST_SEEDS:
            difference = f"{self._measured()} ({interval_text(e.difference)}), corrected p {p_value(self._p)}"
            sentences.append(f"Measured: {difference}. {self._needed()}")
        if e.flips is not None:
            sentences.append(
                f"{e.seeds_better} of {n} seeds are better. Sign-flip test: p {p_value(e.flips.p)} "
                f"(the smallest p that {n} seeds can give is {e.flips.floor:.2g})."
            )
        if e.base_runs is not None:
            sentences.append(f"Unpaired (Welch's test): {n} runs of the change, {e.base_runs} stored runs of the baseline.")
        share = f"{100 * e.document_share:.0f} % of the variance comes from the {self._units}"
        sentences.append(f"For these {self._units} alone: {interval_text(e.on_this_set)}; {share}.")
        if e.noise_floor is not None:
            pairs = "" if e.correlation is None else f"; correlation of baseline and change over seeds: {e.correlation:.2f}"
            sentences.append(f"Standard deviation over the baseline's seeds: {number(e.noise_floor)}{pairs}.")
        sentences.append(
            f"None of the {n} runs failed, which still allows a failure rate of up to {100 * upper_bound(0, n):.0f} % "
            "(exact 95 % bound)."
        )
        return sentences
