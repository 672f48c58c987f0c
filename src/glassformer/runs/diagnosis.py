"""A run's records -> what is wrong with it, in words: the sign that shows it, and what to do. Imports no torch.

``diagnose`` is a set of rules on the curves and a few facts about the data; ``diagnosis_of`` reads both from a run's folder.
A sound run gives no finding. Each finding has a code, which does not change, so that a script can test for it:

diverged           a loss, a gradient or a weight stopped being a number
worse-than-uniform training ends above the loss of giving every output the same probability
unstable           the training loss rose far above where it began, and came back
constant-data      a guess that reads nothing predicts everything: the same token or label every time
far-numbers        of the numbers to predict, few lie far from all others and make up the spread
flat               the loss is where it began, or never came below that of a guess that reads nothing
one-class          a classifier predicts the same class for every text
same-text          most of the validation data were trained on
too-good           a loss far below what counting pairs of tokens gives: a leak, duplicates, or text made by a rule
ignores-source     targets cost as much with the source of another pair
overfitting        validation got worse while training got better
still-learning     validation was still improving when training ended
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np

from glassformer.foundation.errors import GlassformerError
from glassformer.foundation.metrics import COLLAPSED_TO, LOSS, SOURCE_GAIN, TRAIN, VALIDATION, Metric
from glassformer.runs.directory import RunDirectory
from glassformer.runs.records import MetricsLog

FLAT = 0.03
"""A loss that fell by less than this share of where it began is flat."""
ABOVE_START = 1.1
"""A mean training loss above this many times the first one is no learning any more."""
SCATTER = 0.954
"""The median absolute difference of two draws from a normal distribution, in its standard deviations."""
NOTHING, ALL_RIGHT = 0.02, 0.998
"""Nats, and a share of right answers: where a baseline that reads nothing gets there, nothing is left to learn."""
READ_NOTHING = ("uniform", "unigram", "prior", "majority", "label shares", "mean")
"""Baselines that say the same whatever they read. A bag of words may be perfect on data that are worth learning."""
RISEN = 0.03
"""A validation loss that rose by more than this share of where the loss began has risen."""
LEARNING = 0.02
"""A validation loss that fell by more than this share in the last third of its evaluations is still falling..."""
OF_ALL = 0.05
"""...if that is more than this share of everything it ever gained."""
SAME = 0.5
"""The share of validation data trained on from which on its figures measure memory."""
TOO_GOOD = 0.25
"""A loss below this share of the best baseline's is more than a text of natural language allows a small model."""
FAR = 0.3
"""A mean deviation of so few standard deviations (0.8 of a normal distribution) comes from one number in forty, or fewer."""
WORTH = 0.02
"""A source that saves less than this share of the loss is not used."""
FEWEST = 4
"""Evaluations needed to see a trend."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong (``tone`` warning) or worth knowing (note)."""

    code: str
    what: str
    sign: str
    remedy: str
    tone: str = "warning"
    step: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "what": self.what,
            "sign": self.sign,
            "do": self.remedy,
            "tone": self.tone,
            "step": self.step,
        }

    def __str__(self) -> str:
        return f"{self.what} {self.sign} {self.remedy}"


@dataclass(frozen=True)
class Facts:
    """What the rules know beside the records. ``baselines``: the judged metric of each on validation."""

    metric: Metric = LOSS
    status: str = "finished"
    reason: str = ""
    num_outputs: int | None = None
    several: bool = False  # labels at once, a yes or no for each
    weighted: bool = False  # by class: a batch of rare texts costs more
    lr: float | None = None
    overlap: float | None = None
    tainted: str | None = None
    baselines: Mapping[str, float] = field(default_factory=dict)
    label_names: Sequence[str] = ()


def diagnosis_of(run: RunDirectory) -> list[Finding]:
    """What is wrong with the run in a folder; nothing where its files cannot be read."""
    try:
        environment = run.read_environment() if run.environment_file.is_file() else {}
        state, recipe = run.read_state(), run.read_recipe()
        records = MetricsLog(run.metrics_file).read(lambda sentence: None)
    except (GlassformerError, OSError):
        return []
    known, training, baselines = environment.get("metric"), recipe.get("training"), state.get("baselines")
    labels = (environment.get("data") or {}).get("labels")
    facts = Facts(
        metric=LOSS if known is None else Metric.from_dict(known),
        status=state["status"],
        reason=str(state.get("reason") or ""),
        num_outputs=environment.get("num_outputs"),
        several=(environment.get("data") or {}).get("target") == "several",
        weighted=(recipe.get("data") or {}).get("class_weights", "none") != "none",
        lr=training.get("lr") if isinstance(training, dict) else None,
        overlap=environment.get("overlap"),
        tainted=environment.get("tainted"),
        baselines=baselines if isinstance(baselines, dict) else {},
        label_names=[str(name) for name in labels.values()] if isinstance(labels, dict) else (),
    )
    return diagnose(records, facts)


