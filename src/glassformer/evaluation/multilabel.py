"""Several labels at once: scores and labels -> F1, exact matches, thresholds; and the baselines. Imports no torch.

A label is given to a text if its probability is at least one half, or its threshold: the one that gives the label the best F1
on other texts. F1 with thresholds is cross-fitted, so that no text helps to choose the threshold it is measured with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, final

import numpy as np

from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.evaluation.interval_estimates import mean, ratio, wilson
from glassformer.evaluation.label_baselines import ABSENT, Majority, WordPairs, logistic
from glassformer.evaluation.label_metrics import ERRORS, EXCERPT, by_label, by_label_table, require_labels
from glassformer.evaluation.results import EvaluationTools, Outcomes, Units
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import Metric

MULTILABEL_METRICS = (
    Metric("exact_match", "of all texts", "all labels of a text right", lower_is_better=False, answers=True, margin=0.01),
    Metric("loss", "nats per text", "nats per text, summed over labels", margin=0.01),
    Metric("label_accuracy", "of all labels", "right of all yes-or-no decisions", lower_is_better=False, margin=0.01),
    Metric("micro_f1", "of all decisions", "F1 of all labels together", lower_is_better=False, judged=False),
    Metric("macro_f1", "mean of labels", "mean of the labels' F1", lower_is_better=False, judged=False),
    Metric(
        "macro_f1_thresholds", "mean of labels", "the same, a threshold for each label", lower_is_better=False, judged=False
    ),
)
"""Every figure of several labels, in the order of the tables."""


def multilabel_outcomes(scores_NC: np.ndarray, items: LabelledTexts) -> Outcomes:
    """All metrics of these scores (log odds)."""
    require_labels(items)
    true_NC, given_NC, ones_N = items.labels > 0, scores_NC > 0, np.ones(len(items))
    right_NC = true_NC == given_NC
    exact_N, labels = right_NC.all(axis=1).astype(float), true_NC.shape[1]
    nats_NC = np.logaddexp(0, np.where(true_NC, -scores_NC, scores_NC))
    both_NC = true_NC & given_NC
    tuned_NC = cross_fitted(scores_NC, true_NC)
    units = {
        "exact_match": Units(exact_N, ones_N),
        "loss": Units(nats_NC.sum(axis=1), ones_N),
        "label_accuracy": Units(right_NC.mean(axis=1), ones_N),
    }
    figures = {
        "exact_match": wilson(int(exact_N.sum()), len(items)),
        "loss": mean(nats_NC.sum(axis=1)),
        "label_accuracy": mean(right_NC.mean(axis=1)),
        "micro_f1": ratio(2.0 * both_NC.sum(axis=1), true_NC.sum(axis=1) + given_NC.sum(axis=1)),
        "macro_f1": Estimate(macro_f1(true_NC, given_NC), n=len(items)),
        "macro_f1_thresholds": Estimate(macro_f1(true_NC, tuned_NC), n=len(items)),
    }
    worst = [at for at in np.argsort(-nats_NC.max(axis=1), kind="stable")[:ERRORS].tolist() if not exact_N[at]]
    details = {
        "by_label": by_label(both_NC.sum(axis=0), true_NC.sum(axis=0), given_NC.sum(axis=0), items.label_names),
        "worst_errors": [
            {
                "id": items.ids[at],
                "text": items.text_of(at)[:EXCERPT],
                "labels": items.answer(at),
                "predicted": ", ".join(name for name, given in zip(items.label_names, given_NC[at]) if given),
                "most_wrong": items.label_names[int(nats_NC[at].argmax())],
                "its_probability": float(1 / (1 + np.exp(-scores_NC[at, nats_NC[at].argmax()]))),
            }
            for at in worst
        ],
    }
    never = f"No label is given to any of the {len(items):,} texts: every probability is below one half."
    notes = () if given_NC.any() or labels == 0 else (f"{never} data.class_weights=balanced may help.",)
    return Outcomes(units, figures, "text", items.balance(), items.ids, items.fingerprint, details, notes, scores_NC)


def macro_f1(true_NC: np.ndarray, given_NC: np.ndarray) -> float:
    """The mean F1 of the labels that some text has or gets."""
    total_C = true_NC.sum(axis=0) + given_NC.sum(axis=0)
    there = total_C > 0
    return float((2 * (true_NC & given_NC).sum(axis=0)[there] / total_C[there]).mean()) if there.any() else 0.0


def best_thresholds(scores_NC: np.ndarray, true_NC: np.ndarray) -> np.ndarray:
    """For each label the score from which on giving it has the best F1; 0 (a half) for a label that no text has."""
    found_C = np.zeros(scores_NC.shape[1])
    for label in np.flatnonzero(true_NC.any(axis=0)):
        order = np.argsort(-scores_NC[:, label], kind="stable")
        scores, true = scores_NC[order, label], true_NC[order, label]
        f1 = 2 * np.cumsum(true) / (np.arange(1, len(true) + 1) + true.sum())
        f1[np.append(scores[1:] == scores[:-1], False)] = -1.0  # a threshold cannot part equal scores
        last = int(f1.argmax())
        found_C[label] = (scores[last] + scores[last + 1]) / 2 if last + 1 < len(scores) else scores[last] - 1e-9
    return found_C


def cross_fitted(scores_NC: np.ndarray, true_NC: np.ndarray) -> np.ndarray:
    """bool [N, C]: which labels each text gets with the thresholds of the other half."""
    first_N, given_NC = np.arange(len(scores_NC)) % 2 == 0, np.zeros(scores_NC.shape, bool)
    for half in (first_N, ~first_N):
        given_NC[half] = scores_NC[half] > best_thresholds(scores_NC[~half], true_NC[~half])
    return given_NC


def multilabel_tables(details: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[Any]]]]:
    """(heading, header, rows): each label, and the texts with the worst error."""
    if "by_label" not in details or "confusion" in details:  # those of one label
        return []
    errors = [
        [row["id"], row["labels"], row["predicted"], row["most_wrong"], f"{row['its_probability']:.1%}", row["text"]]
        for row in details["worst_errors"]
    ]
    tables = [by_label_table("label", details["by_label"])]
    if errors:
        tables.append(("Worst errors", ["text", "true", "predicted", "most wrong", "its probability", "it says"], errors))
    return tables


@final
class LabelShares(Majority):
    """Every text gets the labels that more than half of the training texts have, with these shares as probabilities."""

    @classmethod
    def fit(cls, items: LabelledTexts) -> Self:
        """With add-one smoothing."""
        return cls((items.counts + 1.0) / (len(items) + 2.0))

    def evaluate(self, items: LabelledTexts, tools: EvaluationTools) -> Outcomes:
        return multilabel_outcomes(np.tile(np.log(self.shares_C / (1 - self.shares_C)), (len(items), 1)), items)


@final
class MultilabelWordPairs(WordPairs):
    """tf-idf of words and of pairs of neighbouring words, with a logistic regression for each label."""

    @classmethod
    def regression(cls, rows_NF: Any, items: LabelledTexts) -> tuple[np.ndarray, np.ndarray]:
        labels = len(items.label_names)
        weights_FC, bias_C = np.zeros((rows_NF.shape[1], labels)), np.full(labels, ABSENT)
        for label in range(labels):
            has_N = items.labels[:, label]
            if 0 < has_N.sum() < len(has_N):
                pair_F2, pair_2 = logistic(rows_NF, has_N, 2)
                weights_FC[:, label], bias_C[label] = pair_F2[:, 1], pair_2[1]
            elif has_N.any():
                bias_C[label] = -ABSENT
        return weights_FC, bias_C

    def evaluate(self, items: LabelledTexts, tools: EvaluationTools) -> Outcomes:
        return multilabel_outcomes(self.scores(items), items)


MULTILABEL_BASELINES: Mapping[str, type[Any]] = {"label shares": LabelShares, "word pairs": MultilabelWordPairs}
"""Weakest first."""
