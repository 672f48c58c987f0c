"""A model and a text -> the figures of a language model beside every baseline: what ``evaluate`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.evaluation.baselines import trivial_baselines
from glassformer.evaluation.documents import DocumentLosses, EvaluatedText
from glassformer.evaluation.language import evaluate_language, token_losses
from glassformer.evaluation.results import Evaluation, text_table
from glassformer.foundation.files import write_atomically
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.model.transformer import Transformer

BATCH = 32


class LanguageRuler:
    """Measures one model; counts the baselines once, however many texts follow."""

    def __init__(
        self, model: Transformer, untrained: Transformer, training_tokens: np.ndarray, *, step: int, tainted: str | None = None
    ) -> None:
        self.model, self.untrained, self.step, self.tainted = model, untrained, step, tainted
        self.context = model.dims.context
        self.baselines = trivial_baselines(training_tokens, model.dims.vocabulary)

    def measure(self, name: str, text: EvaluatedText, *, notes: Sequence[str] = (), watch: Watcher = SILENT) -> Evaluation:
        """The figures of one text, a document being the unit of the intervals."""
        done, total = 0, 2 * max(1, len(text.tokens) - 1)

        def progress(tokens: int) -> None:
            nonlocal done
            done += tokens
            watch.progress("evaluating", done, total)

        return evaluate_language(
            self.model,
            text,
            name=name,
            context=self.context,
            baselines=self.baselines,
            untrained=self.untrained,
            step=self.step,
            tainted=self.tainted,
            notes=notes,
            batch_size=BATCH,
            progress=progress,
        )


def write_predictions(file: Path, model: Transformer, tokens: np.ndarray, tokenizer: Tokenizer) -> None:
    """Every predicted token with its loss, one per line: position, id, token, nats."""
    losses = token_losses(model, tokens, context=model.dims.context, batch_size=BATCH)
    lines = ["position\tid\ttoken\tnats"]
    for position, (token_id, nats) in enumerate(zip(tokens[1:].tolist(), losses.tolist()), start=1):
        shown = tokenizer.token_text(token_id).replace("\\", "\\\\")
        shown = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in shown)  # a line break stays one line
        lines.append(f"{position}\t{token_id}\t{shown}\t{nats:.6f}")
    write_atomically(file, "\n".join(lines) + "\n")


def texts_table(results: Mapping[str, Evaluation]) -> str:
    """One line for each text: how long, how surprising, how much of it is unknown, and what a table of pairs makes of it."""
    rows = [["text", "tokens", "loss", "perplexity", "UNK", "bigram perplexity", "untrained perplexity"]]
    for name, result in results.items():
        figures = [result.metrics["loss"], result.metrics["perplexity"], result.metrics["unknown_share"]]
        figures += [result.baselines[baseline]["perplexity"] for baseline in ("bigram", "untrained")]
        rows.append([name, f"{result.tokens:,}", *(str(figure) for figure in figures)])
    return text_table(rows)


def all_texts(results: Sequence[Evaluation]) -> Evaluation:
    """The figures over several single texts, each text being one document."""
    losses = DocumentLosses.of_texts([result.losses for result in results if result.losses is not None])
    first = results[0]
    return Evaluation.of_language(f"{len(results)} texts", losses, {}, step=first.step, tainted=first.tainted)