def diagnose(records: Sequence[Mapping[str, Any]], facts: Facts) -> list[Finding]:
    """The findings, the gravest first. ``records``: those of ``metrics.jsonl``, in order."""
    train = _series(records, "loss")
    validation = _series(records, VALIDATION + "loss") or (
        _series(records, facts.metric.recorded) if facts.metric.lower_is_better else []
    )
    broken = _diverged(train, facts)
    if broken is not None:
        return [broken]
    if len(train) < 2:
        return []
    start, end = train[0][1], _mean_of_last(train)
    last = validation[-1][1] if validation else end
    collapsed = _one_class(records, facts)
    constant = _constant(facts)
    worse = _worse_than_uniform(min(end, last), facts)
    judged = _series(records, facts.metric.recorded)
    fitted = _series(records, TRAIN + "loss") or train
    trend = _overfitting(validation, fitted, start, judged, facts.metric) or _still_learning(validation, facts)
    flat = _flat(start, min(end, last), facts) or (_a_guess(records, facts) if trend is None else None)
    flat = flat if worse is None and collapsed is None else None
    if constant is not None:
        return [constant]
    far = _far_numbers(facts)
    if far is not None:  # the losses are those of the few
        return [far, *([same] if (same := _same_text(facts)) is not None else [])]
    unstable = _unstable(train, facts) if worse is None and collapsed is None else None
    flat = flat if unstable is None else None  # which asks for a smaller rate, where flat may ask for a larger one
    found = [worse, unstable, flat, collapsed, _same_text(facts), _too_good(records, last, facts)]
    if worse is None and unstable is None and flat is None:
        found += [_ignores_source(records, last, early=trend is not None and trend.code == "still-learning"), trend]
    return [one for one in found if one is not None]


def _series(records: Sequence[Mapping[str, Any]], key: str) -> list[tuple[int, float]]:
    return [(record["step"], float(record[key])) for record in records if key in record]


