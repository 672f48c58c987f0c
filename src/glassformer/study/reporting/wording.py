"""A judged change -> English: its headline and its caveats; numbers, intervals, problems of runs.

Says better or worse, so that a reader needs no sign convention; differences in the metric's unit, right answers in per cent.
Computes no statistics; decides nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric
from glassformer.study.planning.conditions import joined
from glassformer.study.planning.power import FEWEST_SEEDS, MORE_TUNING
from glassformer.study.statistics.corrections import Looks
from glassformer.study.statistics.evidence import Evidence, Problem, Rate, Trials

if TYPE_CHECKING:
    from glassformer.study.planning.variant_facts import Facts
    from glassformer.study.statistics.verdict import Rules

STEP_DIFFERS = "{it} trains by a step that differs from the plain step"
LEAK_FOUND, STEP_FOUND = "a check found a leak", "the step that trains it differs from the plain step"
NOT_JUDGED = "the checks could not judge it"
LEAKS = {"in step": "in the step that trains it", "trained": "once it is trained"}
"""Where a leak was found that the check of the untrained model missed."""
_PROBLEMS = {
    Problem.LEAK: f"{{it}} sees what it has to predict ({LEAK_FOUND})",
    Problem.STEP_DIFFERS: STEP_DIFFERS,
    Problem.DIVERGED: "{it} diverged",
    Problem.COLLAPSED: "{it} collapsed (it had learned, and ended no better than the trivial baseline)",
    Problem.ONE_CLASS: "{it} collapsed to one class for every text",
    Problem.NOT_ABOVE_TRIVIAL: "{it} learned nothing (not better than a trivial guess; train longer or at another training.lr)",
    Problem.MISSING: "{it} has no result",
    Problem.OTHER_UNITS: "{it} was measured on other documents than the baseline",
    Problem.UNEQUAL: "{it} does not have what the plan demands to be equal",
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
    return f"{one}{'s' * (len(things) > 1)} {joined([*map(str, things)])}"


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


def invalid(
    change: Trials, labels: Sequence[int], evidence: Evidence | None, unstable: tuple[Rate, Rate] | None
) -> tuple[str, str, tuple[str, ...]]:
    """Reason, headline, and what the runs of a change that leaks seemed to show.

    ``unstable``: the rates of failure of change and baseline, where its runs fail more often.
    """
    problems = change.all_problems()
    only_leaks, only_differs = (set(problems.values()) == {what} for what in (Problem.LEAK, Problem.STEP_DIFFERS))
    found = problem(problems, labels, change.seeds, "it")
    unjudged = change.leak_kind == "unjudged"
    reason = why = NOT_JUDGED if only_leaks and unjudged else "unstable" if unstable else found
    if only_leaks and change.leak:
        when = "" if evidence is not None else ", so it was not trained" if unjudged else " and was not trained"
        when = f" {LEAKS[change.leak_kind]}" if change.leak_kind in LEAKS else when
        why = f"{NOT_JUDGED if unjudged else 'it cheats'}{when}: {change.leak}"
    elif only_differs and change.leak:
        why = f"{STEP_FOUND}: {change.leak}"
    elif unstable:
        where = found or "in earlier studies of this question"
        why = f"it is unstable. {unstable[0]}, of the baseline {unstable[1]} (exact 95 % intervals): {where}"
    if change.unequal and Problem.UNEQUAL in problems.values():
        reason = why = f"the plan demands what it does not have: {change.unequal}"
    apparent: tuple[str, ...] = ()
    if evidence is not None and (only_leaks or only_differs):
        believed = "Trained by that step" if only_differs else "Without the check one would have believed"
        shown = interval_text(evidence.difference, metric=evidence.metric)
        apparent = (f"{believed}: {evidence.metric.name} {by_how_much(evidence)} ({shown}).",)
    return reason, headline(change.name, "invalid", why), apparent


def why_withheld(facts: Facts) -> str:
    """Why the table has no figure of a variant that leaks."""
    return STEP_FOUND if facts.step_differs else NOT_JUDGED if facts.leak_kind == "unjudged" else LEAK_FOUND


def waiting(seeds: int, looks: Sequence[int]) -> str:
    first = f"{looks[0]} planned seeds" if len(looks) == 1 else f"{looks[0]} seeds needed for the first look"
    return f"{seeds} of the {first} have run"


def scaled(value: float, metric: Metric, half_width: float | None = None) -> str:
    """A value of the metric: ``2.97``, or ``63.9 %`` of right answers."""
    if not metric.answers:
        return number(value, half_width)
    return f"{number(100 * value, None if half_width is None else 100 * half_width)} %"


def amount(value: float, metric: Metric, half_width: float | None = None) -> str:
    """A difference without its sign and with its unit: ``0.032 nats per token``, ``3.6 percentage points``."""
    if metric.answers:
        return f"{number(100 * abs(value), None if half_width is None else 100 * half_width)} percentage points"
    return f"{number(abs(value), half_width)} {metric.unit}"


def points(value: float) -> str:
    """``1 percentage point``, of a share."""
    return "1 percentage point" if math.isclose(value, 0.01) else f"{100 * value:g} percentage points"


def by_how_much(evidence: Evidence) -> str:
    """``lower by 0.032 nats per token``."""
    value, half = evidence.effects.mean, evidence.difference.half_width
    way = "lower" if value < 0.0 else "higher"
    return "exactly equal" if value == 0.0 else f"{way} by {amount(value, evidence.metric, half)}"


def interval_text(estimate: Estimate, percent: str = "95 %", metric: Metric | None = None) -> str:
    """``95 % interval 0.015 to 0.049`` when it lies on one side of zero, ``0.012 lower to 0.008 higher`` when it does not."""
    if estimate.low is None or estimate.high is None:
        return f"no {percent} interval"
    scale = 100.0 if metric is not None and metric.answers else 1.0
    low, high, half = scale * estimate.low, scale * estimate.high, scale * (estimate.half_width or 0.0)
    if low < 0.0 < high:
        return f"{percent} interval {number(-low, half)} lower to {number(high, half)} higher"
    near, far = sorted((number(abs(low), half), number(abs(high), half)), key=float)
    return f"{percent} interval {near} to {far}"


MUCH_FROM_DOCUMENTS = 0.25
"""Above this fraction of the variance, the sentence itself mentions the documents."""
MANY = 100
"""More seeds than anybody trains: then the sentence says how to need fewer, and gives no number."""
LARGEST_LOSS = 5.0
"""Nats per token or bits per byte: a document that is hurt by more is not worth a warning."""


@dataclass(frozen=True)
class Explanation:
    """One judged change and everything its sentences mention."""

    change: Trials
    evidence: Evidence
    looks: Looks
    changes: int
    rules: Rules

    @property
    def word(self) -> str:
        return self.evidence.word

    @property
    def _with(self) -> str:
        """``, with 3.6 times the parameters and 2 times the tokens``: what the word holds under."""
        return f", with {joined([one.text for one in self.change.conditions])}" if self.change.conditions else ""

    @property
    def _next_look(self) -> int | None:
        return next(iter(self.looks.seeds[self.evidence.look + 1 :]), None)

    @property
    def _found(self) -> bool:
        return self.evidence.p_corrected <= self.looks.alpha

    @property
    def _looks_like(self) -> str:
        return "better" if self.evidence.metric.better(self.evidence.difference.value or 0.0) else "worse"

    @property
    def _margin(self) -> str:
        """``the default margin of 0.01``."""
        e = self.evidence
        size = points(e.margin) if e.metric.answers else f"{e.margin:g}"
        return f"{'the default' if e.margin == self.rules.default_margin else 'your'} margin of {size}"

    @property
    def _others(self) -> str:
        return {"blocks": "other parts of this text", "groups": "other groups"}.get(self.evidence.unit, "other text")

    @property
    def _only_here(self) -> bool:
        """Not decided, though the interval over seeds alone excludes zero."""
        here = self.evidence.on_this_set
        return (
            self.word == "not decided" and here.low is not None and here.high is not None and not here.low <= 0.0 <= here.high
        )

    def reason(self) -> str:
        """The row of verdict.py that decided, in a few words."""
        corrected = f"corrected p {p_value(self.evidence.p_corrected)}"
        if self.word == "same":
            return "the difference is smaller than the margin" + (", but significant" if self._found else "")
        if self.word in ("better", "worse"):
            return corrected + (", by more than the margin" if self.evidence.beyond_margin else "")
        if self.evidence.seeds < FEWEST_SEEDS:
            return f"a verdict needs at least {FEWEST_SEEDS} seeds"
        if self._only_here:
            return f"significant on these {self.evidence.unit}, not for {self._others}"
        return f"the next look is at {self._next_look} seeds" if self._next_look else corrected

    # -- the short sentence ----------------------------------------------------------------------------------------------

    def headline(self) -> str:
        """The result in one or two short sentences."""
        e, measured = self.evidence, self._measured()
        if self.word == "same":
            interval = interval_text(e.same_interval, "90 %", e.metric)
            text = f"the same within {self._margin}{self._with}: {measured} ({interval}), on {e.seeds} seeds."
            text += " The difference is significant, but smaller than the margin." if self._found else ""
        elif self.word in ("better", "worse"):
            clause = f", by more than {self._margin}" if self.evidence.beyond_margin else ""
            margin = "" if self.evidence.beyond_margin else f"; perhaps less than {self._margin}"
            runs = f"in {e.seeds_better if self.word == 'better' else e.seeds - e.seeds_better} of {e.seeds} seeds"
            shown = interval_text(e.difference, metric=e.metric)
            text = f"{self.word}{clause}{self._with}: {measured} ({shown}{margin}), {runs}. {self._p_text()}."
        elif e.seeds < FEWEST_SEEDS:
            text = f"not decided: a verdict needs at least {FEWEST_SEEDS} seeds. So far: {measured}."
        elif self._only_here:
            text = (
                f"not decided for {self._others}: on these {e.documents} {e.unit} it is {self._looks_like}, {measured} "
                f"({interval_text(e.on_this_set, metric=e.metric)}); for {self._others}, {self._possible()} is possible. "
                f"{self._more_documents()}"
            )
        else:
            fits = f"{self._possible().capitalize()} is possible, against {self._margin}."
            text = f"not decided: {e.seeds} seeds are not enough. {fits} {self._what_next()}".rstrip()
        return f"{EXPLORATORY} {self.change.name} is {text}" if self.change.exploratory else f"{self.change.name} is {text}"

    def _measured(self) -> str:
        """``loss 2.28 -> 1.88, lower by 0.40 nats per token``."""
        e, half = self.evidence, self.evidence.difference.half_width
        levels = " -> ".join(scaled(one, e.metric, half) for one in (e.base_value, e.value))
        return f"{e.metric.name} {levels}, {by_how_much(e)}"

    def _p_text(self) -> str:
        """``p = 0.03, corrected for 3 changes and 4 looks``."""
        counts = {"changes": self.changes, "looks": len(self.looks.seeds), "studies": self.change.earlier.number}
        several = [f"{count} {what}" for what, count in counts.items() if count > 1]
        corrected = f", corrected for {joined(several)}" if several else ""
        return f"p {p_value(self.evidence.p_corrected)}{corrected}"

    def _possible(self) -> str:
        """``anything from 0.036 better to 0.022 worse``."""
        e = self.evidence
        estimate, scale = e.difference, 100.0 if e.metric.answers else 1.0
        if estimate.low is None or estimate.high is None:
            return "any difference"
        ends = [scale * estimate.low, scale * estimate.high]
        if not e.metric.lower_is_better:
            ends = [-end for end in reversed(ends)]
        half = scale * (estimate.half_width or 0.0)
        words = [f"{number(abs(end), half)} {'better' if end < 0.0 else 'worse'}" for end in ends]
        return f"anything from {words[0]} to {words[1]} ({'percentage points' if e.metric.answers else e.metric.unit})"

    def _what_next(self) -> str:
        """What would decide: the next look, more seeds, more text."""
        e, needed = self.evidence, self.evidence.seeds_needed
        if self._next_look:
            return f"The next look is at {self._next_look} of up to {self.looks.seeds[-1]} seeds."
        if needed.reason == MORE_TUNING:
            return (
                f"{100 * e.effects.tuning_share:.0f} % of the variance comes from tuning (which setting happened to be "
                "chosen), too much for any number of seeds: use more tuning seeds (--tune-seeds)."
            )
        if needed.value is None:
            return self._more_documents()
        effect = self.rules.planned_effect or e.margin
        target = points(effect) if e.metric.answers else f"{effect:g} {e.metric.unit}"
        if needed.value > MANY:
            return f"Seeds alone will not decide about {target}: the runs are too noisy; a larger --margin is within reach."
        more = max(1, needed.value - e.seeds)
        low, high = (max(1, (end or 0) - e.seeds) for end in (needed.low, needed.high))
        command = "" if self.rules.command is None else f": {self.rules.command.replace('{seeds}', str(more))}"
        return f"About {more} more seeds ({low} to {high}) would decide about {target}; they add to these{command}."

    def _more_documents(self) -> str:
        e, about = self.evidence, ""
        if e.documents_wanted is not None:
            about = f" About {e.documents_wanted} {e.unit} would be enough (a larger data.validation or data.split)."
        share = f"{100 * e.effects.document_share:.0f} % of the variance comes from the {e.unit}"
        reason = share if e.effects.document_share > 0.0 else f"Too few {e.unit}"
        return f"{reason}: more text is needed, not more seeds.{about}"

    # -- the caveats, and the rest ----------------------------------------------------------------------------------------

    def caveats(self) -> tuple[str, ...]:
        """What the word was compared with, what the data cannot exclude, and what else to know."""
        differs = [one.text for one in self.change.conditions] if self.word == "not decided" else []
        beside = [f"It was compared with {joined(differs)}."] if differs else []
        remarks = [*self.change.earlier.remarks(self.rules.margin), *self.change.remarks, *self.rules.remarks]
        return (*beside, *self._not_excluded(), *self._about_the_data(), *remarks)

    def _not_excluded(self) -> list[str]:
        """For a decided change, which bad runs and which rare documents so few seeds and documents may have missed."""
        e, sentences = self.evidence, []
        if self.word not in ("better", "worse", "same"):
            return []
        if self.word != "worse":
            sentences.append(f"{e.seeds} seeds do not rule out that up to {100 * e.bad_runs_missed:.0f} in 100 runs go badly.")
        size = max(abs(e.difference.value or 0.0), e.margin) if self.word == "same" else abs(e.difference.value or 0.0)
        missed = e.missed_documents(size)
        if missed is not None and 0.0 < missed[1] <= LARGEST_LOSS:
            other = "better" if self.word == "worse" else "worse"
            size_text = amount(missed[1], e.metric, missed[1])
            sentences.append(f"{e.documents} {e.unit} do not rule out that 1 in {missed[0]} is {other} by {size_text}.")
        return sentences

    def _about_the_data(self) -> list[str]:
        e, caveats = self.evidence, []
        if e.unit == "blocks":
            blocks = "1 block" if e.documents == 1 else f"{e.documents} blocks"
            caveats.append(f"Measured on {blocks} of one text: the verdict is about other parts of this text.")
        mentioned = self._only_here or (self.word == "not decided" and e.seeds_needed.value is None)
        if e.effects.document_share > MUCH_FROM_DOCUMENTS and not mentioned:
            most = "most" if e.effects.document_share > 0.5 else "too"
            caveats.append(
                f"{100 * e.effects.document_share:.0f} % of the variance comes from the {e.unit}: more text would help {most}."
            )
        if e.long_and_short is not None and not (self.word == "same" and max(map(abs, e.long_and_short)) < e.margin):
            long, short = (f"{number(100 * one if e.metric.answers else one)}" for one in e.long_and_short)
            caveats.append(
                f"The difference depends on the length of the {e.unit} ({long} on long ones, {short} on short ones), which are "
                "unequal: up to 13 % of such verdicts are wrong."
            )
        if e.far_off_seeds:
            what = "is an outlier" if len(e.far_off_seeds) == 1 else "are outliers"
            who = listed(e.far_off_seeds, "seed").capitalize()
            caveats.append(f"{who} {what}; the mean over all runs is tested, outliers included.")
        if e.base_runs is not None:
            runs = f"{e.seeds} runs of the change, {e.base_runs} stored runs of the baseline"
            caveats.append(f"Unpaired (Welch's test): {runs}, whose luck all verdicts against them share.")
        return caveats
