"""Log probabilities of labels, and the labels -> accuracy, loss, macro F1, confusion matrix, calibration. Imports no torch.

Texts that also occur in the training texts are reported separately. Detects a collapse to one class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.evaluation.calibration import calibration
from glassformer.evaluation.interval_estimates import mean, ratio, wilson
from glassformer.evaluation.results import Outcomes, Units
from glassformer.foundation.errors import DataError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import COLLAPSED_TO, VALIDATION, Metric

ACCURACY = Metric("accuracy", "of all texts", "right of all texts", lower_is_better=False, answers=True, margin=0.01)
LOSS = Metric("loss", "nats per text", "nats per text", margin=0.01)
BALANCED = Metric("balanced_accuracy", "mean of classes", "mean of the classes' recall", lower_is_better=False, margin=0.01)
UNSEEN = Metric("accuracy_unseen", "of unseen texts", "right of texts not trained on", lower_is_better=False, judged=False)
MACRO_F1 = Metric("macro_f1", "mean of classes", "mean of the classes' F1", lower_is_better=False, judged=False)
CALIBRATION = Metric("calibration_error", "of confidence", "mean distance of confidence and accuracy", judged=False)
LABEL_METRICS = (ACCURACY, LOSS, BALANCED, UNSEEN, MACRO_F1, CALIBRATION)
"""Every figure of a classifier, in the order of the tables."""
ERRORS, EXCERPT = 10, 100
"""Worst errors that are stored, and the characters of each text."""
MOST_CLASSES, PAIRS = 12, 5
"""Classes of a confusion matrix that is shown, and confused pairs."""


def label_outcomes(log_probabilities_NC: np.ndarray, items: LabelledTexts) -> Outcomes:
    """All metrics of a classifier with these log probabilities."""
    labels_N = items.labels
    require_labels(items)
    predicted_N = log_probabilities_NC.argmax(axis=1)
    right_N = (predicted_N == labels_N).astype(float)
    nats_N = -log_probabilities_NC[np.arange(len(labels_N)), labels_N]
    ones_N = np.ones(len(labels_N))
    weights_N = 1 / np.bincount(labels_N)[labels_N]  # with these every class counts alike: their mean is that of the recalls
    confusion_CC = confusion(labels_N, predicted_N, len(items.label_names))
    calibrated = calibration(np.exp(log_probabilities_NC.max(axis=1)), right_N, items.ids)
    figures = {
        "accuracy": wilson(int(right_N.sum()), len(right_N)),
        "loss": mean(nats_N),
        "balanced_accuracy": ratio(right_N * weights_N, weights_N),
        **_unseen(right_N, items),
        "macro_f1": Estimate(macro_f1(confusion_CC), n=len(right_N)),
        "calibration_error": Estimate(calibrated["ece"], n=len(right_N)),
    }
    details = {
        "confusion": {"labels": list(items.label_names), "rows_true_columns_predicted": confusion_CC.tolist()},
        "by_label": by_label(np.diag(confusion_CC), confusion_CC.sum(axis=1), confusion_CC.sum(axis=0), items.label_names),
        "worst_errors": worst_errors(log_probabilities_NC, items),
        "calibration": calibrated,
    }
    notes = [note for note in (collapse_note(predicted_N, items.label_names, labels_N), _memory_note(right_N, items)) if note]
    return Outcomes(
        units={
            "accuracy": Units(right_N, ones_N),
            "loss": Units(nats_N, ones_N),
            "balanced_accuracy": Units(right_N * weights_N, weights_N),
        },
        figures=figures,
        unit="text",
        scope=items.balance(),
        ids=items.ids,
        fingerprint=items.fingerprint,
        details=details,
        notes=tuple(notes),
        raw=log_probabilities_NC,
    )


def require_labels(items: LabelledTexts) -> None:
    """Raises where nothing can be measured."""
    if len(items) == 0 or items.unlabelled:
        raise DataError(
            "These texts have no labels, so nothing can be measured; give a file with a column of labels, or use `ask`.",
            reason="no-labels",
        )


def confusion(labels_N: np.ndarray, predicted_N: np.ndarray, classes: int) -> np.ndarray:
    """int64 [C, C]: how many texts of each true label (row) got each label (column)."""
    return np.bincount(labels_N * classes + predicted_N, minlength=classes**2).reshape(classes, classes)


def macro_f1(confusion_CC: np.ndarray) -> float:
    """The mean of 2 right / (true + predicted) over the classes that are true or predicted at all, as scikit-learn has it."""
    right, true, predicted = np.diag(confusion_CC), confusion_CC.sum(axis=1), confusion_CC.sum(axis=0)
    there = true + predicted > 0
    return float((2 * right[there] / (true + predicted)[there]).mean())


def by_label(right: np.ndarray, true: np.ndarray, predicted: np.ndarray, names: Sequence[str]) -> list[dict[str, Any]]:
    """For each label, from the number of texts that have it rightly, that have it and that got it: recall, precision and F1
    with intervals."""
    return [
        {
            "label": name,
            "texts": int(true[at]),
            "predicted": int(predicted[at]),
            "recall": wilson(int(right[at]), int(true[at])).to_dict(),
            "precision": wilson(int(right[at]), int(predicted[at])).to_dict(),
            "f1": f1(int(right[at]), int(true[at]), int(predicted[at])).to_dict(),
        }
        for at, name in enumerate(names)
    ]


def f1(right: int, true: int, predicted: int) -> Estimate:
    """F1 of one class, 2 right / (true + predicted). Its interval: right is a share of the texts that are of the class or
    called so; F1 grows with that share, so the ends of Wilson's interval are carried over."""
    share = wilson(right, true + predicted - right)

    def carried(value: float | None) -> float | None:
        return None if value is None else 2 * value / (1 + value)

    return Estimate(carried(share.value), carried(share.low), carried(share.high), n=share.n)


