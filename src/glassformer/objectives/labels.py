"""Text classification: logits of the labels for a whole text (or a pair)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.data.labels.label_batches import IGNORED, EncodedTexts, LengthGroups, PaddedRows, encode_texts, in_order
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.evaluation.abstaining import Answer, AskOptions
from glassformer.evaluation.label_baselines import LABEL_BASELINES, fit_label_baselines
from glassformer.evaluation.label_metrics import LABEL_METRICS, collapsed_since, collapsed_to, label_outcomes, label_tables
from glassformer.evaluation.results import Baseline, EvaluationTools, Outcomes
from glassformer.evaluation.token_losses import evaluating
from glassformer.figures.reliability import reliability_diagram
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.metrics import Metric
from glassformer.model.network import Network
from glassformer.objectives.base import OBJECTIVES, Data, ObjectiveConfig

SHOWN = 12
"""Texts in the sample of a report."""
MOST_SAMPLED = 500
"""Training texts measured at every evaluation, so that its accuracy stands beside that of validation."""


@OBJECTIVES.variant("labels")
@final
class LabelsConfig(ObjectiveConfig):
    """Each text gets one of the training labels; the network reads the whole text at once."""

    reads: ClassVar[tuple[str, ...]] = ("labels",)
    judged_on: ClassVar[str] = "labels"
    ask_reads: ClassVar[str] = "labels"
    laws: ClassVar[frozenset[str]] = frozenset({"padding"})
    metrics: ClassVar[tuple[Metric, ...]] = LABEL_METRICS
    baselines: ClassVar[Mapping[str, type[Baseline]]] = LABEL_BASELINES

    def outputs(self, data: Data) -> int:
        return len(data.part("labels").split("train").label_names)

    def batches(self, data: Data, *, context: int, batch_size: int, seed: int) -> LabelBatches:
        texts = encode_texts(data.tokenizer, data.part("labels").split("train"), context)
        return LabelBatches(LengthGroups(texts, batch_size=batch_size, seed=seed))

    def count(self, batch: Batch) -> Tensor:
        return (batch["labels"] != IGNORED).sum()

    def loss(self, network: Network, batch: Batch, *, dropout_seed: Tensor | None, smoothing: float) -> Tensor:
        scores_BC = label_scores(network, batch, dropout_seed=dropout_seed)
        return F.cross_entropy(
            scores_BC.float(), batch["labels"], ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing
        )

    def evaluate(self, network: Network, items: Any, tools: EvaluationTools) -> Outcomes:
        texts = encode_texts(tools.tokenizer, items, tools.context)
        outcomes, note = label_outcomes(log_probabilities(network, texts, tools), items), texts.note()
        return outcomes if note is None else replace(outcomes, notes=(*outcomes.notes, note))

    def validation_metrics(self, network: Network, items: Any, tools: EvaluationTools) -> dict[str, float]:
        """Accuracy and loss; and the class to which all predictions collapsed, if they did."""
        found_NC = log_probabilities(network, encode_texts(tools.tokenizer, items, tools.context), tools)
        predicted_N = found_NC.argmax(axis=1)
        accuracy = float((predicted_N == items.labels).mean())
        loss = float(-found_NC[np.arange(len(items)), items.labels].mean())
        return {"accuracy": accuracy, "loss": loss, **collapsed_to(predicted_N, items.labels)}

    def training_sample(self, items: Any, count: int) -> Any:
        chosen = np.random.default_rng(0).permutation(len(items))[: min(count, MOST_SAMPLED)]
        return items[np.sort(chosen)]

    def remark(self, records: Sequence[Mapping[str, Any]], steps_per_epoch: float) -> str | None:
        return collapsed_since(records, steps_per_epoch)

    def predict(self, network: Network, items: Any, tools: EvaluationTools) -> list[dict[str, Any]]:
        """The label of each text, its probability, and those of all labels."""
        found_NC = log_probabilities(network, encode_texts(tools.tokenizer, items, tools.context), tools)
        names = items.label_names or tuple(str(number) for number in range(found_NC.shape[1]))
        rows = []
        for at, row_C in enumerate(np.exp(found_NC)):
            best = int(row_C.argmax())
            row: dict[str, Any] = {"id": items.ids[at], "text": items.texts[at]}
            if items.pairs is not None:
                row["pair"] = items.pairs[at]
            if items.labels[at] >= 0:
                row["label"] = names[items.labels[at]]
            row |= {"predicted": names[best], "confidence": float(row_C[best])}
            rows.append(row | {f"p({name})": float(p) for name, p in zip(names, row_C)})
        return rows

    def remark_on(self, items: Any, tools: EvaluationTools) -> str | None:
        return encode_texts(tools.tokenizer, items, tools.context).note()

    def ask(self, network: Network, items: Any, tools: EvaluationTools, options: AskOptions) -> list[Answer]:
        """The label of each text with its probability; the other labels are the alternatives."""
        answers = []
        for row in self.predict(network, items, tools):
            every = {key.removeprefix("p(").removesuffix(")"): p for key, p in row.items() if key.startswith("p(")}
            others = sorted((one for one in every.items() if one[0] != row["predicted"]), key=lambda one: -one[1])
            question = row["text"] if "pair" not in row else f"{row['text']} | {row['pair']}"
            abstained = options.abstains(row["confidence"])
            answers.append(Answer(question, row["predicted"], row["confidence"], abstained, tuple(others)))
        return answers

    def sample(self, network: Network, data: Data, tools: EvaluationTools) -> tuple[str, str] | None:
        part = data.part("labels")
        if "validation" not in part.names:
            return None
        items = part.split("validation")
        rows = self.predict(network, items[range(min(SHOWN, len(items)))], tools)
        lines = [f"{row['predicted']} ({row['confidence']:.0%}; {row['label']}): {row['text'][:100]}" for row in rows]
        return "\n".join(lines), "The first validation texts: predicted label (its probability; the true label)."

    def tables(self, details: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[Any]]]]:
        return label_tables(details)

    def pictures(self, details: Mapping[str, Any]) -> list[tuple[Any, str]]:
        if "reliability" not in details.get("calibration", {}):
            return []
        caption = "Reliability: the share of right labels against their probability; numbers are how many texts."
        return [(reliability_diagram(details["calibration"]["reliability"]), caption)]

    def fit_baselines(self, data: Data) -> dict[str, Baseline]:
        return {**fit_label_baselines(data.part("labels").split("train"))}

    def fitted_on(self, data: Data) -> str:
        train = data.part("labels").split("train")
        return fingerprint([self.kind, train.fingerprint, train.label_names])

    def show(self, batch: Batch, tokenizer: Tokenizer) -> list[str]:
        return self._shown(batch, tokenizer, ())

    def show_with(self, batch: Batch, data: Data) -> list[str]:
        return self._shown(batch, data.tokenizer, data.part("labels").split("train").label_names)

    @staticmethod
    def _shown(batch: Batch, tokenizer: Tokenizer, names: Sequence[str]) -> list[str]:
        """A label by its name, or by its number where no names are known."""
        lines = []
        for row in range(batch.rows):
            seen = int((~batch["hidden"][row]).sum())
            text = tokenizer.decode(batch["ids"][row, :seen].tolist())
            padding, label = batch["ids"].shape[1] - seen, int(batch["labels"][row])
            what = "only fills the batch, not counted" if label == IGNORED else f"label {names[label] if names else label}"
            lines.append(f"{what}, {seen} tokens and {padding} of padding: {text!r}")
        return lines


@final
class LabelBatches:
    """Padded batches of labelled texts, by step number."""

    def __init__(self, groups: LengthGroups[EncodedTexts]) -> None:
        self.groups = groups

    @property
    def steps_per_epoch(self) -> float:
        return float(self.groups.batches_per_epoch)

    @property
    def notes(self) -> list[str]:
        """How many texts were truncated."""
        return [note for note in (self.groups.texts.note(),) if note]

    def on(self, device: torch.device) -> LabelBatches:
        return self

    def batch(self, step: int) -> Batch:
        return as_batch(self.groups.batch(step))


def as_batch(rows: PaddedRows) -> Batch:
    """Arrays as tensors."""
    tensors = {"ids": rows.ids_BT, "hidden": rows.hidden_BT, "labels": rows.labels_B}
    if rows.types_BT is not None:
        tensors["types"] = rows.types_BT
    return Batch(**{name: torch.from_numpy(array) for name, array in tensors.items()})


def label_scores(network: Network, batch: Batch, *, dropout_seed: Tensor | None = None) -> Tensor:
    """Logits of the labels [B, C]; passes token types to networks that use them."""
    return scores_and_features(network, batch, dropout_seed=dropout_seed)[0]


def scores_and_features(network: Network, batch: Batch, *, dropout_seed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(logits of the labels [B, C], the vectors that the head reads [B, T, D])."""
    key_padding_mask_BS = batch["hidden"]
    more = {"segments_BT": batch["types"]} if "types" in batch.tensors and network.takes_segments else {}
    features_BTD = network.features(batch["ids"], key_padding_mask_BS=key_padding_mask_BS, dropout_seed=dropout_seed, **more)
    scores = network.logits(features_BTD, key_padding_mask_BS)
    if scores.ndim != 2:
        raise ConfigError(
            f"objective=labels needs one row of scores per text, but the head gives {tuple(scores.shape)}, a row for each "
            "token; choose model.head: classifier.",
            reason="head-per-token",
        )
    return scores, features_BTD


@torch.no_grad()
def log_probabilities(network: Network, texts: EncodedTexts, tools: EvaluationTools) -> np.ndarray:
    """float64 [N, C]: the network's log probabilities of the labels, in evaluation mode."""
    device = tools.device or next(network.parameters()).device
    found: np.ndarray | None = None

    def batches() -> Iterator[tuple[np.ndarray, Any]]:
        for at, rows in in_order(texts, tools.batch_size):
            tools.keep_going()
            yield at, rows

    def scored(batch: tuple[np.ndarray, Any]) -> tuple[np.ndarray, np.ndarray]:
        at, rows = batch
        scores_BC = label_scores(network, as_batch(rows).to(device))
        return np.asarray(at), torch.log_softmax(scores_BC.double(), dim=1).cpu().numpy()

    with evaluating(network):
        for at, logs_BC in tools.shared(batches(), scored):
            if found is None:
                found = np.zeros((len(texts), logs_BC.shape[1]))
            found[at] = logs_BC
            tools.progress(len(at))
    assert found is not None
    return found
