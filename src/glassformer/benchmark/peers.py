"""Other programs of the same sizes, to be measured beside ours: transformers' GPT-2 class, and a nanoGPT folder.

The GPT-2 class comes from the installed package. nanoGPT is the folder the user names on the command line: only then is
its code run, and never anything found in a recipe or a run.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.benchmark.nanogpt_folder import nanogpt_file
from glassformer.foundation.errors import MissingDependency
from glassformer.model.config import ModelConfig


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes that all programs share: a GPT-2 with learned positions, norm before, GELU, tied head."""

    width: int = 384
    layers: int = 6
    heads: int = 6
    context: int = 256
    vocabulary: int = 65
    dropout: float = 0.0
    bias: bool = True
    """Biases in linear maps and norms; transformers' class always has them."""

    def ours(self) -> ModelConfig:
        return ModelConfig.model_validate(
            {name: getattr(self, name) for name in ("width", "layers", "heads", "context", "dropout", "bias")}
        )


def need_transformers() -> None:
    try:
        from transformers import GPT2LMHeadModel  # noqa: F401  # there may be a package that cannot be imported
    except ImportError as error:
        raise MissingDependency("Comparing with transformers needs the package: pip install 'glassformer[hf]'.") from error


def transformers_model(sizes: Sizes) -> Any:
    """``GPT2LMHeadModel`` with fresh weights."""
    need_transformers()
    from transformers import GPT2Config, GPT2LMHeadModel, logging

    logging.set_verbosity_error()
    settings: dict[str, Any] = {
        "vocab_size": sizes.vocabulary,
        "n_positions": sizes.context,
        "n_embd": sizes.width,
        "n_layer": sizes.layers,
        "n_head": sizes.heads,
        "bos_token_id": None,
        "eos_token_id": None,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), sizes.dropout),
    }
    return GPT2LMHeadModel(GPT2Config(**settings))


def nanogpt_model(folder: Path, sizes: Sizes) -> nn.Module:
    """nanoGPT's ``GPT`` with fresh weights."""
    module = nanogpt_module(folder)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):  # it prints its size
        model: nn.Module = module.GPT(
            module.GPTConfig(
                block_size=sizes.context,
                vocab_size=sizes.vocabulary,
                n_layer=sizes.layers,
                n_head=sizes.heads,
                n_embd=sizes.width,
                dropout=sizes.dropout,
                bias=sizes.bias,
            )
        )
    return model


def nanogpt_module(folder: Path) -> Any:
    file = nanogpt_file(folder, "model.py")
    spec = importlib.util.spec_from_file_location("nanogpt_model", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["nanogpt_model"] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module
