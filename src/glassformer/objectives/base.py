"""The interface of objectives: what is asked of a network, how it is trained on it, judged by it, and what is trivial.

An objective is one class in one file. It names the parts of the data it reads, makes batches by step number, sums a loss,
evaluates, fits its trivial baselines, and shows a batch to a person. Trainer, study, report and checks read all of it from
here and test for no objective's name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from torch import Tensor

from glassformer.data.batches import Batch, BatchesByStep
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.evaluation.abstaining import AbstainRule
from glassformer.evaluation.documents import BLOCK
from glassformer.evaluation.outcomes import Outcomes
from glassformer.evaluation.tools import Baseline, EvaluationTools
from glassformer.foundation.errors import UsageError
from glassformer.foundation.metrics import Metric
from glassformer.foundation.registry import Slot, VariantConfig
from glassformer.model.network import Network


class Part(Protocol):
    """One named part of prepared data: the text, the questions, the labelled texts; by split."""

    @property
    def names(self) -> Sequence[str]:
        """The splits there are."""

    def split(self, name: str) -> Any:
        """The items of one split."""


class Data(Protocol):
    """Prepared data as an objective sees it."""

    tokenizer: Tokenizer

    def part(self, name: str) -> Part:
        """The part called ``name``; a part the data do not have is a sentence."""


class ObjectiveConfig(VariantConfig):
    """What the model is asked to predict. The first of ``metrics`` chooses the best checkpoint unless told otherwise."""

    reads: ClassVar[tuple[str, ...]] = ("text",)
    """The parts of the data it needs."""
    judged_on: ClassVar[str] = "text"
    """The part whose splits are evaluated."""
    asked: ClassVar[str] = "questions"
    """The kind of part that ``ask`` reads its items as."""
    laws: ClassVar[frozenset[str]] = frozenset()
    """Laws its network must keep whatever the model says of itself: next-token demands causality."""
    metrics: ClassVar[tuple[Metric, ...]]
    baselines: ClassVar[Mapping[str, type[Baseline]]] = {}
    """The kinds of ``fit_baselines``, by name, so that a run can read its own back."""

    def marks(self) -> tuple[str, ...]:
        """Special tokens it needs, added to the tokenizer after all ids it has."""
        return ()

    def outputs(self, data: Data) -> int | None:
        """How many numbers the head gives; None: one for each token of the vocabulary."""
        return None

    def batches(self, data: Data, *, context: int, batch_size: int, seed: int) -> BatchesByStep:
        """Training batches, a function of (seed, step)."""
        raise NotImplementedError

    def count(self, batch: Batch) -> Tensor:
        """How many targets the batch holds: what the summed loss is divided by. Known before the forward pass."""
        raise NotImplementedError

    def loss(self, network: Network, batch: Batch, *, noise: Tensor | None, smoothing: float) -> Tensor:
        """The loss summed over the targets of the batch. ``noise`` seeds dropout: hand it on to ``network.features``."""
        raise NotImplementedError

    def evaluate(self, network: Network, items: Any, tools: EvaluationTools) -> Outcomes:
        """Every figure of the network on the items of a split."""
        raise NotImplementedError

    def validation_metrics(self, network: Network, items: Any, tools: EvaluationTools) -> dict[str, float]:
        """Judged metrics alone, for the curve while training; an objective overrides it where that is cheaper."""
        return {name: units.value for name, units in self.evaluate(network, items, tools).units.items()}

    def num_units(self, items: Any, tools: EvaluationTools) -> int:
        """How many units ``evaluate`` will give: documents (or the blocks of an only one), questions, labelled texts."""
        if not hasattr(items, "num_documents"):
            return len(items)
        return items.num_documents if items.num_documents > 1 else math.ceil(max(items.num_tokens - 1, 1) / BLOCK)

    def evaluation_settings(self, items: Any, tools: EvaluationTools) -> dict[str, Any]:
        """The settings, by key, that decide which targets ``evaluate`` asks of the items; none where it asks all there are.

        Models are paired target by target, so a study refuses variants in which one of these differs.
        """
        return {}

    def remark(self, records: Sequence[Mapping[str, Any]], steps_per_epoch: float) -> str | None:
        """What the records of a run so far give cause to say, while it trains and in its report; None: nothing."""
        return None

    def predict(self, network: Network, items: Any, tools: EvaluationTools) -> list[dict[str, Any]]:
        """One plain mapping for each item: what the network says about it."""
        raise UsageError(f"objective={self.kind} gives no predictions that could be written down.")

    @property
    def answers_questions(self) -> bool:
        """Whether ``ask`` has something to say."""
        return type(self).ask is not ObjectiveConfig.ask

    def require_answers(self) -> None:
        """Refuses, in one sentence, when this objective answers no questions."""
        if not self.answers_questions:
            raise UsageError(
                f"objective={self.kind} answers no questions; ask a run whose objective is labels, answers or a mixture with "
                "it."
            )

    def remark_on(self, items: Any, tools: EvaluationTools) -> str | None:
        """What should be known of these items before they are asked, for example how many are cut; None: nothing."""
        return None

    def ask(
        self,
        network: Network,
        items: Any,
        tools: EvaluationTools,
        *,
        beams: int = 1,
        abstain_below: float | None = None,
        abstain_by: AbstainRule | None = None,
    ) -> list[Any]:
        """Answers to questions, with their confidence. ``abstain_by``: the rule that an evaluation of the run fitted."""
        self.require_answers()
        raise NotImplementedError

    def sample(self, network: Network, data: Data, tools: EvaluationTools) -> tuple[str, str] | None:
        """A text that shows what the network does, and its caption, for reports; None: nothing to show."""
        return None

    def pictures(self, details: Mapping[str, Any]) -> list[tuple[Any, str]]:
        """Figures and their captions, from the details of an evaluation, for reports; none unless an objective has some."""
        return []

    def fit_baselines(self, data: Data) -> dict[str, Baseline]:
        """The baselines of the training data, weakest first."""
        return {}

    def fitted_on(self, data: Data) -> str | None:
        """A sum of all that ``fit_baselines`` depends on, beside its code: runs with the same one share them.

        None: not known, so they are fitted for every run.
        """
        return None

    def show(self, batch: Batch, tokenizer: Tokenizer) -> list[str]:
        """Each row of a batch as a person reads it."""
        return [
            " | ".join(f"{name}: {tensor[row].tolist()}" for name, tensor in batch.tensors.items()) for row in range(batch.rows)
        ]

    def show_with(self, batch: Batch, data: Data) -> list[str]:
        """The same with what the data know beside the batch: the names of labels."""
        return self.show(batch, data.tokenizer)

    @classmethod
    def metric(cls, name: str | None) -> Metric:
        """One of its metrics by name, the first of them by default."""
        return cls.metrics[0] if name is None else Metric.named(name, cls.metrics)


OBJECTIVES: Slot[ObjectiveConfig] = Slot("objective", "what the model is asked to predict", "glassformer.objectives")
