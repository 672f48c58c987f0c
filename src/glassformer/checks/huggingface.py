"""A Hugging Face model or its folder as a thing to check. Imports transformers only when a folder is to be loaded.

Rows are padded on the right, and on the left where the model takes position ids: a model can not know that the first
tokens are padding unless it is told where the others stand.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checks.subject import Subject, scores_in
from glassformer.foundation.errors import DataError, MissingDependency, UsageError

CONTEXT_NAMES = ("max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length")
LONGEST = 1024
"""Longer contexts are checked up to here: positions that are formulas do not end."""


def is_huggingface(target: Any) -> bool:
    """Whether this is a model of transformers, told by its base class's name so that nothing has to be imported."""
    return isinstance(target, nn.Module) and any(base.__name__ == "PreTrainedModel" for base in type(target).__mro__)


def huggingface_subject(model: Any, *, vocabulary: int | None = None, context: int | None = None) -> Subject:
    """The model with its mask and its cache."""
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    stated = next((value for name in CONTEXT_NAMES if isinstance(value := getattr(config, name, None), int)), None)
    if context is None and stated is None:
        raise UsageError(f"The configuration of {type(model).__name__} states no context; give it with context=.")
    accepted = _accepted(model)

    def scores(ids_BT: Tensor) -> Tensor:
        return scores_in(model(input_ids=ids_BT, **({"use_cache": False} if "use_cache" in accepted else {})))

    subject = Subject(
        type(model).__name__,
        scores,
        {"": model},
        vocabulary=vocabulary or config.vocab_size,
        context=context or min(LONGEST, stated or LONGEST),
    )
    special = (getattr(config, name, None) for name in ("pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id"))
    subject.reserved_ids = frozenset(token for token in special if isinstance(token, int) and 0 <= token < subject.vocabulary)
    if "attention_mask" in accepted:
        subject.paddings = _paddings(model, accepted)
    if "past_key_values" in accepted and "use_cache" in accepted:
        subject.new_cache = lambda: _Cache(model)
    return subject


def _accepted(model: Any) -> set[str]:
    """The arguments of the forward pass; a subclass that hands its keywords on takes those of its base."""
    passes = [vars(base)["forward"] for base in type(model).__mro__ if "forward" in vars(base)]
    return {name for forward in passes for name in inspect.signature(forward).parameters}


def _paddings(model: Any, accepted: set[str]) -> dict[str, Any]:
    def right(ids_BT: Tensor, key_padding_mask_BS: Tensor) -> Tensor:
        return scores_in(model(input_ids=ids_BT, attention_mask=(~key_padding_mask_BS).long()))

    def left(ids_BT: Tensor, key_padding_mask_BS: Tensor) -> Tensor:
        seen_BT = (~key_padding_mask_BS).long()
        position_ids_BT = (seen_BT.cumsum(1) - 1).clamp(min=0)
        return scores_in(model(input_ids=ids_BT, attention_mask=seen_BT, position_ids=position_ids_BT))

    return {"right": right, "left": left} if "position_ids" in accepted else {"right": right}


class _Cache:
    def __init__(self, model: Any) -> None:
        self.model, self.past = model, None

    def read(self, ids_BT: Tensor, lengths: list[int] | None = None) -> Tensor:
        output = self.model(input_ids=ids_BT, past_key_values=self.past, use_cache=True)
        self.past = output.past_key_values
        return scores_in(output)


def load_folder(folder: Path) -> nn.Module:
    """The model in a folder, from safetensors alone; no code of the folder is run, nothing is fetched."""
    if not (folder / "config.json").is_file():
        raise DataError("there is no config.json, so this is not the folder of a Hugging Face model.", file=folder)
    try:
        import transformers
    except ImportError as error:
        raise MissingDependency("Checking a Hugging Face model needs transformers; install glassformer[hf].") from error
    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    name = (getattr(config, "architectures", None) or [None])[0]
    cls = getattr(transformers, name, None) if name else None
    try:
        model: nn.Module = (cls or transformers.AutoModel).from_pretrained(
            folder, local_files_only=True, use_safetensors=True, dtype=torch.float32
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(f"the model cannot be loaded ({error}).", file=folder) from error
    return model.eval()
