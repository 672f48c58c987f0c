"""Masked language modelling: some tokens of a window are masked and predicted from both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, final

import numpy as np
import torch
from pydantic import Field

from glassformer.data.batches import Batch, WindowBatches
from glassformer.data.data_kinds import PreparedData
from glassformer.data.tokenizers.base import MASK, Tokenizer
from glassformer.evaluation.language_baselines import Unigram
from glassformer.evaluation.results import Baseline, EvaluationTools, Outcomes, Units
from glassformer.foundation.config import fingerprint
from glassformer.foundation.metrics import Metric
from glassformer.foundation.seeds import derive_seed
from glassformer.model.losses import IGNORED
from glassformer.model.network import Network, evaluating
from glassformer.objectives.base import OBJECTIVES, ObjectiveConfig

DRAWN_TOGETHER = 256
"""Windows whose masks are drawn together, so that the evaluation's batch size does not change them."""
LOSS = Metric("loss", "nats per masked token", "nats per masked token", margin=0.01)
ACCURACY = Metric("accuracy", "of masked tokens", "right of all masked tokens", lower_is_better=False, judged=False)


def _outcomes(nats: Sequence[np.ndarray], right: Sequence[np.ndarray], counts: Sequence[np.ndarray]) -> Outcomes:
    """From batches of windows, for each window: nats, tokens predicted rightly, masked tokens."""
    weights = np.concatenate(counts).astype(float)
    units = {"loss": Units(np.concatenate(nats), weights), "accuracy": Units(np.concatenate(right).astype(float), weights)}
    scope = f"{int(weights.sum()):,} masked tokens in {len(weights):,} windows"
    found = Outcomes.of_units(units, unit="window", scope=scope)
    return replace(found, units={"loss": units["loss"]})  # accuracy is not judged


@final
class MaskedBaseline(Baseline):
    """A table of token probabilities, evaluated on the same masked tokens."""

    def __init__(self, table_V: np.ndarray, share: float) -> None:
        self.table_V, self.share = table_V, share

    def evaluate(self, items: Any, tools: EvaluationTools) -> Outcomes:
        nats, right, counts = [], [], []
        best = int(self.table_V.argmax())
        for batch in _evaluation_batches(items, tools, self.share):
            targets_BT = batch["targets"].numpy()
            masked_BT = targets_BT != IGNORED
            nats.append((-np.log(self.table_V[np.maximum(targets_BT, 0)]) * masked_BT).sum(1))
            right.append((targets_BT == best).sum(1))
            counts.append(masked_BT.sum(1))
        return _outcomes(nats, right, counts)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"table": self.table_V, "share": np.asarray(self.share)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> MaskedBaseline:
        return cls(arrays["table"], float(arrays["share"]))


