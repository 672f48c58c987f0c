"""Recipe -> tokenizer -> data -> network: the one assembly, used by training, checks, cost, studies and runs alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.data.batches import BatchesByStep
from glassformer.data.data_kinds import PreparedData, prepare_parts
from glassformer.data.prepare import ProgressCallback
from glassformer.data.tokenizers.base import Tokenizer, TokenizerConfig
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.evaluation.baseline_cache import packed_baselines
from glassformer.evaluation.results import Baseline, EvaluationTools
from glassformer.foundation.errors import ConfigError, RunError
from glassformer.foundation.files import release_pages
from glassformer.foundation.metrics import Metric
from glassformer.foundation.plugins import changed_plugins
from glassformer.foundation.runtime import Runtime
from glassformer.model.network import Network
from glassformer.objectives.base import ObjectiveConfig
from glassformer.recipe import Recipe, is_run, parent_recipe, run_taken, with_files_found
from glassformer.runs.baselines_file import load_packed, save_baselines, unpacked
from glassformer.runs.checkpoint import MODEL, Checkpoint, checkpoint_checksums, last_checkpoint
from glassformer.runs.directory import RunDirectory
from glassformer.runs.weights import load_weights, take_weights
from glassformer.training.optimizer_set import OptimizerSet, optimizer_bytes
from glassformer.training.parallel.group import ALONE, Group, Processes
from glassformer.training.parallel.shard import Shards, chosen_form, refuse_if_not_cut
from glassformer.training.step import TrainingLoss, TrainStep

COUNTED_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Parent:
    """The run a recipe starts from, read from its folder."""

    directory: RunDirectory
    checkpoint: Checkpoint

    @classmethod
    def read(cls, folder: Path | str, say: Callable[[str], None]) -> Parent:
        """The newest intact checkpoint of a run; reports newer damaged ones, and a recipe of the same name."""
        directory = RunDirectory(Path(folder))
        directory.require()
        if (sentence := run_taken(folder)) is not None:
            say(sentence)
        return cls(directory, last_checkpoint(directory, say))

    @classmethod
    def of(cls, recipe: Recipe, say: Callable[[str], None]) -> Parent | None:
        """The run that ``init_from`` names; None for no run, or for a recipe that is still to be trained."""
        return cls.read(recipe.init_from, say) if recipe.init_from and is_run(recipe.init_from) else None

    def ancestry(self) -> list[dict[str, Any]]:
        """This run and its ancestors, the nearest first, for the record of a child."""
        environment, recipe = self.directory.read_environment(), self.directory.read_recipe()
        step_tokens = recipe.get("training", {}).get("batch_size", 0) * recipe["model"].get("context", 0)
        own = {
            "run": str(self.directory.root),
            "step": self.checkpoint.step,
            "tokens": self.checkpoint.step * step_tokens or None,  # unknown for an imported model
            "recipe_fingerprint": environment.get("recipe_fingerprint"),
            "weights_sha256": checkpoint_checksums(self.directory, self.checkpoint.step)[MODEL],
        }
        return [own, *environment.get("ancestry", [])]


def tokenizer_for(recipe: Recipe, directory: RunDirectory | None = None) -> Tokenizer | TokenizerConfig:
    """The tokenizer of the run, of its parent, or the config of one to be trained on its text."""
    if directory is not None and directory.tokenizer_file.exists():
        return load_tokenizer(directory.tokenizer_file)
    if recipe.init_from is None:
        return recipe.model.tokenizer() or recipe.tokenizer
    if is_run(recipe.init_from):
        return load_tokenizer(RunDirectory(Path(recipe.init_from)).tokenizer_file)
    if directory is not None and RunDirectory(directory.parent).tokenizer_file.exists():
        return load_tokenizer(RunDirectory(directory.parent).tokenizer_file)
    parent = parent_recipe(recipe)
    return prepare_data(parent, tokenizer_for(parent)).tokenizer


def prepare_data(
    recipe: Recipe,
    tokenizer: Tokenizer | TokenizerConfig | None = None,
    *,
    progress: ProgressCallback | None = None,
    expect: Mapping[str, Any] | None = None,
) -> PreparedData:
    """The parts of the data that the recipe's objective reads, in tokens. ``tokenizer``: an existing one."""
    objective = recipe.objective
    tokenizer = tokenizer_for(recipe) if tokenizer is None else tokenizer
    return prepare_parts(
        recipe.data.drawn_by(recipe.seed),
        tokenizer,
        reads=objective.reads,
        judged_on=objective.judged_on,
        marks=objective.marks(),
        progress=progress,
        expect=expect,
    )


def build_network(recipe: Recipe, data: PreparedData) -> Network:
    """The network of a recipe, initialised from its seed; passes token frequencies to a head that needs them."""
    network = recipe.model.network(data.tokenizer.size, outputs=recipe.objective.outputs(data), seed=recipe.seed)
    if getattr(network, "needs_token_counts", False):
        counts_V = token_counts(data.part("text").split("train").tokens, data.tokenizer.size)
        network.start_from_counts(torch.from_numpy(counts_V))  # type: ignore[operator]
    return network


def restored_network(recipe: Recipe, checkpoint: Checkpoint, *, vocabulary: int, outputs: int | None) -> Network:
    """The network of a checkpoint; needs no data."""
    network = recipe.model.network(vocabulary, outputs=outputs, seed=recipe.seed)
    load_weights(network, checkpoint.model, f"step {checkpoint.step}")
    return network


