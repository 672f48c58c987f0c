"""Evidence -> English phrases: numbers, p values, intervals, problems of runs.

Says better or worse, so that a reader needs no sign convention. Computes no statistics; decides nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from glassformer.foundation.estimate import Estimate
from glassformer.study.inference.evidence import Evidence, Problem, Rate

STEP_DIFFERS = "{it} trains by a step that differs from the plain step"
LEAK_FOUND, STEP_FOUND = "a check found a leak", "the step that trains it differs from the plain step"
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


def cheats(name: str, how: str, when: str) -> str:
    """``heads re-weighted cheats and was not trained: a later token changes its predictions (at blocks.0.merge).``"""
    return f"{name} is invalid: it cheats{when and f' {when}'}: {how}."


def step_differs(name: str, how: str) -> str:
    """``bilinear is invalid: the step that trains it differs from the plain step: path: the compiled step ...``"""
    return f"{name} is invalid: {STEP_FOUND}: {how}."


def leak_found(*, in_step: bool) -> str:
    """Where a leak was found that the check of the untrained model missed: in the compiled step, or after training."""
    return "in the step that trains it" if in_step else "once it is trained"


def unstable(name: str, problems: Mapping[int, Problem], labels: Sequence[int], own: Rate, base: Rate) -> str:
    """Both failure rates with their intervals."""
    return (
        f"{name} is invalid: it is unstable. {own} of its runs failed, of the baseline's {base} "
        f"(in brackets: exact 95 % intervals): {problem(problems, labels, own.runs, 'it')}."
    )


def waiting(seeds: int, looks: Sequence[int]) -> str:
    what = "planned" if len(looks) == 1 else "needed for the first look"
    return f"{seeds} of the {looks[0]} seeds {what} have run"


def believed(evidence: Evidence) -> str:
    """The apparent difference of a leaking variant."""
    return f"Without the check one would have believed: {direction(evidence)} ({interval_text(evidence.difference)})."


def by_that_step(evidence: Evidence) -> str:
    """What a variant gave that was trained by a step that differs from the plain one."""
    return f"Trained by that step: {direction(evidence)} ({interval_text(evidence.difference)})."


def direction(evidence: Evidence) -> str:
    """``loss lower by 0.032 nats per token``."""
    value = evidence.difference.value
    assert value is not None
    if value == 0.0:
        return f"{evidence.metric.name} exactly equal"
    way = "lower" if value < 0.0 else "higher"
    return f"{evidence.metric.name} {way} by {number(abs(value), evidence.difference.half_width)} {evidence.metric.unit}"


def interval_text(estimate: Estimate, percent: str = "95 %") -> str:
    """``95 % interval 0.015 to 0.049`` when it lies on one side of zero, ``0.012 lower to 0.008 higher`` when it does not."""
    if estimate.low is None or estimate.high is None:
        return f"no {percent} interval"
    half = estimate.half_width
    near, far = sorted((number(abs(estimate.low), half), number(abs(estimate.high), half)), key=float)
    if estimate.low < 0.0 < estimate.high:
        return f"{percent} interval {number(-estimate.low, half)} lower to {number(estimate.high, half)} higher"
    return f"{percent} interval {near} to {far}"
