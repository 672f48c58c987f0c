"""What else differs between a change and the baseline: the conditions that a verdict carries. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

RESOURCES = {
    "parameters": ("parameters", 1.1),
    "flops": ("FLOPs", 1.1),
    "tokens": ("tokens", 1.1),
    "memory_bytes": ("memory", 2.0),
}
"""What a run costs: its word in a sentence, and the ratio from which the sentence says it. Memory depends on kernels, so only
large ratios are said; the table has them all."""
SLOWER, FEWEST_TIMED = 2.0, 6
"""Time also depends on what else a machine does: it is said from this ratio, where every run of so many is slower (or faster)
than every run of the baseline."""
EQUAL = {"parameters": 0.01, "flops": 0.01, "tokens": 0.01, "time": 0.1}
"""What a plan can demand to be equal, and up to which relative difference it is."""
COLUMN = {"time": "seconds"}
KNOWN_BY = 0.03
"""Judged text that a run predicts better than training text, by more than this share of its loss and by more than the baseline
and the counting baselines do, has been read."""
LeakKind = Literal["", "untrained", "unjudged", "in step", "trained"]
"""What was found to leak: the untrained model, its compiled or captured step, or the trained model."""
FACTS = "trial_facts"
"""Where the environment of a trial holds what study/running/trial_facts.py found."""


@dataclass(frozen=True)
class Condition:
    """One thing in which a change differs from the baseline beside what it sets: ``text`` completes "better, with ..."."""

    what: str
    text: str
    base: float | None = None
    own: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.own / self.base if self.base and self.own else None

    def to_dict(self) -> dict[str, Any]:
        return {"what": self.what, "text": self.text, "base": self.base, "own": self.own, "ratio": self.ratio}


def cost_conditions(base: Mapping[str, float | None], own: Mapping[str, float | None]) -> list[Condition]:
    """The costs in which a change differs from the baseline by more than a sentence may leave out."""
    found = []
    for what, (word, from_ratio) in RESOURCES.items():
        theirs, its = base.get(what), own.get(what)
        if theirs and its and abs(math.log(its / theirs)) > math.log(from_ratio) + 1e-9:
            found.append(Condition(what, f"{times(its / theirs)} the {word}", theirs, its))
    return found


def time_condition(base: Sequence[float], own: Sequence[float]) -> list[Condition]:
    """From the seconds of single runs."""
    apart = bool(base and own) and (min(own) > max(base) or max(own) < min(base))
    if not apart or min(len(base), len(own)) < FEWEST_TIMED:
        return []
    theirs, its = sum(base) / len(base), sum(own) / len(own)
    far = abs(math.log(its / theirs)) > math.log(SLOWER)
    return [Condition("seconds", f"{times(its / theirs)} the time", theirs, its)] if far else []


def known_text(base: Mapping[str, Mapping[str, float]], own: Mapping[str, Mapping[str, float]]) -> list[Condition]:
    """From the losses on judged and on training text, of a run and of the counting baselines.

    Nobody predicts text better than the text that he was trained on, unless it is easier: how much easier or harder it is, the
    baseline and the counting baselines show (not one that knows no text, to which all text is alike).
    """
    if "run" not in base or "run" not in own:
        return []
    gap = own["run"]["judged"] - own["run"]["trained"]
    known = [one["trained"] for one in base.values() if one["judged"] != one["trained"]]
    if own["run"]["trained"] > max(known, default=math.inf):
        return []  # a model that learned less than the counting baselines is equally bad on all text
    easier = min(
        one["judged"] - one["trained"] for one in base.values() if one["judged"] != one["trained"] or one is base["run"]
    )
    if gap > easier - KNOWN_BY * own["run"]["trained"]:
        return []
    theirs = base["run"]["judged"] - base["run"]["trained"]
    how = "better predicted than" if gap < 0.0 else "predicted almost as well as"
    text = f"the judged text {how} its training text ({gap:+.2g} nats per token; the baseline {theirs:+.2g})"
    return [Condition("judged text", text)]


def times(ratio: float) -> str:
    """``3.6 times``, ``0.25 times``, ``12 times``."""
    return f"{ratio:.0f} times" if ratio >= 9.95 else f"{ratio:.2g} times"


def worst_first(conditions: Iterable[Condition], *, better: bool) -> list[Condition]:
    """What speaks most against the word first: for *better* what the change had more of, for *worse* what it had less of.

    Differences that are no cost (another start, other text) come before all others.
    """

    def against(condition: Condition) -> float:
        ratio = condition.ratio
        return math.inf if ratio is None else math.log(ratio) * (1.0 if better else -1.0)

    return sorted(conditions, key=against, reverse=True)


def joined(texts: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def unequal(demanded: Iterable[str], base: Mapping[str, float | None], own: Mapping[str, float | None]) -> list[Condition]:
    """Of what a plan demands to be equal, what is not."""
    found = []
    for what in demanded:
        theirs, its = (costs.get(COLUMN.get(what, what)) for costs in (base, own))
        if theirs and its and abs(its / theirs - 1.0) > EQUAL[what]:
            found.append(
                Condition(what, f"{its:,.4g} against {theirs:,.4g} {'seconds' if what == 'time' else what}", theirs, its)
            )
    return found
