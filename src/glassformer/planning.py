"""What a recipe would cost, by part, before anything is trained: ``train --dry-run``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.prepare import Prepared, prepare
from glassformer.experiment import batches_of, fresh_or_saved_model, number_of_steps, tokenizer_to_use
from glassformer.foundation.plugins import load_plugins
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.model.accounting import Cost, cost_of
from glassformer.recipe import Recipe, Source, load_recipe
from glassformer.training.optimizer_set import OptimizerSet, optimizer_bytes


@dataclass(frozen=True)
class Plan:
    """What a recipe would cost: known before anything is trained."""

    recipe: Recipe
    cost: Cost
    steps: int
    optimizer_bytes: int
    train_tokens: int
    vocabulary: int
    decay: dict[str, list[str]]

    @property
    def step_tokens(self) -> int:
        return self.recipe.training.batch_size * self.recipe.model.context

    @property
    def total_bytes(self) -> int:
        return self.cost.weight_bytes + self.cost.gradient_bytes + self.optimizer_bytes + self.cost.activation_bytes

    def facts(self) -> list[tuple[str, str]]:
        """The figures of one step and of the whole run, for people."""
        tokens = self.steps * self.step_tokens
        return [
            ("steps", f"{self.steps:,}"),
            ("tokens per step", f"{self.step_tokens:,}"),
            ("tokens in all", f"{tokens:,} ({tokens / max(1, self.train_tokens):.2f} epochs)"),
            ("vocabulary", f"{self.vocabulary:,}"),
            ("FLOPs per step, forward and backward", f"{self.cost.step_flops * self.recipe.training.accumulate:,}"),
            ("weights", f"{self.cost.weight_bytes:,} bytes"),
            ("gradients", f"{self.cost.gradient_bytes:,} bytes"),
            ("optimizer", f"{self.optimizer_bytes:,} bytes"),
            ("activations (of one piece of the batch)", f"{self.cost.activation_bytes:,} bytes"),
            ("memory in all", f"{self.total_bytes:,} bytes"),
        ]

    def plain(self) -> dict[str, Any]:
        return {
            "recipe": self.recipe.plain(),
            "steps": self.steps,
            "vocabulary": self.vocabulary,
            "train_tokens": self.train_tokens,
            **self.cost.plain(),
            "step_flops": self.cost.step_flops * self.recipe.training.accumulate,
            "optimizer_bytes": self.optimizer_bytes,
            "total_bytes": self.total_bytes,
            "weight_decay": self.decay,
        }


def plan(
    source: Source,
    *,
    set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    plugins: Sequence[Path | str] = (),
    watch: Watcher = SILENT,
) -> Plan:
    """The cost of a recipe by part; reads the data (for the vocabulary) and trains nothing."""
    load_plugins(plugins)
    recipe = load_recipe(source, {**(set or {}), **({} if seed is None else {"seed": seed})})
    return plan_with(recipe, prepare(recipe.data, tokenizer_to_use(recipe, None)))


def plan_with(recipe: Recipe, data: Prepared) -> Plan:
    """The same, for data that are ready."""
    model = fresh_or_saved_model(recipe, data, None)
    optimizers = OptimizerSet.of(recipe.training, model)
    piece = recipe.training.batch_size // recipe.training.accumulate
    return Plan(
        recipe=recipe,
        cost=cost_of(recipe.model, data.tokenizer.size, batch=piece),
        steps=number_of_steps(recipe, batches_of(recipe, data)),
        optimizer_bytes=optimizer_bytes(recipe.training.optimizer, model),
        train_tokens=data.split("train").num_tokens,
        vocabulary=data.tokenizer.size,
        decay=optimizers.decay_list(),
    )
