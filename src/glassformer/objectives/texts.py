"""Evaluations of single texts -> one table, and the metrics over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from glassformer.evaluation.language_metrics import LANGUAGE_METRICS, language_outcomes
from glassformer.evaluation.results import Evaluation, text_table
from glassformer.evaluation.units import DocumentLosses


def texts_table(results: Mapping[str, Evaluation]) -> str:
    """One row per text: length, perplexity, unknown tokens, and the bigram baseline."""
    rows = [["text", "tokens", "loss", "perplexity", "UNK", "bigram perplexity", "untrained perplexity"]]
    for name, result in results.items():
        figures = [result.metrics["loss"], result.metrics["perplexity"], result.metrics["unknown_share"]]
        figures += [result.baselines[one]["perplexity"] for one in ("bigram", "untrained") if one in result.baselines]
        rows.append([name, f"{result.details['tokens']:,}", *(str(figure) for figure in figures)])
    return text_table([row + [""] * (len(rows[0]) - len(row)) for row in rows])


def all_texts(results: Sequence[Evaluation]) -> Evaluation:
    """The metrics over several texts, each counted as one document."""
    losses = DocumentLosses.of_texts([result.outcomes.raw for result in results if result.outcomes is not None])
    first, metrics = results[0], tuple(LANGUAGE_METRICS.values())
    name = f"{len(results)} texts"
    return Evaluation.of(name, language_outcomes(losses), {}, metrics=metrics, step=first.step, tainted=first.tainted)
