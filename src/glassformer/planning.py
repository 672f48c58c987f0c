"""What a recipe would cost, by part, before anything is trained: ``train --dry-run``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.assembly import batches_of, number_of_steps, prepare_data
from glassformer.data.parts import PreparedData
from glassformer.foundation.plugins import load_plugins
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.model.accounting import Cost
from glassformer.recipe import Recipe, Source, is_run, load_recipe, parent_recipe
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
    parent: Plan | None = None
    """What is trained before it, where ``init_from`` names a recipe."""

    @property
    def flops(self) -> int:
        """Of the whole run, its parent's included."""
        own = self.steps * self.cost.step_flops * self.recipe.training.accumulate
        return own + (0 if self.parent is None else self.parent.flops)

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
            ("tokens in all", f"{tokens:,}{f' ({tokens / self.train_tokens:.2f} epochs)' if self.train_tokens else ''}"),
            ("vocabulary", f"{self.vocabulary:,}"),
            ("FLOPs per step, forward and backward", f"{self.cost.step_flops * self.recipe.training.accumulate:,}"),
            ("weights", f"{self.cost.weight_bytes:,} bytes"),
            ("gradients", f"{self.cost.gradient_bytes:,} bytes"),
            ("optimizer", f"{self.optimizer_bytes:,} bytes"),
            ("activations (of one piece of the batch)", f"{self.cost.activation_bytes:,} bytes"),
            ("memory in all", f"{self.total_bytes:,} bytes"),
            *self._facts_of_parent(),
        ]

    def _facts_of_parent(self) -> list[tuple[str, str]]:
        if self.parent is None:
            return []
        return [
            ("trained before it", f"{self.recipe.init_from}: {self.parent.steps:,} steps"),
            ("FLOPs of both runs", f"{self.flops:,}"),
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
            "flops": self.flops,
            "parent": None if self.parent is None else self.parent.plain(),
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
    return plan_with(recipe, prepare_data(recipe))


def plan_with(recipe: Recipe, data: PreparedData) -> Plan:
    """The same, for data that are ready."""
    outputs = recipe.objective.outputs(data)
    model = recipe.model.shapes(data.tokenizer.size, outputs=outputs)
    optimizers = OptimizerSet.of(recipe.training, model)
    piece = recipe.training.batch_size // recipe.training.accumulate
    return Plan(
        recipe=recipe,
        cost=recipe.model.cost(data.tokenizer.size, outputs=outputs, batch=piece),
        steps=number_of_steps(recipe, batches_of(recipe, data)),
        optimizer_bytes=optimizer_bytes(recipe.training.optimizer, model),
        train_tokens=_train_tokens(data),
        vocabulary=data.tokenizer.size,
        decay=optimizers.decay_list(),
        parent=None if recipe.init_from is None or is_run(recipe.init_from) else plan_of_parent(recipe),
    )


def plan_of_parent(recipe: Recipe) -> Plan:
    """The cost of the recipe that is trained first."""
    parent = parent_recipe(recipe)
    return plan_with(parent, prepare_data(parent))


def _train_tokens(data: PreparedData) -> int:
    """Tokens of the training text; 0 where the objective reads none."""
    return data.part("text").split("train").num_tokens if "text" in data.parts else 0
