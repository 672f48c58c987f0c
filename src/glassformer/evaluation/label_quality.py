"""Labelled texts -> what may be wrong with them: contradictions, suspect labels, near-duplicates, scripts. Imports no torch.

A label is suspect if a bag of words and pairs that was fitted without the text prefers another class, and gives that class at
least the probability that the texts of that class get on average (Northcutt et al. 2021).
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from typing import Any

import numpy as np

from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.data.near_duplicates import near_duplicates_within, normalised, symbols
from glassformer.evaluation.decision import script_of
from glassformer.evaluation.label_baselines import WordPairs

FOLDS = 5
SHOWN = 10
FEWEST = 20
"""Texts below which nothing is fitted."""
RARE_SCRIPT = 0.05
"""A script with fewer of the letters than this is named as rare."""


def label_quality(items: LabelledTexts) -> dict[str, Any]:
    """Everything as plain values; texts by their ids (file and line)."""
    counts = items.counts
    near = near_duplicates_within([symbols(items.text_of(at)) for at in range(len(items))])
    pairs = None if near.pairs is None else [[items.ids[one], items.ids[other], score] for one, other, score in near.pairs]
    return {
        "texts": len(items),
        "classes": {name: int(count) for name, count in zip(items.label_names, counts)},
        "largest_to_smallest": float(counts.max() / max(1, counts[counts > 0].min())),
        "copies": len(items) - len({normalised(items.text_of(at)) for at in range(len(items))}),
        "contradictions": contradictions(items),
        "near_duplicates": {"count": near.count if pairs is not None else None, "examples": (pairs or [])[:SHOWN]},
        "suspects": suspects(items),
        "scripts": scripts(items),
    }


def contradictions(items: LabelledTexts) -> list[dict[str, Any]]:
    """Texts that occur with different labels, up to case and spacing."""
    found: dict[str, list[int]] = defaultdict(list)
    for at in range(len(items)):
        found[normalised(items.text_of(at))].append(at)
    return [
        {
            "text": items.text_of(places[0])[:100],
            "ids": [items.ids[at] for at in places],
            "labels": [items.label_names[items.labels[at]] for at in places],
        }
        for places in found.values()
        if len({int(items.labels[at]) for at in places}) > 1
    ]


def suspects(items: LabelledTexts) -> list[dict[str, Any]]:
    """Labels that cross-validation calls wrong, the most certain first; empty for few texts."""
    if len(items) < FEWEST:
        return []
    chances_NC = cross_validated(items)
    given_N = chances_NC[np.arange(len(items)), items.labels]
    usual_C = np.array(
        [
            given_N[items.labels == label].mean() if (items.labels == label).any() else 1.0
            for label in range(chances_NC.shape[1])
        ]
    )
    rivals_NC = np.where(chances_NC >= usual_C, chances_NC, 0.0)
    best_N = rivals_NC.argmax(axis=1)
    wrong = np.flatnonzero((rivals_NC.max(axis=1) > 0) & (best_N != items.labels))
    order = wrong[np.argsort(given_N[wrong] - chances_NC[wrong, best_N[wrong]], kind="stable")]
    return [
        {
            "id": items.ids[at],
            "text": items.text_of(at)[:100],
            "label": items.label_names[items.labels[at]],
            "rather": items.label_names[best_N[at]],
            "probability_of_label": float(given_N[at]),
            "probability_of_other": float(chances_NC[at, best_N[at]]),
        }
        for at in order.tolist()
    ]


def cross_validated(items: LabelledTexts) -> np.ndarray:
    """float64 [N, C]: the probabilities of each text by a bag fitted on the other folds. Copies of a text share its fold, so
    that none vouches for its own label."""
    texts = (normalised(items.text_of(at)).encode("utf-8", "surrogatepass") for at in range(len(items)))
    folds = np.array([zlib.crc32(text) % FOLDS for text in texts])  # the same in every process
    found_NC = np.full((len(items), len(items.label_names)), 1 / len(items.label_names))
    for fold in range(FOLDS):
        held_out, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        if len(held_out) and len(np.unique(items.labels[rest])) > 1:
            bag = WordPairs.fit(items[rest.tolist()])
            found_NC[held_out] = np.exp(bag.log_probabilities(items[held_out.tolist()]))
    return found_NC


def scripts(items: LabelledTexts) -> dict[str, Any]:
    """The share of letters by script (the first word of a letter's Unicode name), and texts mostly in a rare one."""
    by_text = [Counter(script_of(letter) for letter in items.text_of(at) if letter.isalpha()) for at in range(len(items))]
    total: Counter[str] = Counter()
    for counted in by_text:
        total.update(counted)
    letters = max(1, sum(total.values()))
    rare = {name for name, count in total.items() if count / letters < RARE_SCRIPT}
    strange = [items.ids[at] for at, counted in enumerate(by_text) if counted and counted.most_common(1)[0][0] in rare]
    shares = {name: count / letters for name, count in total.most_common()}
    return {"shares": shares, "texts_in_rare_scripts": strange[:SHOWN], "count": len(strange)}
