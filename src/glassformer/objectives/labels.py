"""Text classification: logits of the labels for a whole text (or a pair); and what all objectives about whole texts share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.data.data_kinds import PreparedData
from glassformer.data.labels.label_batches import (
    IGNORED,
    EncodedTexts,
    LengthGroups,
    PaddedRows,
    encode_texts,
    fixed_lengths,
    in_order,
    padded,
)
from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.evaluation.label_baselines import LABEL_BASELINES
from glassformer.evaluation.label_metrics import LABEL_METRICS, collapsed_since, collapsed_to, label_outcomes, label_tables
from glassformer.evaluation.results import Baseline, EvaluationTools, Outcomes
from glassformer.figures.predictions import reliability_diagram
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.metrics import Metric
from glassformer.foundation.seeds import derive_seed
from glassformer.model.attention_context import OwnLosses
from glassformer.model.network import Network, evaluating
from glassformer.objectives.base import OBJECTIVES, ObjectiveConfig

SHOWN = 12
"""Texts in the sample of a report."""
MOST_SAMPLED = 500
"""Training texts measured at every evaluation, so that its accuracy stands beside that of validation."""


class TextObjective(ObjectiveConfig):
    """What objectives about whole texts share: batches of texts, and one row of scores for each text.

    Subclasses say what the scores mean: ``loss``, ``form`` (scores -> what is measured), ``outcomes`` and ``rows_of``.
    ``ask`` answers with what ``predict`` gives (``prediction.Predictor``).
    """

    laws: ClassVar[frozenset[str]] = frozenset({"padding"})

    @property
    def answers_questions(self) -> bool:
        return True

    def form(self, scores_BC: Tensor) -> Tensor:
        """What is measured of the scores, in double precision."""
        return scores_BC

    @abstractmethod
    def outcomes(self, found_NC: np.ndarray, items: LabelledTexts) -> Outcomes:
        """The metrics of what ``form`` gave."""

    @abstractmethod
    def rows_of(self, found_NC: np.ndarray, items: LabelledTexts) -> list[dict[str, Any]]:
        """The prediction for each text, as columns."""

    def outputs(self, data: PreparedData) -> int:
        return len(data.part(self.judged_on).split("train").label_names)

    def batches(self, data: PreparedData, *, context: int, batch_size: int, seed: int) -> LabelBatches:
        part = data.part(self.judged_on)
        texts = encode_texts(data.tokenizer, part.split("train"), context)
        return LabelBatches(LengthGroups(texts, batch_size=batch_size, seed=seed), part.class_weights)

    def count(self, batch: Batch) -> Tensor:
        known = batch["labels"] != IGNORED
        return (known if known.ndim == 1 else known.any(dim=1)).sum()

    def found(self, network: Network, items: LabelledTexts, tools: EvaluationTools) -> np.ndarray:
        """float64 [N, C]: ``form`` of the scores of each text."""
        return score_rows(network, encode_texts(tools.tokenizer, items, tools.context), tools, self.form)

    def evaluate(self, network: Network, items: Any, tools: EvaluationTools) -> Outcomes:
        note, outcomes = self.remark_on(items, tools), self.outcomes(self.found(network, items, tools), items)
        return outcomes if note is None else replace(outcomes, notes=(*outcomes.notes, note))

    def training_sample(self, items: Any, count: int) -> Any:
        chosen = np.random.default_rng(0).permutation(len(items))[: min(count, MOST_SAMPLED)]
        return items[np.sort(chosen)]

    def predict(self, network: Network, items: Any, tools: EvaluationTools) -> list[dict[str, Any]]:
        """What is predicted for each text, beside the text and its label."""
        rows = []
        for at, found in enumerate(self.rows_of(self.found(network, items, tools), items)):
            row: dict[str, Any] = {"id": items.ids[at], "text": items.texts[at]}
            if items.pairs is not None:
                row["pair"] = items.pairs[at]
            rows.append(row | ({} if items.unlabelled else {"label": items.answer(at)}) | found)
        return rows

    def remark_on(self, items: Any, tools: EvaluationTools) -> str | None:
        return encode_texts(tools.tokenizer, items, tools.context).note()

    def sample(self, network: Network, data: PreparedData, tools: EvaluationTools) -> tuple[str, str] | None:
        part = data.part(self.judged_on)
        if "validation" not in part.names:
            return None
        items = part.split("validation")
        rows = self.predict(network, items[range(min(SHOWN, len(items)))], tools)
        lines = [f"{self.in_words(row)}{row['label']}): {row['text'][:100]}" for row in rows]
        return "\n".join(lines), self.caption

    caption: ClassVar[str] = "The first validation texts: predicted (true)."

    def in_words(self, row: Mapping[str, Any]) -> str:
        """A prediction in a line of the sample."""
        return f"{row['predicted']} ("

    def fit_baselines(self, data: PreparedData) -> dict[str, Baseline]:
        train = data.part(self.judged_on).split("train")
        return {name: kind.fit(train) for name, kind in self.baselines.items()}  # type: ignore[attr-defined]

    def fitted_on(self, data: PreparedData) -> str:
        train = data.part(self.judged_on).split("train")
        return fingerprint([self.kind, train.fingerprint, train.label_names])

    def show_with(self, batch: Batch, data: PreparedData) -> list[str]:
        return self.show(batch, data.tokenizer, data.part(self.judged_on).split("train"))

    def show(self, batch: Batch, tokenizer: Tokenizer, train: LabelledTexts | None = None) -> list[str]:
        """A label by its name, or by its number where no names are known."""
        lines = []
        for row in range(batch.rows):
            seen = int((~batch["hidden"][row]).sum())
            text = tokenizer.decode(batch["ids"][row, :seen].tolist())
            padding, label = batch["ids"].shape[1] - seen, batch["labels"][row]
            what = f"label {label.tolist() if train is None else train.target_in_words(label.numpy())}"
            if (label == IGNORED).all():
                what = "only fills the batch, not counted"
            lines.append(f"{what}, {seen} tokens and {padding} of padding: {text!r}")
        return lines


@OBJECTIVES.variant("labels")
@final
class LabelsConfig(TextObjective):
    """Each text gets one of the training labels; the network reads the whole text at once."""

    reads: ClassVar[tuple[str, ...]] = ("labels",)
    judged_on: ClassVar[str] = "labels"
    ask_reads: ClassVar[str] = "labels"
    metrics: ClassVar[tuple[Metric, ...]] = LABEL_METRICS
    baselines: ClassVar[Mapping[str, type[Baseline]]] = LABEL_BASELINES
    caption: ClassVar[str] = "The first validation texts: predicted label (its probability; the true label)."

    def form(self, scores_BC: Tensor) -> Tensor:
        return torch.log_softmax(scores_BC, dim=1)

    def loss(self, network: Network, batch: Batch, *, dropout_seed: Tensor | None, smoothing: float) -> Tensor:
        scores_BC = label_scores(network, batch, dropout_seed=dropout_seed).float()
        if "weights" not in batch.tensors:
            return F.cross_entropy(scores_BC, batch["labels"], ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing)
        losses_B = F.cross_entropy(
            scores_BC, batch["labels"], ignore_index=IGNORED, reduction="none", label_smoothing=smoothing
        )
        return (losses_B * batch["weights"]).sum()

    def outcomes(self, found_NC: np.ndarray, items: LabelledTexts) -> Outcomes:
        return label_outcomes(found_NC, items)

    def validation_metrics(self, network: Network, items: Any, tools: EvaluationTools) -> dict[str, float]:
        """Accuracy, loss and the mean of the recalls; and the class to which all predictions collapsed, if they did."""
        found_NC = self.found(network, items, tools)
        predicted_N = found_NC.argmax(axis=1)
        right_N, weights_N = predicted_N == items.labels, 1 / items.counts[items.labels]
        loss = float(-found_NC[np.arange(len(items)), items.labels].mean())
        balanced = float((right_N * weights_N).sum() / weights_N.sum())
        collapsed = collapsed_to(predicted_N, items.labels)
        return {"accuracy": float(right_N.mean()), "loss": loss, "balanced_accuracy": balanced, **collapsed}

    def remark(self, records: Sequence[Mapping[str, Any]], steps_per_epoch: float) -> str | None:
        return collapsed_since(records, steps_per_epoch)

    def rows_of(self, found_NC: np.ndarray, items: LabelledTexts) -> list[dict[str, Any]]:
        """The label of each text, its probability, and those of all labels."""
        names = items.label_names or tuple(str(number) for number in range(found_NC.shape[1]))
        rows = []
        for row_C in np.exp(found_NC):
            best = int(row_C.argmax())
            every = {f"p({name})": float(p) for name, p in zip(names, row_C)}
            rows.append({"predicted": names[best], "confidence": float(row_C[best]), **every})
        return rows

    def in_words(self, row: Mapping[str, Any]) -> str:
        return f"{row['predicted']} ({row['confidence']:.0%}; "

    def tables(self, details: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[Any]]]]:
        return label_tables(details)

    def pictures(self, details: Mapping[str, Any]) -> list[tuple[Any, str]]:
        if "reliability" not in details.get("calibration", {}):
            return []
        caption = "Reliability: the share of right labels against their probability; numbers are how many texts."
        return [(reliability_diagram(details["calibration"]["reliability"]), caption)]


@final
class LabelBatches:
    """Padded batches of labelled texts, by step number."""

    def __init__(self, groups: LengthGroups[EncodedTexts], class_weights: np.ndarray | None = None) -> None:
        self.groups, self.class_weights = groups, class_weights
        self.partners: Partners | None = None
        self.vectors_ND: np.ndarray | None = None

    def with_partners(self, seed: int) -> LabelBatches:
        """The same with another text beside each, of the same label or of another one."""
        made = LabelBatches(self.groups, self.class_weights)
        made.partners = Partners(self.groups.texts, seed)
        return made

    def with_vectors(self, vectors_ND: np.ndarray) -> LabelBatches:
        """The same with stored vectors of the texts."""
        made = LabelBatches(self.groups, self.class_weights)
        made.vectors_ND = vectors_ND
        return made

    @property
    def steps_per_epoch(self) -> float:
        return float(self.groups.batches_per_epoch)

    @property
    def notes(self) -> list[str]:
        """How many texts were truncated; the weights of classes."""
        weights, note = self.class_weights, self.groups.texts.note()
        weighted = "" if weights is None else f"Classes weigh from {weights.min():.3g} to {weights.max():.3g} in the loss."
        return [sentence for sentence in (note, weighted) if sentence]

    def on(self, device: torch.device) -> LabelBatches:
        return self

    def batch(self, step: int) -> Batch:
        rows, more = self.groups.batch(step), dict[str, np.ndarray]()
        if self.class_weights is not None:
            more["weights"] = weights_of(rows.labels_B, self.class_weights).astype(np.float32)
        if self.vectors_ND is not None or self.partners is not None:
            at, _ = self.groups.chosen(step)
            filled = np.resize(at, len(rows.ids_BT)) if len(at) < len(rows.ids_BT) else at
            if self.vectors_ND is not None:
                more["pooled"] = self.vectors_ND[filled]
            if self.partners is not None:
                more |= self.partners.of(filled, step)
        return Batch(**as_batch(rows).tensors, **{name: torch.from_numpy(array) for name, array in more.items()})


@final
class Partners:
    """For each text of a step another one, drawn by (seed, step): half of them of the same label."""

    def __init__(self, texts: EncodedTexts, seed: int) -> None:
        if texts.labels.ndim > 1:
            raise ConfigError(
                "model.tuning=contrastive makes pairs of texts of one label, so it needs objective: labels; choose full.",
                reason="pairs-need-one-label",
            )
        self.texts, self.seed, self.fixed = texts, seed, np.array(fixed_lengths(texts.context))

    def of(self, chosen: np.ndarray, step: int) -> dict[str, np.ndarray]:
        draw, labels = np.random.default_rng(derive_seed(self.seed, "partners", step)), self.texts.labels
        partners, same = [], []
        for one in chosen.tolist():
            like = np.flatnonzero(labels == labels[one])
            alike = len(like) > 1 and draw.random() < 0.5
            among = like[like != one] if alike else np.flatnonzero(labels != labels[one])
            partners.append(int(draw.choice(among)))
            same.append(float(alike))
        length = int(self.fixed[np.searchsorted(self.fixed, self.texts.lengths[partners].max())])
        rows = padded(self.texts, partners, length)
        return {"partner_ids": rows.ids_BT, "partner_hidden": rows.hidden_BT, "same": np.array(same, np.float32)}


def weights_of(labels: np.ndarray, class_weights: np.ndarray) -> np.ndarray:
    """The weight of each label in the loss: of one label [B], of several [B, C], where the first row of ``class_weights`` is
    for texts without the label. A row without a label has a loss of 0, whatever its weight."""
    if labels.ndim == 1:
        return np.asarray(class_weights[np.maximum(labels, 0)])
    return np.where(labels > 0, class_weights[1], class_weights[0])


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
    if "pooled" in batch.tensors:
        return network.head.scored(batch["pooled"]), batch["pooled"].unsqueeze(1)  # type: ignore[operator]
    key_padding_mask_BS = batch["hidden"]
    more = {"segments_BT": batch["types"]} if "types" in batch.tensors and network.takes_segments else {}
    features_BTD = network.features(batch["ids"], key_padding_mask_BS=key_padding_mask_BS, dropout_seed=dropout_seed, **more)
    scores = network.logits(features_BTD, key_padding_mask_BS)
    if "partner_ids" in batch.tensors and network.collecting is not None:
        _collect_pairs(network, batch, features_BTD, network.collecting)
    if scores.ndim != 2:
        raise ConfigError(
            f"this objective needs one row of scores per text, but the head gives {tuple(scores.shape)}, a row for each "
            "token; choose model.head: classifier.",
            reason="head-per-token",
        )
    return scores, features_BTD


def _collect_pairs(network: Network, batch: Batch, features_BTD: Tensor, losses: OwnLosses) -> None:
    """The loss of tuning by pairs: (cosine - 1 or 0) squared. Own losses are divided by tokens: a text counts for its row."""
    partners_BTD = network.features(batch["partner_ids"], key_padding_mask_BS=batch["partner_hidden"])
    pooled: Any = network.head.pooled
    one_BD, other_BD = (
        F.normalize(pooled(vectors, hidden).float(), dim=1)
        for vectors, hidden in ((features_BTD, batch["hidden"]), (partners_BTD, batch["partner_hidden"]))
    )
    off_B = ((one_BD * other_BD).sum(dim=1) - batch["same"]) ** 2 * (batch["labels"] != IGNORED)
    losses.add("pairs", batch["ids"].shape[1] * off_B.sum())


@torch.no_grad()
def score_rows(network: Network, texts: EncodedTexts, tools: EvaluationTools, form: Callable[[Tensor], Tensor]) -> np.ndarray:
    """float64 [N, C]: ``form`` of the network's scores of each text, in evaluation mode."""
    device = tools.device or next(network.parameters()).device
    found: np.ndarray | None = None
    stored_ND = network.stored_vectors(texts)

    def batches() -> Iterator[tuple[np.ndarray, Any]]:
        for at, rows in in_order(texts, tools.batch_size):
            tools.keep_going()
            yield at, rows

    def scored(batch: tuple[np.ndarray, Any]) -> tuple[np.ndarray, np.ndarray]:
        at, rows = batch
        batch_of = as_batch(rows)
        if stored_ND is not None:
            batch_of = Batch(**batch_of.tensors, pooled=torch.from_numpy(stored_ND[at]))
        scores_BC = label_scores(network, batch_of.to(device))
        return np.asarray(at), form(scores_BC.double()).cpu().numpy()

    with evaluating(network):
        for at, rows_BC in tools.shared(batches(), scored):
            if found is None:
                found = np.zeros((len(texts), rows_BC.shape[1]))
            found[at] = rows_BC
            tools.progress(len(at))
    assert found is not None
    return found
