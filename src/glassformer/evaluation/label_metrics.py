"""Log probabilities of labels, and the labels -> accuracy, loss, macro F1, confusion matrix, calibration. Imports no torch.

Texts that also occur in the training texts are reported separately. Detects a collapse to one class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.evaluation.calibration import calibration
from glassformer.evaluation.interval_estimates import mean, wilson
from glassformer.evaluation.results import Outcomes, Units
from glassformer.foundation.errors import DataError
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import COLLAPSED_TO, VALIDATION, Metric

ACCURACY = Metric("accuracy", "of all texts", "right of all texts", lower_is_better=False, answers=True, margin=0.01)
LOSS = Metric("loss", "nats per text", "nats per text", margin=0.01)
UNSEEN = Metric("accuracy_unseen", "of unseen texts", "right of texts not trained on", lower_is_better=False, judged=False)
MACRO_F1 = Metric("macro_f1", "mean of classes", "mean of the classes' F1", lower_is_better=False, judged=False)
CALIBRATION = Metric("calibration_error", "of confidence", "mean distance of confidence and accuracy", judged=False)
LABEL_METRICS = (ACCURACY, LOSS, UNSEEN, MACRO_F1, CALIBRATION)
"""Every figure of a classifier, in the order of the tables."""


def label_outcomes(log_probabilities_NC: np.ndarray, items: LabelledTexts) -> Outcomes:
    """All metrics of a classifier with these log probabilities."""
    labels_N = items.labels
    if len(labels_N) == 0 or (labels_N < 0).any():
        raise DataError(
            "These texts have no labels, so nothing can be measured; give a file with a column of labels, or use `ask`.",
            reason="no-labels",
        )
    predicted_N = log_probabilities_NC.argmax(axis=1)
    right_N = (predicted_N == labels_N).astype(float)
    nats_N = -log_probabilities_NC[np.arange(len(labels_N)), labels_N]
    ones_N = np.ones(len(labels_N))
    confusion_CC = confusion(labels_N, predicted_N, len(items.label_names))
    calibrated = calibration(np.exp(log_probabilities_NC.max(axis=1)), right_N, items.ids)
    figures = {
        "accuracy": wilson(int(right_N.sum()), len(right_N)),
        "loss": mean(nats_N),
        **_unseen(right_N, items),
        "macro_f1": Estimate(macro_f1(confusion_CC), n=len(right_N)),
        "calibration_error": Estimate(calibrated["ece"], n=len(right_N)),
    }
    details = {
        "confusion": {"labels": list(items.label_names), "rows_true_columns_predicted": confusion_CC.tolist()},
        "by_label": by_label(confusion_CC, items.label_names),
        "calibration": calibrated,
    }
    notes = [note for note in (collapse_note(predicted_N, items.label_names, labels_N), _memory_note(right_N, items)) if note]
    return Outcomes(
        units={"accuracy": Units(right_N, ones_N), "loss": Units(nats_N, ones_N)},
        figures=figures,
        unit="text",
        scope=items.balance(),
        ids=items.ids,
        fingerprint=items.fingerprint,
        details=details,
        notes=tuple(notes),
        raw=log_probabilities_NC,
    )


def confusion(labels_N: np.ndarray, predicted_N: np.ndarray, classes: int) -> np.ndarray:
    """int64 [C, C]: how many texts of each true label (row) got each label (column)."""
    return np.bincount(labels_N * classes + predicted_N, minlength=classes**2).reshape(classes, classes)


def macro_f1(confusion_CC: np.ndarray) -> float:
    """The mean of 2 right / (true + predicted) over the classes that are true or predicted at all, as scikit-learn has it."""
    right, true, predicted = np.diag(confusion_CC), confusion_CC.sum(axis=1), confusion_CC.sum(axis=0)
    there = true + predicted > 0
    return float((2 * right[there] / (true + predicted)[there]).mean())


def by_label(confusion_CC: np.ndarray, names: Sequence[str]) -> list[dict[str, Any]]:
    """For each label: how many texts, recall and precision with intervals."""
    right, true, predicted = np.diag(confusion_CC), confusion_CC.sum(axis=1), confusion_CC.sum(axis=0)
    return [
        {
            "label": name,
            "texts": int(true[at]),
            "predicted": int(predicted[at]),
            "recall": wilson(int(right[at]), int(true[at])).to_dict(),
            "precision": wilson(int(right[at]), int(predicted[at])).to_dict(),
        }
        for at, name in enumerate(names)
    ]


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
    unseen = f"{right_N[new].mean():.1%} of the {int(new.sum())} others" if new.any() else "there are no others"
    return (
        f"{int(seen.sum())} of the {len(right_N)} texts occur in the training texts, up to case and spacing, and "
        f"{right_N[seen].mean():.1%} of those are right; right are {unseen}."
    )
