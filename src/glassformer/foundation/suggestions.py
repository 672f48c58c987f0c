"""A misspelt key -> the key that was meant: at the same level, elsewhere in a recipe, or by another name.

Knows the words that other libraries use. Configs add themselves to ``SCHEMAS``; slots list their
variants. Imports no torch.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

SCHEMAS: list[type[BaseModel]] = []
"""The configs whose keys a user writes: the recipe adds itself here."""

KEY_SYNONYMS = {
    "model.layers": ("n_layer", "n_layers", "num_layers", "num_hidden_layers", "depth", "blocks", "layer"),
    "model.heads": ("n_head", "n_heads", "num_heads", "num_attention_heads", "nhead", "head_count"),
    "model.width": ("n_embd", "d_model", "hidden_size", "hidden", "dim", "embed_dim", "embedding_size", "dimension"),
    "model.context": ("block_size", "seq_len", "sequence_length", "context_length", "max_len", "max_length", "n_ctx", "window"),
    "model.mixer": ("attention", "attn"),
    "model.positions": ("position", "positional_encoding", "pos_emb", "position_embedding"),
    "model.feedforward": ("activation", "mlp", "ffn", "ff"),
    "training.lr": ("learning_rate", "learningrate", "rate", "max_lr", "eta"),
    "training.steps": ("max_steps", "max_iters", "num_steps", "iterations", "iters", "train_steps"),
    "training.epochs": ("num_epochs", "max_epochs", "num_train_epochs", "epoch"),
    "training.batch_size": ("batch", "bs", "train_batch_size", "batchsize"),
    "training.accumulate": ("gradient_accumulation_steps", "grad_accum", "accumulation"),
    "training.clip": ("grad_clip", "max_grad_norm", "gradient_clip", "clip_norm"),
    "training.weight_decay": ("wd", "decay"),
    "training.schedule": ("lr_schedule", "scheduler", "lr_scheduler", "warmup", "warmup_steps"),
    "training.optimizer": ("optim", "opt"),
    "training.precision": ("dtype", "amp", "fp16", "bf16"),
    "evaluation.every": ("eval_every", "eval_interval", "eval_steps"),
    "checkpoint.every": ("save_every", "save_steps", "checkpoint_every"),
    "tokenizer.vocab": ("vocab_size", "vocabulary_size"),
    "data.path": ("file", "dataset", "corpus", "train_file", "text", "dir", "folder"),
    "seed": ("random_seed", "rng_seed"),
}
"""What other libraries call a key."""


def suggestion(name: str, known: Sequence[str]) -> str:
    """`` Did you mean 'x'?`` with a leading space: a near name here, the same name elsewhere, another library's name."""
    here = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if here and difflib.SequenceMatcher(None, name, here[0]).ratio() >= 0.8:
        return f" Did you mean {here[0]!r}?"
    meant = next((key for key, names in KEY_SYNONYMS.items() if name.lower() in names), None)
    meant = meant or next((key for key in keys() if key.rpartition(".")[2] == name), None)
    if meant is not None:
        return f" Did you mean {meant!r}?"
    return f" Did you mean {here[0]!r}?" if here else ""


def keys() -> Iterator[str]:
    """Every dotted key of the schemas, those of each slot's default variant with them."""
    for schema in SCHEMAS:
        yield from _keys(schema, "")


def _keys(config: type[BaseModel], prefix: str) -> Iterator[str]:
    from glassformer.foundation.registry import Slot  # which knows configs, and so this module

    for name, field in config.model_fields.items():
        key = prefix + name
        yield key
        inner, slot = field.annotation, Slot.every.get(key)
        if slot is not None and isinstance(field.default, str):
            inner = slot.get(field.default)
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _keys(inner, key + ".")
