"""Translations beside their references -> BLEU, chrF and exact matches, with intervals over sentences. Imports no torch.

BLEU and chrF are sacrebleu's, with its signature. Both are functions of sums over sentences, not means of sentences. Each
sentence therefore gets its influence: the score of all, plus n - 1 times how much it falls when this sentence is left out,
centred. Their mean is the score itself and their variance the jackknife's, so intervals and paired verdicts treat them as
any other unit.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glassformer.data.pairs.text_pairs import Pairs
from glassformer.evaluation.interval_estimates import ratio, wilson
from glassformer.evaluation.language_metrics import mapped
from glassformer.evaluation.results import Outcomes, Units
from glassformer.foundation.estimate import Estimate
from glassformer.foundation.metrics import EXACT_MATCH, LOSS, Metric

PERPLEXITY = Metric("perplexity", "", "e to the loss, per token of the target", judged=False)
BLEU = Metric("bleu", "points", "BLEU of sacrebleu, tokens 13a, cased", lower_is_better=False, margin=0.5)
BLEU_LOWER = Metric("bleu_lowercase", "points", "the same in lower case", lower_is_better=False, judged=False)
CHRF = Metric("chrf", "points", "chrF of sacrebleu: overlap of letters", lower_is_better=False, margin=0.5)
TRANSLATION_METRICS = (LOSS, PERPLEXITY, BLEU, BLEU_LOWER, CHRF, EXACT_MATCH)
WITHOUT_SACREBLEU = "BLEU and chrF need sacrebleu; install it with pip install 'glassformer[translate]'."
SHOWN = 5
"""Translations among the details of an evaluation."""


def translation_outcomes(items: Pairs, translations: Sequence[str], losses: Units | None = None) -> Outcomes:
    """All metrics of these translations. ``losses``: nats and tokens of each target, of a network."""
    references = items.require_targets()
    units: dict[str, Units] = {} if losses is None else {LOSS.name: losses}
    figures: dict[str, Estimate] = {}
    if losses is not None:
        loss = figures[LOSS.name] = ratio(losses.sums, losses.weights)
        figures[PERPLEXITY.name] = mapped(loss, math.exp)
    ones, signatures = np.ones(len(items)), dict[str, str]()
    if importlib.util.find_spec("sacrebleu") is not None:
        for metric in (BLEU, BLEU_LOWER, CHRF):
            influences, signatures[metric.name] = corpus_influences(metric, translations, references)
            figures[metric.name] = ratio(influences, ones)
            if metric.judged:
                units[metric.name] = Units(influences, ones)
    right = np.array([one == truth for one, truth in zip(translations, references)], dtype=np.float64)
    units[EXACT_MATCH.name] = Units(right, ones)
    figures[EXACT_MATCH.name] = wilson(int(right.sum()), len(right))
    shown = [
        {"source": source, "translation": translation, "target": target}
        for source, translation, target in zip(items.sources[:SHOWN], translations, references)
    ]
    return Outcomes(
        units=units,
        figures=figures,
        unit="pair",
        scope=f"{len(items):,} pairs",
        ids=items.ids,
        fingerprint=items.fingerprint,
        details={"signatures": signatures, "translations": shown},
        notes=() if signatures else (WITHOUT_SACREBLEU,),
    )


def corpus_influences(metric: Metric, translations: Sequence[str], references: Sequence[str]) -> tuple[np.ndarray, str]:
    """The influence of each sentence on the score of all, and sacrebleu's signature. Their mean is that score."""
    scorer = _scorer(metric)
    stats_NC = np.array(scorer._extract_corpus_statistics(list(translations), [list(references)]), dtype=np.int64)
    score: Callable[[np.ndarray], float] = lambda sums_C: float(scorer._compute_score_from_stats(sums_C.tolist()).score)  # noqa: E731
    total_C, count = stats_NC.sum(axis=0), len(stats_NC)
    whole, signature = score(total_C), str(scorer.get_signature())
    if count == 1:
        return np.array([whole]), signature
    without_N = np.array([score(total_C - row_C) for row_C in stats_NC])
    return whole + (count - 1) * (without_N.mean() - without_N), signature


def _scorer(metric: Metric) -> Any:
    """sacrebleu's metric. Its sums by sentence are private, and tested against its own scores."""
    from sacrebleu.metrics.bleu import BLEU as CorpusBLEU
    from sacrebleu.metrics.chrf import CHRF as CorpusCHRF

    if metric is CHRF:
        return CorpusCHRF()
    return CorpusBLEU(lowercase=metric is BLEU_LOWER)
