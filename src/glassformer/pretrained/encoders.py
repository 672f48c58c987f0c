"""A folder or a hub name -> a transformers encoder in float32, its pooler, dropout, tokenizer, and a checksum of its weights.

Weights are read from safetensors only; no code from the folder is run; offline, a hub name works if it is in the hub's cache.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.foundation.errors import ConfigError, DataError, MissingDependency
from glassformer.foundation.files import sha256_of_file, sha256_of_text
from glassformer.pretrained.folders import locate, read_config, require_finite, weight_files

_OF_A_HEAD = ("classifier_dropout", "seq_classif_dropout", "cls_dropout", "classifier_dropout_prob")
_OF_THE_ENCODER = ("hidden_dropout_prob", "dropout")
"""Names of dropout rates in config.json."""


@dataclass(frozen=True)
class LoadedEncoder:
    """``pooler``: the module between the first vector and the head, if the folder has its weights."""

    encoder: nn.Module
    pooler: nn.Module | None
    folder: Path
    sha256: str

    @property
    def config(self) -> Any:
        return self.encoder.config


def load_encoder(name: str) -> LoadedEncoder:
    """Loads the encoder of a folder, without changing the state of the random generators."""
    transformers = _library()
    folder = locate(name)
    weight_files(folder)  # raises if there are none, or only pickles
    settings = read_config(folder)
    _refuse_decoders(name, settings)
    with _quietly(transformers), torch.random.fork_rng(devices=[]):
        encoder, found = _opened(transformers, folder)
    missing = [key for key in found["missing_keys"] if not key.startswith("pooler.")]
    if missing:
        raise DataError(
            f"the weights lack {missing[0]} and {len(missing) - 1} more; fetch the folder again.",
            file=folder,
            reason="tensor-missing",
        )
    require_finite(encoder.state_dict(), folder)
    pooler = getattr(encoder, "pooler", None)
    if isinstance(pooler, nn.Module):
        encoder.pooler = None
    else:
        pooler = None
    if pooler is not None and len(found["missing_keys"]) > 0:
        pooler = None  # randomly initialised, not pretrained
    return LoadedEncoder(encoder, pooler, folder, fingerprint_of_weights(folder))


def _refuse_decoders(name: str, settings: Mapping[str, Any]) -> None:
    wanted = "labels are read off an encoder (BERT, RoBERTa, ...)"
    half = next((each for each in settings.get("architectures") or () if str(each).endswith("EncoderModel")), None)
    if half is not None:
        raise ConfigError(
            f"model.folder={name} is one half of a model with a decoder ({half}), which cannot be used; {wanted}: choose one.",
            reason="not-an-encoder",
        )
    if settings.get("is_encoder_decoder") or settings.get("is_decoder"):
        raise ConfigError(f"model.folder={name} is a model with a decoder; {wanted}: choose one.", reason="not-an-encoder")


def _opened(transformers: Any, folder: Path, attention: str = "sdpa") -> tuple[Any, Mapping[str, Any]]:
    """The encoder and its missing weights; with eager attention if its class has no fused one (DeBERTa, MPNet)."""
    try:
        opened: tuple[Any, Mapping[str, Any]] = transformers.AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            attn_implementation=attention,
            output_loading_info=True,
        )
        return opened
    except SafetensorError as error:
        raise DataError(
            f"the weights are damaged or cut off ({error}); fetch the folder again.", file=folder, reason="damaged-weights"
        ) from error
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        if attention == "sdpa" and "scaled_dot_product_attention" in str(error):
            return _opened(transformers, folder, "eager")
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"the model cannot be loaded ({first}).", file=folder, reason="model-not-loadable") from error


def folder_tokenizer(name: str) -> Tokenizer:
    """The tokenizer that the encoder was pretrained with."""
    folder = locate(name)
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise DataError(
            "there is no tokenizer.json, so texts cannot be turned into the ids this model knows; fetch it with the model.",
            file=folder,
            reason="no-tokenizer",
        )
    return load_tokenizer(file)


def fingerprint_of_weights(folder: Path) -> str:
    """sha256 of the weights: of the single file, or over those of all files."""
    files = [(file.resolve(), file.stat()) for file in sorted(weight_files(folder))]
    digests = [_checksum(file, seen.st_size, seen.st_mtime_ns, seen.st_ino) for file, seen in files]
    return digests[0] if len(digests) == 1 else sha256_of_text("".join(digests))


@lru_cache(maxsize=64)
def _checksum(file: Path, size: int, changed: int, number: int) -> str:
    """Cached in the process until the file changes: half a gigabyte takes a second."""
    return sha256_of_file(file)


def _library() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise MissingDependency("model.kind=pretrained needs transformers; install glassformer[hf].") from error
    return transformers


@contextlib.contextmanager
def _quietly(transformers: Any) -> Iterator[None]:
    """Silences the library's progress bars and warnings."""
    log = transformers.utils.logging
    before, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(before)
        if bars:
            log.enable_progress_bar()


def stated_dropout(settings: Any) -> float:
    """The dropout rate of the classification head in config.json, else that of the encoder's hidden states."""
    found = (getattr(settings, name, None) for name in (*_OF_A_HEAD, *_OF_THE_ENCODER))
    return next((float(share) for share in found if isinstance(share, int | float)), 0.1)


def set_dropout(encoder: nn.Module, share: float) -> None:
    """Sets the rate in modules, and where it is an attribute used by attention or a module left out for 0."""
    for module in list(encoder.modules()):
        if isinstance(module, nn.Dropout):
            module.p = share
        for name, value in list(vars(module).items()):
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, share)
        for name, child in list(module.named_children()):
            if "drop" in name and isinstance(child, nn.Identity):
                setattr(module, name, nn.Dropout(share))
