"""The interface of objectives: batches, loss, evaluation, metrics and baselines of a task.

An objective is one class in one file. It names the parts of the data it reads, makes batches by step number, sums a loss,
evaluates, fits its baselines, and formats a batch as text. Trainer, study, report and checks use this interface only and
never test for an objective's name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor

from glassformer.data.batches import Batch, BatchesByStep
from glassformer.data.data_kinds import PreparedData
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.evaluation.abstaining import AbstainRule, Answer, AskOptions
from glassformer.evaluation.language_metrics import BLOCK
from glassformer.evaluation.results import Baseline, EvaluationTools, Outcomes
from glassformer.foundation.errors import UsageError
from glassformer.foundation.metrics import Metric
from glassformer.foundation.registry import Slot, VariantConfig
from glassformer.model.losses import IGNORED, token_cross_entropy
from glassformer.model.network import Network
from glassformer.objectives.token_targets import target_features


class ObjectiveConfig(VariantConfig):
    """What the model is asked to predict. The first of ``metrics`` chooses the best checkpoint unless told otherwise."""

    reads: ClassVar[tuple[str, ...]] = ("text",)
    """The parts of the data it needs."""
    judged_on: ClassVar[str] = "text"
    """The part whose splits are evaluated."""
    ask_reads: ClassVar[str] = "questions"
    """The kind of part that ``ask`` reads its items as."""
    laws: ClassVar[frozenset[str]] = frozenset()
    """Laws its network must keep whatever the model says of itself: next-token demands causality."""
    judges_windows: ClassVar[bool] = False
    """Whether ``evaluate`` cuts the text into windows of ``tools.context`` tokens, so that another length can be asked for."""
    metrics: ClassVar[tuple[Metric, ...]]
    reads_source: ClassVar[bool] = False
    """Whether its batches have a source beside the target, which needs a network with an encoder."""
    answering: ClassVar[tuple[str, ...]] = ()
    """Settings that say how an answer is made, not how it is judged (beams): a study compares them by one evaluator."""
    baselines: ClassVar[Mapping[str, type[Baseline]]] = {}
    """The classes of its baselines by name, so that a run can load its own."""

    @property
    def judge(self) -> ObjectiveConfig:
        """The objective whose ``evaluate`` this one uses: itself, or one of its parts."""
        return self

    def marks(self) -> tuple[str, ...]:
        """Special tokens it needs, appended to the tokenizer's vocabulary."""
        return ()

    def outputs(self, data: PreparedData) -> int | None:
        """The number of outputs of the head; None: the size of the vocabulary."""
        return None

    def batches(self, data: PreparedData, *, context: int, batch_size: int, seed: int) -> BatchesByStep:
        """Training batches, a function of (seed, step)."""
        raise NotImplementedError

    def count(self, batch: Batch) -> Tensor:
        """The number of targets in the batch, by which the summed loss is divided. Known before the forward pass.

        By default the tokens of ``targets`` that are not ``IGNORED``.
        """
        return (batch["targets"] != IGNORED).sum()

    def loss(self, network: Network, batch: Batch, *, dropout_seed: Tensor | None, smoothing: float) -> Tensor:
        """The loss summed over the targets of the batch. ``dropout_seed`` seeds dropout: hand it on to ``network.features``.

        By default the cross-entropy of the tokens of ``targets``, given the sources if the batch has any.
        """
        features_BTD, outputs = target_features(network, batch, dropout_seed=dropout_seed), network.dims.num_outputs
        return token_cross_entropy(network.head, features_BTD, batch["targets"], outputs=outputs, smoothing=smoothing)

    def evaluate(self, network: Network, items: Any, tools: EvaluationTools) -> Outcomes:
        """All metrics of the network on the items of a split."""
        raise NotImplementedError

    def validation_metrics(self, network: Network, items: Any, tools: EvaluationTools) -> dict[str, float]:
        """The judged metrics only, for the validation curve; override it where that is cheaper."""
        return {name: units.value for name, units in self.evaluate(network, items, tools).units.items()}

    def training_sample(self, items: Any, count: int) -> Any:
        """Some of the training items, measured at every evaluation beside the ``count`` of validation; None: none is.

        For metrics that no step reports, such as accuracy.
        """
        return None

    def num_units(self, items: Any, tools: EvaluationTools) -> int:
        """The number of units of ``evaluate``: documents (or blocks of a single one), questions, labelled texts."""
        if not hasattr(items, "num_documents"):
            return len(items)
        return items.num_documents if items.num_documents > 1 else math.ceil(max(items.num_tokens - 1, 1) / BLOCK)

    def evaluation_settings(self, items: Any, tools: EvaluationTools) -> dict[str, Any]:
        """The settings, by key, that determine which targets ``evaluate`` uses; empty if it uses all.

        Models are paired by target, so a study refuses variants that differ in one of these.
        """
        return {}

    def remark(self, records: Sequence[Mapping[str, Any]], steps_per_epoch: float) -> str | None:
        """A warning from a run's records so far, during training and in its report, or None."""
        return None

    def predict(self, network: Network, items: Any, tools: EvaluationTools) -> list[dict[str, Any]]:
        """The network's prediction for each item, as plain mappings."""
        raise UsageError(f"objective={self.kind} has no predictions to write; drop --predictions.")

    @property
    def answers_questions(self) -> bool:
        """Whether ``ask`` is supported."""
        return type(self).ask is not ObjectiveConfig.ask

    def require_answers(self) -> None:
        """Raises if this objective answers no questions."""
        if not self.answers_questions:
            raise UsageError(
                f"objective={self.kind} answers no questions; use a run whose objective is labels, answers or a mixture with "
                "them.",
                reason="answers-no-questions",
            )

    def remark_on(self, items: Any, tools: EvaluationTools) -> str | None:
        """A note about these items, for example how many are truncated, or None."""
        return None

    def ask(self, network: Network, items: Any, tools: EvaluationTools, options: AskOptions) -> list[Answer]:
        """Answers with confidence."""
        self.require_answers()
        raise NotImplementedError

    def abstain_rule(self, details: Mapping[str, Any]) -> AbstainRule | None:
        """The abstention rule among the details of an evaluation; None where it fitted none."""
        raise UsageError(
            f"--abstain is a rule for answers about people, and objective={self.kind} has none; give --abstain-below P.",
            reason="abstain-needs-answers",
        )

    def sample(self, network: Network, data: PreparedData, tools: EvaluationTools) -> tuple[str, str] | None:
        """A sample of the network's output with a caption, for reports, or None."""
        return None

    def pictures(self, details: Mapping[str, Any]) -> list[tuple[Any, str]]:
        """Figures with captions from the details of an evaluation, for reports; empty by default."""
        return []

    def tables(self, details: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[Any]]]]:
        """(heading, header, rows) from the details of an evaluation, for the terminal and reports; empty by default."""
        return []

    def fit_baselines(self, data: PreparedData) -> dict[str, Baseline]:
        """Baselines fitted on the training data, weakest first."""
        return {}

    def fitted_on(self, data: PreparedData) -> str | None:
        """A checksum of all inputs of ``fit_baselines``, besides its code: runs with the same one share a cache entry.

        None: not known, so they are fitted in every run.
        """
        return None

    def show(self, batch: Batch, tokenizer: Tokenizer) -> list[str]:
        """Each row of a batch as text."""
        return [
            " | ".join(f"{name}: {tensor[row].tolist()}" for name, tensor in batch.tensors.items()) for row in range(batch.rows)
        ]

    def show_with(self, batch: Batch, data: PreparedData) -> list[str]:
        """The same with what the data know beside the batch: the names of labels."""
        return self.show(batch, data.tokenizer)

    def metric(self, name: str | None) -> Metric:
        """One of its metrics by name, the first of them by default."""
        return self.metrics[0] if name is None else Metric.named(name, self.metrics)


OBJECTIVES: Slot[ObjectiveConfig] = Slot(
    "objective", "what the model learns to predict", "glassformer.objectives", "glassformer.knowledge"
)
