"""A run's model and tokenizer -> a folder that transformers opens: safetensors, settings, tokenizer, model card."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.errors import ConfigError, RunError
from glassformer.foundation.files import whole_folder, write_atomically, write_json
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import Transformer
from glassformer.pretrained.architecture import Architecture
from glassformer.pretrained.card import model_card
from glassformer.pretrained.folders import CONFIG, WEIGHTS
from glassformer.pretrained.importing import ARCHITECTURES
from glassformer.pretrained.tensors import to_theirs
from glassformer.pretrained.vocabulary import TOKENIZER, TOKENIZER_CONFIG, config_of, document_of
from glassformer.runs.directory import RunDirectory

CARD = "README.md"


@dataclass(frozen=True)
class Exported:
    """What was written, and notes for the user."""

    folder: Path
    class_name: str
    notes: tuple[str, ...]


def fitting_architecture(config: ModelConfig) -> Architecture:
    """The transformers class that can represent every part; raises naming the obstacles of the nearest one."""
    found = {architecture: architecture.objections(config) for architecture in ARCHITECTURES}
    nearest = min(found, key=lambda architecture: len(found[architecture]))
    if not found[nearest]:
        return nearest
    raise ConfigError(
        f"This model has no class in transformers: {'; '.join(found[nearest])}, which {nearest.name}, the nearest one, has no "
        "place for; train a variant with parts of GPT-2, Llama or BERT (docs/huggingface.md lists them)."
    )


def export(run: RunDirectory, model: nn.Module, tokenizer: Tokenizer, folder: Path, *, step: int) -> Exported:
    """Writes the folder atomically. The files of the run are read for the model card, and not modified."""
    if not isinstance(model, Transformer):
        raise ConfigError("This network is not built from our parts, so it has no form to export; export the run it came from.")
    config = model.config
    architecture = fitting_architecture(config)
    document = document_of(tokenizer)
    class_name = architecture.class_of(config)
    settings = {
        "architectures": [class_name],
        "model_type": _model_type(class_name),
        "vocab_size": model.dims.vocabulary,
        "dtype": "float32",
        **architecture.write(config, model.dims, tokenizer),
    }
    if ends := run.eos_token_ids:
        settings["eos_token_id"] = ends[0] if len(ends) == 1 else ends
    weights = _prefixed(to_theirs(_tensors(model), architecture.rules(config, model.dims)), architecture, config)
    notes = _notes(config, tokenizer, class_name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is not empty; choose another folder for the export.")
    with whole_folder(folder) as draft:
        save_file(weights, draft / WEIGHTS, metadata={"format": "pt"})
        write_json(draft / CONFIG, settings)
        write_json(draft / TOKENIZER, document)
        write_json(draft / TOKENIZER_CONFIG, config_of(tokenizer, document, model.dims.context))
        write_atomically(draft / CARD, model_card(run, class_name, parameters=_count(model), step=step, notes=notes))
        (draft / WEIGHTS).chmod(0o644)
    return Exported(folder, class_name, notes)


def _model_type(class_name: str) -> str:
    for beginning in ("GPT2", "Llama", "Bert", "Roberta"):
        if class_name.startswith(beginning):
            return beginning.lower()
    raise AssertionError(class_name)


@torch.no_grad()
def _tensors(model: Transformer) -> dict[str, Tensor]:
    """Our tensors by name; computed positions become a table."""
    tensors: dict[str, Tensor] = dict(model.named_parameters())
    if type(model.config.positions).applies_to == "embedding" and "positions.table.weight" not in tensors:
        weight, places = model.embedding.weight, torch.arange(model.dims.context, device=model.embedding.weight.device)
        nothing_1TD = torch.zeros(1, model.dims.context, model.dims.width, device=weight.device, dtype=weight.dtype)
        tensors["positions.table.weight"] = model.positions.embed(nothing_1TD, places.unsqueeze(0))[0]
    return tensors


def _prefixed(tensors: dict[str, Tensor], architecture: Architecture, config: ModelConfig) -> dict[str, Tensor]:
    """Adds the prefix of a class with a head; the head's own names have none."""
    if not architecture.class_of(config).endswith(("LMHeadModel", "ForCausalLM", "ForMaskedLM")):
        return tensors
    heads = ("lm_head.", "cls.")
    return {name if name.startswith(heads) else architecture.prefix + name: tensor for name, tensor in tensors.items()}


def _count(model: Transformer) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _notes(config: ModelConfig, tokenizer: Tokenizer, class_name: str) -> tuple[str, ...]:
    notes = []
    if not config.causal and config.head.kind != "masked":
        notes.append(f"{class_name} gives vectors and no scores of the vocabulary, so model.head={config.head.kind} ends here.")
    if tokenizer.marks:
        notes.append(f"The marks {', '.join(tokenizer.marks)} are special tokens there: a text that spells one out becomes it.")
    tokenizer = getattr(tokenizer, "inner", tokenizer)  # without the marks
    if tokenizer.settings().get("lowercase"):
        notes.append("The tokenizer lowercases before it cuts words there, and after it here: 'St.' may be cut differently.")
    if tokenizer.kind == "word":
        notes.append("Decoding there puts a space between all words; the ids are the same.")
    return tuple(notes)
