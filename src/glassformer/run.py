"""The Run a user holds: one object to look at, to measure, to talk to; read from its folder, whoever trained it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

from torch import Tensor

from glassformer.data.prepare import Prepared, prepare
from glassformer.data.token_files import TokenSplit
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.evaluation.documents import EvaluatedText
from glassformer.foundation.errors import ConfigError, RunError, UsageError
from glassformer.foundation.plugins import load_plugins
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.seeds import derive_seed
from glassformer.model.transformer import Transformer, build_model
from glassformer.recipe import Recipe
from glassformer.runs.checkpoint import Checkpoint, load_checkpoint, newest_good
from glassformer.runs.directory import RunDirectory
from glassformer.runs.overview import last_validation_loss, standing_of
from glassformer.runs.records import MetricsLog


def load(folder: Path | str, *, plugins: Sequence[Path | str] = ()) -> Run:
    """The run in ``folder``. A run made with plugins asks for them; they are never run because the folder names them."""
    load_plugins(plugins)
    directory = RunDirectory(Path(folder))
    directory.require()
    return Run(directory)


def load_weights(model: Transformer, tensors: Mapping[str, Tensor], origin: str) -> None:
    """Puts saved weights into a model; anything that does not fit is a sentence."""
    own = model_tensors(model)
    wrong = [name for name in {*own, *tensors} if name not in own or name not in tensors or own[name].shape != tensors[name].shape]
    if wrong:
        raise ConfigError(f"The weights of {origin} do not fit this model: {', '.join(sorted(wrong)[:3])} differ in name or shape.")
    for name, tensor in own.items():
        tensor.data.copy_(tensors[name])


def model_tensors(model: Transformer) -> dict[str, Tensor]:
    """Everything a checkpoint keeps of a model, each tensor once."""
    kept: dict[str, Tensor] = dict(model.named_parameters())
    persistent = model.state_dict().keys()
    kept.update((name, buffer) for name, buffer in model.named_buffers() if name in persistent)
    return kept


def evaluated_text(split: TokenSplit, tokenizer: Tokenizer) -> EvaluatedText:
    """A split as evaluation wants it."""
    return EvaluatedText(
        tokens=split.tokens,
        starts=split.starts,
        byte_lengths=tokenizer.byte_lengths(),
        words=split.documents["words"],
        unknown_id=tokenizer.unknown_id,
    )
