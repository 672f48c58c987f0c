"""The objective ``translate``: a source is read, its target is written; loss, BLEU and chrF of the target."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, final

import numpy as np
from pydantic import Field

from glassformer.data.batches import Batch
from glassformer.data.data_kinds import PreparedData
from glassformer.data.labels.label_batches import LengthGroups
from glassformer.data.pairs.pair_batches import (
    END,
    MARKS,
    PAD,
    START,
    PairBatches,
    encode_pairs,
    never_written,
    pairs_in_order,
    written_text,
)
from glassformer.data.pairs.text_pairs import Pairs
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.data.tokenizers.two import TwoTokenizers, target_side
from glassformer.evaluation.abstaining import Answer, AskOptions
from glassformer.evaluation.results import Baseline, EvaluationTools, Outcomes, Units
from glassformer.evaluation.translation_baselines import TRANSLATION_BASELINES, fit_translation_baselines
from glassformer.evaluation.translation_metrics import TRANSLATION_METRICS, translation_outcomes
from glassformer.foundation.config import fingerprint
from glassformer.foundation.metrics import LOSS, SOURCE_GAIN, Metric
from glassformer.generation.beams import BeamRule, Continuation
from glassformer.generation.sampling import Sampling
from glassformer.generation.translation import TranslationRule, translate
from glassformer.model.network import Network, evaluating
from glassformer.objectives.base import OBJECTIVES, ObjectiveConfig
from glassformer.objectives.token_targets import row_nats, row_targets, shown_pairs

COMPARED = 64
"""Pairs whose losses are compared with those given other sources."""
IGNORES_SOURCE = (
    "The model ignores its source: targets are as probable with other sources, so its figures are those of a language model."
)
SHOWN = 8
"""Translations in the sample of a report."""


@OBJECTIVES.variant("translate")
@final
class TranslateConfig(ObjectiveConfig):
    """Pairs of texts: a source is read, its target is written after it. Needs model.kind: encoder-decoder."""

    reads: ClassVar[tuple[str, ...]] = ("pairs",)
    judged_on: ClassVar[str] = "pairs"
    ask_reads: ClassVar[str] = "pairs"
    laws: ClassVar[frozenset[str]] = frozenset({"causality", "padding", "cache"})
    metrics: ClassVar[tuple[Metric, ...]] = TRANSLATION_METRICS
    baselines: ClassVar[Mapping[str, type[Baseline]]] = TRANSLATION_BASELINES
    reads_source: ClassVar[bool] = True
    answering: ClassVar[tuple[str, ...]] = ("beams", "length_penalty")

    beams: int = Field(default=1, ge=1, le=64)
    """Width of the beam search of evaluations; 1 is greedy."""
    length_penalty: float = Field(default=1.0, ge=0, le=4)
    """With beams: log probabilities are divided by the length to this power."""

    def marks(self) -> tuple[str, ...]:
        return MARKS

    def outputs(self, data: PreparedData) -> int | None:
        return data.tokenizer.target.size if isinstance(data.tokenizer, TwoTokenizers) else None

    def batches(self, data: PreparedData, *, context: int, batch_size: int, seed: int) -> PairBatches:
        pairs = encode_pairs(data.tokenizer, data.part("pairs").split("train"), context, training=True)
        return PairBatches(LengthGroups(pairs, batch_size=batch_size, seed=seed))

    def evaluate(self, network: Network, items: Any, tools: EvaluationTools) -> Outcomes:
        items.require_targets()
        losses, note = self._losses(network, items, tools)
        ignores = self._ignores_source(network, items, tools)
        texts = [text for text, _ in self.translate(network, items, tools)]
        outcomes = translation_outcomes(items, texts, losses)
        notes = (*(one for one in (IGNORES_SOURCE if ignores else None, note) if one), *outcomes.notes)
        return replace(outcomes, notes=notes, details={**outcomes.details, "ignores_source": ignores})

    def _ignores_source(self, network: Network, items: Pairs, tools: EvaluationTools) -> bool:
        """Whether the targets are as probable with other sources: each with that of the pair after it."""
        if len(items) < 2:
            return False
        own, other = self._with_other_sources(network, items, tools)
        return bool(np.allclose(own.sums, other.sums, rtol=1e-5, atol=1e-6))

    def _with_other_sources(self, network: Network, items: Pairs, tools: EvaluationTools) -> tuple[Units, Units]:
        """The losses of some targets with their own sources, and each with that of the pair after it."""
        some, quiet = items.chosen(range(min(len(items), COMPARED))), replace(tools, progress=lambda done: None)
        swapped = replace(some, sources=(*some.sources[1:], some.sources[0]))
        own, other = (self._losses(network, one, quiet)[0] for one in (some, swapped))
        return own, other

    def validation_metrics(self, network: Network, items: Any, tools: EvaluationTools) -> dict[str, float]:
        """The loss, and what sources save. Translations take longer, and are made where ``evaluation.by`` asks for them."""
        loss = {LOSS.name: self._losses(network, items, tools)[0].value}
        if len(items) < 2:
            return loss
        own, other = self._with_other_sources(network, items, tools)
        return {**loss, SOURCE_GAIN: other.value - own.value}

    def _losses(self, network: Network, items: Pairs, tools: EvaluationTools) -> tuple[Units, str | None]:
        """Nats and tokens of each target, and a note about cut ones."""
        pairs = encode_pairs(tools.tokenizer, items, tools.context)
        nats_N, tokens_N = np.zeros(len(pairs)), np.zeros(len(pairs))

        def measured(one: tuple[Any, Batch]) -> tuple[np.ndarray, ...]:
            return np.asarray(one[0]), row_nats(network, one[1]), row_targets(one[1])

        for at, nats_B, tokens_B in tools.shared(pairs_in_order(pairs, tools.batch_size), measured):
            tools.keep_going()
            nats_N[at], tokens_N[at] = nats_B, tokens_B
            tools.progress(len(at))
        return Units(nats_N, tokens_N), pairs.note("cut")

    def translate(
        self,
        network: Network,
        items: Pairs,
        tools: EvaluationTools,
        *,
        beams: int | None = None,
        length_penalty: float | None = None,
        sampling: Sampling | None = None,
        seed: int = 0,
    ) -> list[tuple[str, list[Continuation]]]:
        """The translation of each source as text, and all that were found as ids, the best first."""
        tokenizer, target = tools.tokenizer, target_side(tools.tokenizer)
        pairs = encode_pairs(tokenizer, replace(items, targets=None), tools.context)
        search = BeamRule(
            end_id=target.mark_id(END),
            max_new_tokens=network.dims.context,
            beams=self.beams if beams is None else beams,
            banned=never_written(target),
            length_penalty=self.length_penalty if length_penalty is None else length_penalty,
        )
        rule = TranslationRule(target.mark_id(START), tokenizer.mark_id(PAD), search, sampling, seed)

        def done(count: int) -> None:
            tools.keep_going()
            tools.progress(count)

        with evaluating(network):
            found = translate(network, pairs.sources, rule, progress=done, shared=tools.shared)
        return [(written_text(target, best[0].ids), best) for best in found]

    def predict(self, network: Network, items: Any, tools: EvaluationTools) -> list[dict[str, Any]]:
        rows = []
        for at, (text, found) in enumerate(self.translate(network, items, tools)):
            row = {"source": items.sources[at], "translation": text, "log_probability": found[0].log_probability}
            rows.append(row if items.targets is None else {**row, "target": items.targets[at]})
        return rows

    def ask(self, network: Network, items: Any, tools: EvaluationTools, options: AskOptions) -> list[Answer]:
        """Translations, with the probability of the whole target."""
        target = target_side(tools.tokenizer)
        answers = []
        beams = max(options.beams, self.beams)
        for source, (text, found) in zip(items.sources, self.translate(network, items, tools, beams=beams)):
            chances = [math.exp(one.log_probability) if one.ended else 0.0 for one in found]
            others = [(written_text(target, one.ids), chance) for one, chance in zip(found[1:], chances[1:])]
            shown = tuple(others[: options.beams - 1])
            answers.append(Answer(source, text, chances[0], options.abstains(chances[0]), shown))
        return answers

    def sample(self, network: Network, data: PreparedData, tools: EvaluationTools) -> tuple[str, str]:
        part = data.part("pairs")
        name = "validation" if "validation" in part.names else "train"
        some = part.split(name).chosen(range(min(SHOWN, len(part.split(name)))))
        lines = [
            f"{source}\n  -> {text}\n     ({truth})"
            for source, (text, _), truth in zip(some.sources, self.translate(network, some, tools), some.targets)
        ]
        return "\n".join(lines), f"The first sources of {name}, their translations, and in brackets the references."

    def fit_baselines(self, data: PreparedData) -> dict[str, Baseline]:
        return fit_translation_baselines(data.part("pairs").split("train"))

    def fitted_on(self, data: PreparedData) -> str:
        return fingerprint([self.kind, data.part("pairs").split("train").fingerprint])

    def show(self, batch: Batch, tokenizer: Tokenizer) -> list[str]:
        return shown_pairs(batch, tokenizer)