def recorded_recipe(directory: RunDirectory, say: Callable[[str], None]) -> Recipe:
    """The recipe of a run, with the files it names found from where it was started; says which plugins have changed since."""
    plugins = directory.read_environment().get("plugins", [])
    try:
        recipe = Recipe.parse(with_files_found(directory.read_recipe(), directory.begun_in))
    except ConfigError as error:
        flags = "".join(f" --plugin {plugin['file']}" for plugin in plugins)
        hint = f" It was made with{flags}: give them again." if flags else ""
        raise RunError(f"{directory.recipe_file}: {error}{hint}", reason="recipe-not-readable") from error
    for name in changed_plugins(plugins):
        say(f"{name} has changed since {directory.root} was trained with it: its sha256 differs.")
    return recipe


def network_of_run(directory: RunDirectory, recipe: Recipe, checkpoint: Checkpoint) -> Network:
    """The unmodified network of a run's checkpoint, in evaluation mode."""
    vocabulary, outputs = load_tokenizer(directory.tokenizer_file).size, directory.read_environment("outputs")["outputs"]
    return restored_network(recipe, checkpoint, vocabulary=vocabulary, outputs=outputs).eval()


def starting_network(recipe: Recipe, data: PreparedData, parent: Parent | None = None) -> tuple[Network, str | None]:
    """The network before the first step, fresh or with a parent's weights; and notes about it."""
    if parent is None:
        return build_network(recipe, data), None
    network = recipe.model.network(data.tokenizer.size, outputs=recipe.objective.outputs(data), seed=recipe.seed)
    return network, take_weights(network, parent.checkpoint.model, str(parent.directory.root))


def token_counts(tokens: np.ndarray, vocabulary: int) -> np.ndarray:
    """How often each token occurs; the tokens may be larger than memory."""
    counts_V = np.zeros(vocabulary, dtype=np.int64)
    for at in range(0, len(tokens), COUNTED_AT_ONCE):
        counts_V += np.bincount(tokens[at : at + COUNTED_AT_ONCE], minlength=vocabulary)
        release_pages(tokens)
    return counts_V


def training_step(recipe: Recipe, network: Network, runtime: Runtime, processes: Processes = ALONE) -> TrainStep:
    """One training step of a recipe as it is written, with optimizers that have taken none."""
    training, shards = recipe.training, None
    if isinstance(processes, Group):
        memory = optimizer_bytes(training, network)
        if chosen_form(training, network, memory, runtime.device) == "fsdp":
            refuse_if_not_cut(network, training, runtime.device, processes)
            shards = Shards(network, processes)
    trained = network if shards is None else shards.network
    loss = TrainingLoss(trained, recipe.objective, runtime, smoothing=training.label_smoothing)
    if shards is not None:  # before the optimizers, which hold the parts of the weights
        shards.cut(loss, list(trained.blocks), runtime.device)  # type: ignore[arg-type]
    return TrainStep(loss, OptimizerSet(training, trained), training, runtime, recipe.seed, processes, shards)


def batches_of(recipe: Recipe, data: PreparedData) -> BatchesByStep:
    """The training batches of a recipe."""
    return recipe.objective.batches(data, context=recipe.model.context, batch_size=recipe.training.batch_size, seed=recipe.seed)


def number_of_steps(recipe: Recipe, batches: BatchesByStep) -> int:
    if recipe.training.steps is not None:
        return recipe.training.steps
    assert recipe.training.epochs is not None
    steps = recipe.training.epochs * batches.steps_per_epoch
    return max(1, math.ceil(round(steps, 6)))  # 100 epochs of 7 windows in 100 are 7 steps, not 7.000000000000001


def chosen_metric(recipe: Recipe) -> Metric:
    """The metric that selects the best checkpoint."""
    return recipe.objective.metric(recipe.evaluation.by)


def tools_for(recipe: Recipe, tokenizer: Tokenizer, **more: Any) -> EvaluationTools:
    """The ``EvaluationTools`` for this recipe's network."""
    rows = {"batch_size": recipe.evaluation.batch_size} if recipe.evaluation.batch_size else {}
    return EvaluationTools(tokenizer=tokenizer, context=recipe.model.context, **{**rows, **more})


def fitted_baselines(objective: ObjectiveConfig, data: PreparedData) -> bytes:
    """The baselines of the training data, in the form a run stores them; cached between runs on the same data."""
    return packed_baselines(objective.fitted_on(data), lambda: objective.fit_baselines(data))


def saved_baselines(
    directory: RunDirectory, objective: ObjectiveConfig, data: Callable[[], PreparedData]
) -> dict[str, Baseline]:
    """The baselines stored in a run; fitted on the training data and stored if it has none."""
    arrays, kinds = load_packed(directory.baselines_file), objective.baselines
    if arrays is None or set(arrays) != set(kinds):
        content = fitted_baselines(objective, data())
        arrays = unpacked(content)
        with suppress(PermissionError):  # a read-only run
            save_baselines(directory, content)
    if arrays is None or set(arrays) != set(kinds):  # the objective does not define how to load its baselines
        return objective.fit_baselines(data())
    return {name: kind.from_arrays(arrays[name]) for name, kind in kinds.items()}