@OBJECTIVES.variant("masked")
@final
class MaskedConfig(ObjectiveConfig):
    """A share of the tokens is hidden and guessed from both sides (BERT's pretraining): 80 % masked, 10 % random, 10 % same."""

    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, ACCURACY)
    baselines: ClassVar[Mapping[str, type[Baseline]]] = {"uniform": MaskedBaseline, "unigram": MaskedBaseline}
    share: float = Field(default=0.15, gt=0, lt=1)

    def marks(self) -> tuple[str, ...]:
        return (MASK,)

    def batches(self, data: PreparedData, *, context: int, batch_size: int, seed: int) -> MaskedBatches:
        tokens = data.part("text").split("train").tokens
        windows = WindowBatches(tokens, context=context, batch_size=batch_size, seed=seed)
        return MaskedBatches(windows, data.tokenizer.mark_id(MASK), data.tokenizer.size, self.share, seed)

    @torch.no_grad()
    def evaluate(self, network: Network, items: Any, tools: EvaluationTools) -> Outcomes:
        """Every window of the text once, with masks that depend on its position only; the units are windows."""
        device = tools.device or next(network.parameters()).device

        def measured(batch: Batch) -> tuple[np.ndarray, ...]:
            """For each window: nats, tokens predicted, masked tokens."""
            on_device = batch.to(device)
            scores_BTV = network(on_device["ids"]).float()
            targets_BT = on_device["targets"]
            masked_BT = targets_BT != IGNORED
            logs_BT = torch.log_softmax(scores_BTV, -1).gather(-1, targets_BT.clamp(min=0).unsqueeze(-1)).squeeze(-1)
            tools.progress(batch.numel)
            right_B = ((scores_BTV.argmax(-1) == targets_BT) & masked_BT).sum(1)
            nats_B = -(logs_BT * masked_BT).double().sum(1)
            return nats_B.cpu().numpy(), right_B.cpu().numpy(), masked_BT.sum(1).cpu().numpy()

        with evaluating(network):
            nats, right, counts = zip(*tools.shared(_evaluation_batches(items, tools, self.share), measured))
        return _outcomes(nats, right, counts)

    def num_units(self, items: Any, tools: EvaluationTools) -> int:
        return max(1, len(items.tokens) // tools.context)

    def evaluation_settings(self, items: Any, tools: EvaluationTools) -> dict[str, Any]:
        context = min(tools.context, len(items.tokens))
        return {"objective": self.kind, "objective.share": self.share, "model.context": context}

    def fit_baselines(self, data: PreparedData) -> dict[str, Baseline]:
        size = data.tokenizer.size
        unigram = Unigram.fit(data.part("text").split("train").tokens, size)
        tables = {"uniform": np.full(size, 1.0 / size), "unigram": unigram.table_V}
        return {name: MaskedBaseline(table_V, self.share) for name, table_V in tables.items()}

    def fitted_on(self, data: PreparedData) -> str:
        text = data.part("text")
        return fingerprint([self.to_dict(), text.tokens_key("train"), data.tokenizer.size])

    def show(self, batch: Batch, tokenizer: Tokenizer) -> list[str]:
        rows = []
        for ids, targets in zip(batch["ids"], batch["targets"]):
            hidden = ", ".join(tokenizer.token_text(int(target)) for target in targets[targets != IGNORED])
            rows.append(f"{tokenizer.decode(ids.tolist())!r}; hidden: {hidden}")
        return rows


@final
class MaskedBatches:
    """Windows with masks that depend on (seed, step)."""

    def __init__(self, windows: WindowBatches, mask: int, vocabulary: int, share: float, seed: int) -> None:
        self.windows, self.mask, self.vocabulary, self.share, self.seed = windows, mask, vocabulary, share, seed

    @property
    def steps_per_epoch(self) -> float:
        return self.windows.steps_per_epoch

    def on(self, device: torch.device) -> MaskedBatches:
        return self

    def batch(self, step: int) -> Batch:
        draw = np.random.default_rng(derive_seed(self.seed, "mask", step))
        return masked_batch(self.windows.batch(step)["ids"].numpy(), self.mask, self.vocabulary, self.share, draw)


def masked_batch(ids_BT: np.ndarray, mask: int, vocabulary: int, share: float, draw: np.random.Generator) -> Batch:
    """Inputs with masked tokens, and their targets; at least one per row."""
    chance_BT = draw.random(ids_BT.shape)
    chosen_BT = chance_BT < np.maximum(share, chance_BT.min(axis=1, keepdims=True) + 1e-12)
    way_BT = draw.random(ids_BT.shape)
    others_BT = draw.integers(0, vocabulary, ids_BT.shape)
    inputs_BT = np.where(chosen_BT & (way_BT < 0.8), mask, ids_BT)
    inputs_BT = np.where(chosen_BT & (way_BT >= 0.8) & (way_BT < 0.9), others_BT, inputs_BT)
    targets_BT = np.where(chosen_BT, ids_BT, IGNORED)
    return Batch(ids=torch.from_numpy(inputs_BT.astype(np.int64)), targets=torch.from_numpy(targets_BT.astype(np.int64)))


def _evaluation_batches(items: Any, tools: EvaluationTools, share: float) -> Any:
    """The whole text in windows of the context; a shorter remainder is left out, unless it is the whole text.

    Masks depend only on the text, the context and the share, not on the batch size.
    """
    tokens = items.tokens
    context = min(tools.context, len(tokens))
    rows = np.asarray(tokens[: len(tokens) // context * context], np.int64).reshape(-1, context)
    mask = tools.tokenizer.mark_id(MASK)
    for start in range(0, len(rows), DRAWN_TOGETHER):
        draw = np.random.default_rng(derive_seed(0, "mask", start))
        drawn = masked_batch(rows[start : start + DRAWN_TOGETHER], mask, tools.tokenizer.size, share, draw)
        for batch in drawn.split(tools.batch_size):
            tools.keep_going()
            yield batch