def _mean_of_last(series: Sequence[tuple[int, float]]) -> float:
    """Single batches scatter: the mean over the last tenth."""
    count = max(1, len(series) // 10)
    return sum(value for _, value in series[-count:]) / count


def _smaller(lr: float | None) -> str:
    return "a smaller training.lr" if lr is None else f"a smaller training.lr (it is {lr:g}; try {lr / 10:g})"


def _diverged(train: Sequence[tuple[int, float]], facts: Facts) -> Finding | None:
    at = next((step for step, value in train if not math.isfinite(value)), None)
    if facts.status != "diverged" and at is None:
        return None
    sign = facts.reason or f"The loss of step {at} is not a number."
    remedy = f"Try {_smaller(facts.lr)}, a longer warm-up (training.schedule.warmup) or training.clip: 1.0."
    return Finding("diverged", "Training diverged.", sign, remedy, step=at)


def _constant(facts: Facts) -> Finding | None:
    values = [value for name, value in facts.baselines.items() if name in READ_NOTHING]
    constant = min(values) < NOTHING if values and facts.metric.lower_is_better else max(values, default=0.0) >= ALL_RIGHT
    if not constant:
        return None
    figure = f"{min(values):.4f}" if facts.metric.lower_is_better else f"{max(values):.4f}"
    return Finding(
        "constant-data",
        "There is nothing to learn in these data.",
        f"A baseline that reads nothing has a validation {facts.metric.name} of {figure}: always the same token, or label.",
        "Look at what the model reads: `glassformer data show RECIPE`.",
    )


def _far_numbers(facts: Facts) -> Finding | None:
    """Of numbers the judged error is in standard deviations, and the baseline that reads nothing tells their mean deviation."""
    if facts.num_outputs != 1 or facts.metric.unit != "standard deviations" or facts.baselines.get("mean", FAR) >= FAR:
        return None
    return Finding(
        "far-numbers",
        "A few numbers lie so far from all others that they alone decide the loss.",
        f"The mean of all numbers is {facts.baselines['mean']:.2f} standard deviations off on average; usual are 0.5 to 0.9.",
        "Look at the smallest and largest numbers: is one a code for a missing value, or an error? Remove such rows. If all "
        "are right, predict their logarithms.",
    )


def _uniform(outputs: int, facts: Facts) -> float:
    """The loss of the same probability for every output: of several labels at once, of one half for each."""
    return outputs * math.log(2) if facts.several else math.log(outputs)


def _worse_than_uniform(end: float, facts: Facts) -> Finding | None:
    if facts.num_outputs is None or facts.num_outputs < 2:
        return None
    uniform = _uniform(facts.num_outputs, facts)
    if end <= uniform * 1.02:
        return None
    return Finding(
        "worse-than-uniform",
        "It is worse than guessing: its weights blew up, though every loss was a number.",
        f"The loss ends at {end:.3f}; the same probability for each of the {facts.num_outputs:,} outputs costs {uniform:.3f}.",
        f"Try {_smaller(facts.lr)}, or a longer warm-up.",
    )


def _unstable(train: Sequence[tuple[int, float]], facts: Facts) -> Finding | None:
    start, width = train[0][1], max(3, len(train) // 20)
    if len(train) < width:
        return None
    values = np.array([value for _, value in train])
    means = np.convolve(values, np.ones(width) / width, mode="valid")
    outputs = facts.num_outputs or 2
    # The first batch may be a lucky one; a scaled number's mean costs 1.
    guess = _uniform(outputs, facts) if outputs > 1 else 1.0
    scatter = float(np.median(np.abs(np.diff(values)))) / SCATTER / width**0.5
    most = ABOVE_START * max(start, guess) + 3.0 * scatter
    if outputs == 1 or facts.weighted:  # squared errors of a few texts scatter widely, and so do weights
        most = max(most, 2.0 * max(start, guess))
    if means.max() <= most:
        return None
    at = train[int(np.argmax(means))][0]
    return Finding(
        "unstable",
        "Training is unstable.",
        f"Around step {at:,} the training loss was {means.max():.3f}, far above the {start:.3f} that it began with.",
        f"Try {_smaller(facts.lr)}, a longer warm-up (training.schedule.warmup) or training.clip: 1.0.",
        step=at,
    )


def _flat(start: float, end: float, facts: Facts) -> Finding | None:
    if start - end >= FLAT * start:
        return None
    return _learned_nothing(f"In all its steps the loss only went from {start:.3f} to {end:.3f}.", facts)


def _a_guess(records: Sequence[Mapping[str, Any]], facts: Facts) -> Finding | None:
    """The best of the run is no better than always saying the same; the uniform guess is another rule's."""
    guesses = {name: one for name, one in facts.baselines.items() if name in READ_NOTHING and name != "uniform"}
    values = _series(records, facts.metric.recorded)
    if not facts.metric.lower_is_better or not guesses or len(values) < FEWEST:
        return None
    (name, guess), best = min(guesses.items(), key=lambda one: one[1]), min(value for _, value in values)
    if best < guess:
        return None
    sign = f"Its best validation {facts.metric.name} is {best:.3f}; the baseline {name}, which reads nothing, has {guess:.3f}."
    early = values[: max(1, len(values) // 2)]
    stuck = min(value for _, value in early) <= (1.0 + FLAT) * guess
    return _learned_nothing(sign, facts, stuck=stuck)


def _learned_nothing(sign: str, facts: Facts, *, stuck: bool = False) -> Finding:
    """``stuck``: it soon was as good as the guess, and stayed there: the rate was not too small, but may be too large."""
    rate = "a larger training.lr" if facts.lr is None else f"a larger training.lr (it is {facts.lr:g}; try {10 * facts.lr:g})"
    return Finding(
        "flat",
        "It has learned nothing from what it reads." if stuck else "It has learned nothing.",
        sign,
        f"Try {f'{_smaller(facts.lr)}, or a warm-up' if stuck else f'{rate} or more steps'}; if that changes nothing, look "
        "whether inputs and targets belong together: `glassformer data show RECIPE`.",
    )


def _one_class(records: Sequence[Mapping[str, Any]], facts: Facts) -> Finding | None:
    key = VALIDATION + COLLAPSED_TO
    evaluations = [record for record in records if any(name.startswith(VALIDATION) for name in record)]
    if not evaluations or key not in evaluations[-1]:
        return None
    label = int(evaluations[-1][key])
    since = [one["step"] for one in takewhile(lambda one: key in one, reversed(evaluations))][-1]
    named = facts.label_names[label] if label < len(facts.label_names) else f"number {label}"
    return Finding(
        "one-class",
        f"It predicts one class ({named}) for every validation text.",
        f"It has done so since step {since:,}, so its accuracy is just the share of that class.",
        f"Try {_smaller(facts.lr)} or a warm-up. Look whether labels belong to their texts (`glassformer data show RECIPE`), "
        "and whether what tells the classes apart is read: a text longer than model.context is cut. If the classes are very "
        "uneven, it needs more texts of the rare ones.",
        step=since,
    )


def _same_text(facts: Facts) -> Finding | None:
    if facts.overlap is None or facts.overlap < SAME:
        return None
    return Finding(
        "same-text",
        "Validation measures memory: most of it was trained on.",
        f"{facts.overlap:.0%} of the validation data is in the training data too, word for word.",
        "Hold out other text (data.validation: FILE), or remove the copies before splitting.",
    )


def _too_good(records: Sequence[Mapping[str, Any]], last: float, facts: Facts) -> Finding | None:
    """``last``: the loss, where the judged metric, which the baselines have, is not recorded."""
    if not facts.metric.lower_is_better or not facts.baselines:
        return None
    last = next((value for _, value in reversed(_series(records, facts.metric.recorded))), last)
    name = min(facts.baselines, key=lambda one: facts.baselines[one])
    best = facts.baselines[name]
    if last >= TOO_GOOD * best:
        return None
    why = f"A check says why: {facts.tainted}" if facts.tainted else "Run `glassformer check RUN`, and look for copies."
    return Finding(
        "too-good",
        "It is better than natural text allows.",
        f"Its {facts.metric.name} is {last:.3f}; the best baseline, {name}, has {best:.3f}. Either it sees what it predicts, "
        "or the text repeats itself.",
        f"{why} If the text is made by a rule, all is well.",
    )


def _ignores_source(records: Sequence[Mapping[str, Any]], last: float, *, early: bool) -> Finding | None:
    """``early``: it was still learning, and may come to use its source; then this is a note."""
    gains = _series(records, VALIDATION + SOURCE_GAIN)
    if not gains or gains[-1][1] >= WORTH * last:
        return None
    more = max(gains[-1][1], 0.0)
    return Finding(
        "ignores-source",
        "It makes no use of its source: it has learned to write targets, not to translate.",
        f"Targets cost {last:.3f} nats per token with their own sources, and {more:.3f} more with other sources.",
        "Look whether sources and targets belong together: `glassformer data show RECIPE`. If they do, train longer.",
        tone="note" if early else "warning",
    )


def _overfitting(
    validation: Sequence[tuple[int, float]],
    train: Sequence[tuple[int, float]],
    start: float,
    judged: Sequence[tuple[int, float]] = (),
    metric: Metric = LOSS,
) -> Finding | None:
    """``judged``: of a classifier, the metric by which its checkpoint is chosen; it may rise while the loss rises too."""
    if len(validation) < FEWEST:
        return None
    values = [value for _, value in validation]
    at = int(np.argmin(values))
    (since, best), last = validation[at], values[-1]
    if len(values) - 1 - at < 2 or last - best <= RISEN * start:
        return None
    span = max(1, validation[-1][0] // 10)
    around = [value for step, value in train if abs(step - since) <= span] or [train[0][1]]
    then, now = sum(around) / len(around), _mean_of_last(train)
    if now >= then:  # both got worse: that is no overfitting
        return None
    sign = f"The validation loss rose from {best:.3f} to {last:.3f} while the training loss fell from {then:.3f} to {now:.3f}"
    found = dict(judged)
    if metric.answers and since in found and found[max(found)] - found[since] > LEARNING:
        return Finding(
            "overfitting",
            f"Since step {since:,} it has grown too sure of itself, though its {metric.name} still rose.",
            f"{sign}; its {metric.name} rose from {found[since]:.1%} to {found[max(found)]:.1%}.",
            "If only the answers matter, all is well. If their probabilities matter, train shorter, on more text, or with "
            "model.dropout.",
            tone="note",
            step=since,
        )
    kept = metric.best(found) if found else since
    best_by = "The" if kept == since else f"By {metric.name} the"
    return Finding(
        "overfitting",
        f"It has overfitted since step {since:,}.",
        f"{sign}.",
        f"{best_by} best checkpoint is that of step {kept:,} (`--checkpoint best`, if the recipe has checkpoint.best: true). "
        "Train shorter, on more text, with model.dropout, or a smaller model.",
        step=since,
    )


def _still_learning(validation: Sequence[tuple[int, float]], facts: Facts) -> Finding | None:
    if len(validation) < FEWEST or facts.status != "finished":
        return None
    values = [value for _, value in validation]
    since, third = validation[-1 - max(2, len(values) // 3)]
    gained, ever = third - values[-1], max(values) - values[-1]
    if values[-1] > min(values) or gained <= LEARNING * abs(values[-1]) or gained <= OF_ALL * ever:
        return None
    return Finding(
        "still-learning",
        "It was still learning when training ended.",
        f"The validation loss fell from {third:.3f} at step {since:,} to {values[-1]:.3f} at step {validation[-1][0]:,}.",
        "Train a new run with more training.steps. (--resume with more steps works too, but the learning rate may jump there.)",
        tone="note",
    )