def worst_errors(log_probabilities_NC: np.ndarray, items: LabelledTexts) -> list[dict[str, Any]]:
    """The wrong answers that were given with the most confidence, with the probability of the true label."""
    predicted_N, chance_N = log_probabilities_NC.argmax(axis=1), log_probabilities_NC.max(axis=1)
    wrong = np.flatnonzero(predicted_N != items.labels)
    worst = wrong[np.argsort(-chance_N[wrong], kind="stable")][:ERRORS]
    return [
        {
            "id": items.ids[at],
            "text": items.text_of(at)[:EXCERPT],
            "label": items.label_names[items.labels[at]],
            "predicted": items.label_names[predicted_N[at]],
            "confidence": float(np.exp(chance_N[at])),
            "probability_of_label": float(np.exp(log_probabilities_NC[at, items.labels[at]])),
        }
        for at in worst.tolist()
    ]


def label_tables(details: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[Any]]]]:
    """(heading, header, rows) of what a classifier does wrong, from the details of its evaluation: each class, which are taken
    for which, the most confused pairs, the worst errors."""
    if "confusion" not in details:
        return []
    names, counts = details["confusion"]["labels"], details["confusion"]["rows_true_columns_predicted"]
    tables = [by_label_table("class", details["by_label"])]
    if len(names) <= MOST_CLASSES:
        matrix = [[name, *row] for name, row in zip(names, counts)]
        tables.append(("Confusion: true class (row), predicted class (column)", ["true", *names], matrix))
    pairs = sorted(
        (
            (count, names[true], names[taken])
            for true, row in enumerate(counts)
            for taken, count in enumerate(row)
            if true != taken
        ),
        key=lambda pair: -pair[0],
    )
    mixed = [[true, taken, count] for count, true, taken in pairs[:PAIRS] if count]
    if mixed and len(names) > 2:
        tables.append(("Most confused", ["true", "predicted", "texts"], mixed))
    errors = [
        [
            row["id"],
            row["label"],
            row["predicted"],
            f"{row['confidence']:.1%}",
            f"{row['probability_of_label']:.1%}",
            row["text"],
        ]
        for row in details.get("worst_errors", ())
    ]
    if errors:
        header = ["text", "true", "predicted", "confidence", "p(true)", "it says"]
        tables.append(("Wrong with the most confidence", header, errors))
    return tables


def by_label_table(word: str, by_label: Sequence[Mapping[str, Any]]) -> tuple[str, list[str], list[list[Any]]]:
    """``by_label`` as (heading, header, rows)."""

    def figure(one: dict[str, Any]) -> Estimate | None:
        return None if one["value"] is None else Estimate.from_dict(one)

    rows = [
        [row["label"], row["texts"], *(figure(row[key]) if key in row else None for key in ("precision", "recall", "f1"))]
        for row in by_label
    ]
    return f"By {word}", [word, "texts", "precision", "recall", "F1"], rows


def collapse_note(predicted_N: np.ndarray, names: Sequence[str], labels_N: np.ndarray) -> str | None:
    """A sentence when every prediction is the same class, and not just because every text is of that class."""
    if not collapsed_to(predicted_N, labels_N):
        return None
    return (
        f"All {len(predicted_N):,} predictions are {names[int(predicted_N[0])]}: the classifier has collapsed to one class and "
        "says nothing about the text; a smaller training.lr or a warm-up is the usual remedy."
    )


def collapsed_since(records: Sequence[Mapping[str, Any]], steps_per_epoch: float) -> str | None:
    """A sentence when all predictions of the last evaluations are one class; None where they are not, and in the first epoch,
    in which most classifiers begin that way."""
    evaluated = [record for record in records if ACCURACY.recorded in record]
    label = evaluated[-1].get(VALIDATION + COLLAPSED_TO) if evaluated else None
    if label is None or evaluated[-1]["step"] < steps_per_epoch:
        return None
    since = evaluated[-1]["step"]
    for record in reversed(evaluated):
        if record.get(VALIDATION + COLLAPSED_TO) != label:
            break
        since = record["step"]
    return (
        f"All predictions are one class (number {int(label)}) since epoch {since / steps_per_epoch:.3g}: collapsed. If it "
        "stays so, try a smaller training.lr or a longer warm-up."
    )


def collapsed_to(predicted_N: np.ndarray, labels_N: np.ndarray) -> dict[str, float]:
    """The one class that is predicted for all texts, where it is one and some text is of another."""
    found = np.unique(predicted_N)
    collapsed = len(found) == 1 and len(predicted_N) > 1 and bool((labels_N != found[0]).any())
    return {COLLAPSED_TO: float(found[0])} if collapsed else {}


def _unseen(right_N: np.ndarray, items: LabelledTexts) -> dict[str, Estimate]:
    if items.seen is None or not items.seen.any():
        return {}
    new = ~items.seen
    return {"accuracy_unseen": wilson(int(right_N[new].sum()), int(new.sum()))}


def _memory_note(right_N: np.ndarray, items: LabelledTexts) -> str | None:
    if items.seen is None or not items.seen.any():
        return None
    seen, new = items.seen, ~items.seen
    unseen = f"and {right_N[new].mean():.1%} of the {int(new.sum())} others" if new.any() else "and there are no others"
    return (
        f"{int(seen.sum())} of the {len(right_N)} texts occur in the training texts, up to case and spacing: "
        f"{right_N[seen].mean():.1%} of those are right, {unseen}."
    )
