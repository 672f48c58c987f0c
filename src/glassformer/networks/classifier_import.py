"""A folder of transformers with a classification head -> a run of ours that predicts: BERT, RoBERTa, ELECTRA, DistilBERT.

The network is ``model.kind: pretrained`` with ``model.pool: own``; the run's only checkpoint has the folder's weights, head
included. Building it needs the folder, as for every pretrained encoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import ConfigError, DataError
from glassformer.foundation.files import sha256_of_file, whole_folder
from glassformer.networks.pretrained_encoder import PretrainedConfig, PretrainedNetwork
from glassformer.pretrained.adapter_export import head_layers
from glassformer.pretrained.encoders import fingerprint_of_weights, folder_tokenizer, load_encoder
from glassformer.pretrained.folders import CONFIG, is_folder, locate, read_config, read_tensors
from glassformer.pretrained.importing import cached_import, write_imported
from glassformer.pretrained.tuning.base import sizes_of
from glassformer.runs.directory import RunDirectory
from glassformer.runs.weights import saved_tensors

ENDING = "ForSequenceClassification"
ONE_LABEL = "single_label_classification"


@dataclass(frozen=True)
class ImportedClassifier:
    """The class that was read, and the labels by number."""

    class_name: str
    label_names: tuple[str, ...]


def is_classifier(name: Path | str) -> bool:
    """Whether this is the folder (or hub name) of a model with a classification head."""
    folder = Path(name).expanduser()
    if folder.is_dir() and not is_folder(folder):
        return False
    if not folder.is_dir() and (folder.exists() or str(name).startswith((".", "/", "~"))):
        return False
    classes = read_config(locate(name)).get("architectures") or []
    return bool(classes) and str(classes[0]).endswith(ENDING)


def import_classifier(name: Path | str, out: Path) -> tuple[RunDirectory, ImportedClassifier]:
    """Writes a run to ``out``, whole or not at all."""
    RunDirectory(out).refuse_if_used()
    with whole_folder(out) as draft:
        found = _write(RunDirectory(draft), locate(name))
    return RunDirectory(out), found


def cached_classifier(name: Path | str) -> RunDirectory:
    """The same in the cache, keyed by content: for opening a folder without naming a run."""
    folder = locate(name).resolve()
    key = fingerprint(["classifier", 1, str(folder), sha256_of_file(folder / CONFIG), fingerprint_of_weights(folder)])
    return cached_import(key, lambda directory, home: _write(directory, folder))


def _write(directory: RunDirectory, folder: Path) -> ImportedClassifier:
    settings, tokenizer = read_config(folder), folder_tokenizer(str(folder))
    names = _label_names(settings, folder)
    kind = settings.get("problem_type") or ONE_LABEL
    if kind != ONE_LABEL:
        raise ConfigError(
            f"{folder / CONFIG}: problem_type={kind} is not supported: only {ONE_LABEL} is, where each text has one label.",
            reason="problem-type",
        )
    loaded = load_encoder(str(folder))
    context = min(512, sizes_of(loaded.encoder, str(folder)).positions)
    model = {"kind": "pretrained", "folder": str(folder.resolve()), "pool": "own", "context": context}
    network = PretrainedConfig.parse({key: value for key, value in model.items() if key != "kind"}).build(
        tokenizer.size, outputs=len(names), seed=0
    )
    _take_head(network, folder)
    class_name = str(settings["architectures"][0])
    source = {"folder": str(folder.resolve()), "class": class_name, "sha256": {"model.safetensors": loaded.sha256}}
    record = {"schema": 1, "labels": {name: name for name in names}, "reading": {}, "notes": []}
    about = f"Imported from {folder.resolve().name} ({class_name}); not trained here."
    environment = {"imported": source, "outputs": len(names), "data": record}
    recipe = {"about": about, "model": model, "objective": "labels"}
    write_imported(directory, recipe, environment, tokenizer, saved_tensors(network))
    return ImportedClassifier(class_name, names)


def _label_names(settings: dict[str, Any], folder: Path) -> tuple[str, ...]:
    stated = settings.get("id2label") or {str(at): f"LABEL_{at}" for at in range(int(settings.get("num_labels") or 2))}
    try:
        named = {int(at): str(name) for at, name in stated.items()}
    except (AttributeError, ValueError):
        raise DataError(
            "id2label is not a mapping from numbers to names; correct it.", file=folder / CONFIG, reason="bad-label-names"
        ) from None
    if sorted(named) != list(range(len(named))) or len(set(named.values())) < len(named):
        raise DataError(
            "id2label does not name each label once, from 0 on; correct it.", file=folder / CONFIG, reason="bad-label-names"
        )
    return tuple(named[at] for at in range(len(named)))


@torch.no_grad()
def _take_head(network: PretrainedNetwork, folder: Path) -> None:
    """The head's weights, which the encoder's loader leaves out."""
    tensors = read_tensors(folder)
    for name, layer in head_layers(network).items():
        for part, own in layer.state_dict().items():
            there = tensors.get(f"{name}.{part}")
            if there is None or there.shape != own.shape:
                found = "is missing" if there is None else f"has the shape {list(there.shape)}, not {list(own.shape)}"
                raise DataError(
                    f"the tensor {name}.{part} of the head {found}; fetch the folder again.", file=folder, reason="bad-tensor"
                )
            own.copy_(there)
