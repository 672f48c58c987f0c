"""The plain language model's objective: every token of a window predicts the one after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, final

from glassformer.data.batches import Batch, WindowBatches
from glassformer.data.data_kinds import PreparedData
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.evaluation.language_baselines import Bigram, Uniform, Unigram, trivial_baselines
from glassformer.evaluation.language_metrics import LANGUAGE_METRICS, EvaluatedText, language_outcomes
from glassformer.evaluation.results import Baseline, EvaluationTools, Outcomes
from glassformer.evaluation.token_losses import How, document_losses, token_losses
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import DataError
from glassformer.foundation.metrics import Metric
from glassformer.generation.texts import generate_texts
from glassformer.model.network import Network
from glassformer.objectives.base import OBJECTIVES, ObjectiveConfig

SAMPLE_TOKENS = 400
"""Tokens in the sample of a report."""


@OBJECTIVES.variant("next-token")
@final
class NextTokenConfig(ObjectiveConfig):
    """Every token of a window predicts the one after it (the plain language model)."""

    laws: ClassVar[frozenset[str]] = frozenset({"causality"})
    judges_windows: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = tuple(LANGUAGE_METRICS.values())
    baselines: ClassVar[Mapping[str, type[Baseline]]] = {"uniform": Uniform, "unigram": Unigram, "bigram": Bigram}

    def batches(self, data: PreparedData, *, context: int, batch_size: int, seed: int) -> WindowBatches:
        text = data.part("text")
        judged = len(text.split("validation").tokens) if "validation" in text.names else None
        if judged is not None and judged < 2:
            raise DataError(
                f"The validation text has {judged} token{'' if judged == 1 else 's'}, but to predict one from another needs "
                "at least 2; give more text, or none.",
                reason="validation-too-short",
            )
        return WindowBatches(text.split("train").tokens, context=context, batch_size=batch_size, seed=seed)

    def evaluate(self, network: Network, items: Any, tools: EvaluationTools) -> Outcomes:
        text = EvaluatedText.of(items, tools.tokenizer)
        return language_outcomes(*document_losses(network, text, context=tools.context, **_how(tools)))

    def validation_metrics(self, network: Network, items: Any, tools: EvaluationTools) -> dict[str, float]:
        text = EvaluatedText.of(items, tools.tokenizer)
        losses, _ = document_losses(network, text, context=tools.context, by_position=False, **_how(tools))
        return {"loss": float(losses.nats.sum() / losses.tokens.sum())}

    def predict(self, network: Network, items: Any, tools: EvaluationTools) -> list[dict[str, Any]]:
        """Every predicted token with its loss."""
        nats_N = token_losses(network, items.tokens, context=tools.context, **_how(tools))
        ids = items.tokens[1:].tolist()
        texts = (tools.tokenizer.token_text(token_id) for token_id in ids)
        return [
            {"position": at, "id": token_id, "token": text, "nats": nats}
            for at, (token_id, text, nats) in enumerate(zip(ids, texts, nats_N.tolist()), start=1)
        ]

    def sample(self, network: Network, data: PreparedData, tools: EvaluationTools) -> tuple[str, str]:
        text = generate_texts(network, tools.tokenizer, [""], seed=0, max_new_tokens=SAMPLE_TOKENS, temperature=0.8)[0]
        caption = "Temperature 0.8, seed 0, no prompt. One sample says little; the figures above say more."
        return text.prompt + text.text, caption

    def fit_baselines(self, data: PreparedData) -> dict[str, Baseline]:
        return {**trivial_baselines(data.part("text").split("train").tokens, data.tokenizer.size)}

    def fitted_on(self, data: PreparedData) -> str:
        text = data.part("text")
        return fingerprint([self.kind, text.tokens_key("train"), data.tokenizer.size])

    def show(self, batch: Batch, tokenizer: Tokenizer) -> list[str]:
        return [
            f"{tokenizer.decode(ids.tolist())!r} -> {tokenizer.decode(targets[-1:].tolist())!r}"
            for ids, targets in zip(batch["ids"], batch["targets"])
        ]


def _how(tools: EvaluationTools) -> How:
    return {
        "batch_size": tools.batch_size,
        "device": tools.device,
        "keep_going": tools.keep_going,
        "progress": tools.progress,
        "shared": tools.shared,
    }
