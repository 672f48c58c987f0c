"""A Hugging Face folder -> a model config, a tokenizer and weights of ours; and from them a run without training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.data.config import NO_DATA
from glassformer.data.disk_cache import cache_folder, cached_folder
from glassformer.data.pairs.pair_batches import END, PAD, START
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.data.tokenizers.huggingface import FastTokenizer
from glassformer.data.tokenizers.special_tokens import MarkedTokenizer
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import ConfigError, DataError
from glassformer.foundation.files import sha256_of_file, whole_folder
from glassformer.model.config import ModelConfig
from glassformer.model.network import MODELS
from glassformer.pretrained.family import Family, families
from glassformer.pretrained.folders import (
    CONFIG,
    GENERATION_CONFIG,
    locate,
    read_config,
    read_document,
    read_tensors,
    weight_files,
)
from glassformer.pretrained.tokenizer_conversion import TOKENIZER_FILES, tokenizer_in
from glassformer.pretrained.translation_rules import Settings, to_ours
from glassformer.runs.checkpoint import Checkpoint, save_checkpoint
from glassformer.runs.directory import RunDirectory

OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}
"""How BERT's first files called the parts of a norm."""


@dataclass(frozen=True)
class Pretrained:
    """The content of a folder as our config, tokenizer and weights (named as in a checkpoint), with notes on omissions."""

    folder: Path
    architecture: Family
    model: ModelConfig
    tokenizer: Tokenizer
    weights: Mapping[str, Tensor]
    notes: tuple[str, ...]
    eos_token_ids: tuple[int, ...] = ()
    """End-of-text ids of generation; empty: only the tokenizer's stop token."""

    def record(self) -> dict[str, Any]:
        """The origin of the weights, for a run's environment: plain values."""
        return {
            "folder": str(self.folder.resolve()),
            "class": self.architecture.class_of(self.model),
            "sha256": {file.name: sha256_of_file(file) for file in weight_files(self.folder)},
            "notes": list(self.notes),
            "eos_token_ids": list(self.eos_token_ids),
        }


def read_pretrained(name: Path | str, *, context: int | None = None) -> Pretrained:
    """Reads the model of a folder, or of a hub name. Raises naming an unsupported setting or tensor.

    ``context`` shortens a model with computed positions (rotary), which makes the checks cheaper.
    """
    folder = locate(name)
    values = read_config(folder)
    settings = Settings(values, str(folder / CONFIG))
    architecture = architecture_of(settings)
    theirs = _plain_names(read_tensors(folder), architecture)
    config = _config(architecture, settings, theirs, context)
    tokenizer = tokenizer_in(folder)
    if architecture.reads_source:
        tokenizer = _for_pairs(tokenizer, settings)
    rows = settings.whole("vocab_size")
    if rows < tokenizer.size:
        raise settings.refusal(
            "vocab_size", f"is less than the {tokenizer.size} ids of the folder's tokenizer; they do not fit"
        )
    if rows > tokenizer.size:
        config = MODELS.parse({**config.to_dict(), "vocabulary": rows}, at="model")
    fitted = _fitted(folder, architecture, config, tokenizer, theirs)
    return replace(fitted, eos_token_ids=tuple(_eos_token_ids(folder, settings, rows)))


def _for_pairs(tokenizer: Tokenizer, settings: Settings) -> Tokenizer:
    """The tokenizer with the ids that begin, end and pad, and with what stands before every text, of a folder for pairs."""
    rows = settings.whole("vocab_size")
    named = {name: settings.token_ids(name, rows)[:1] for name in ("eos_token_id", "pad_token_id", "decoder_start_token_id")}
    if absent := [name for name in ("eos_token_id", "pad_token_id") if not named[name]]:
        raise settings.refusal(absent[0], "is needed by a model that reads a source; give a token id")
    end, pad, start = (ids[0] if ids else named["pad_token_id"][0] for ids in named.values())
    around = tokenizer.library.encode("").ids if isinstance(tokenizer, FastTokenizer) else []
    prefix = around[:-1] if around[-1:] == [end] else []
    return MarkedTokenizer(tokenizer, (), own_marks={START: start, END: end, PAD: pad}, prefix=prefix)


def _eos_token_ids(folder: Path, settings: Settings, rows: int) -> list[int]:
    """Those of generation_config.json, else of config.json."""
    file = folder / GENERATION_CONFIG
    own = Settings(read_document(file), str(file)).token_ids("eos_token_id", rows) if file.is_file() else []
    return own or settings.token_ids("eos_token_id", rows)


def architecture_of(settings: Settings) -> Family:
    """The architecture of a config.json."""
    kind, classes = settings.values.get("model_type"), settings.values.get("architectures") or []
    known = {architecture.model_type: architecture for architecture in families()}
    if kind not in known:
        raise settings.refusal("model_type", f"is a kind of model that cannot become ours; {', '.join(known)} can")
    architecture = known[str(kind)]
    if classes and classes[0] not in architecture.classes:
        raise settings.refusal("architectures", f"names a class that cannot become ours; {', '.join(architecture.classes)} can")
    return architecture


def _config(architecture: Family, settings: Settings, theirs: Mapping[str, Tensor], context: int | None) -> ModelConfig:
    values = architecture.read(settings, theirs.keys())
    if context is not None and context < values["context"]:
        if values["positions"]["kind"] == "learned":
            raise ConfigError(
                f"context={context} would truncate the position table of {values['context']} rows; leave it out.",
                reason="context-of-table",
            )
        values["context"] = context
    try:
        return MODELS.parse(values, at="model")
    except ConfigError as error:
        raise DataError(f"the settings do not fit our model: {error}", file=settings.file, reason="bad-setting") from error


def _plain_names(tensors: Mapping[str, Tensor], architecture: Family) -> dict[str, Tensor]:
    """The weights by the names of the bare model, without computed buffers."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(architecture.spare):
            continue
        for old, new in OLD_NAMES.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        found[name.removeprefix(architecture.prefix)] = tensor
    return found


def _fitted(
    folder: Path, architecture: Family, config: ModelConfig, tokenizer: Tokenizer, theirs: Mapping[str, Tensor]
) -> Pretrained:
    model = config.shapes(tokenizer.size)
    expected = {name: parameter.shape for name, parameter in model.named_parameters()}
    rules = architecture.rules(config, model.dims)
    try:
        weights = to_ours(theirs, rules, expected)
    except DataError as error:
        raise DataError(str(error), file=folder, reason=error.reason) from error
    for copy, original in architecture.copies(config).items():
        if copy in theirs and original in theirs and not torch.equal(theirs[copy], theirs[original]):
            raise DataError(
                f"the tensor {copy} differs from {original}, which {CONFIG} says it is.", file=folder, reason="copy-differs"
            )
    used = {name for rule in rules for name in rule.theirs} | architecture.copies(config).keys()
    left = sorted(theirs.keys() - used)
    strange = [name for name in left if not name.startswith(architecture.unused)]
    if strange or (left and not architecture.unused):
        raise DataError(
            f"the tensor {(strange or left)[0]} has no place in {architecture.class_of(config)} as ours.",
            file=folder,
            reason="tensor-without-place",
        )
    notes = [f"Left out, because no score of ours depends on it: {', '.join(left)}."] if left else []
    if config.head.kind in ("pooled", "tied") and not config.causal:
        notes.append("The folder has no head for scores of the vocabulary; the embedding's own matrix stands in for it.")
    return Pretrained(folder, architecture, config, tokenizer, weights, tuple(notes))


def import_run(name: Path | str, out: Path, *, context: int | None = None) -> tuple[RunDirectory, Pretrained]:
    """Writes a run to ``out``: the folder's model as a checkpoint of step 0, its tokenizer, and a recipe without data.

    Everything is read before anything is written, and the run is renamed into place when complete.
    """
    RunDirectory(out).refuse_if_used()
    found = read_pretrained(name, context=context)
    with whole_folder(out) as draft:
        write_run(RunDirectory(draft), found, home=out)
    return RunDirectory(out), found


def cached_run(name: Path | str) -> RunDirectory:
    """The same in the cache, keyed by content: for opening a folder without naming a run."""
    folder = locate(name)
    names = (*TOKENIZER_FILES, GENERATION_CONFIG)
    beside = {name: sha256_of_file(folder / name) for name in names if (folder / name).is_file()}
    weights = [[file.name, sha256_of_file(file)] for file in weight_files(folder)]
    key = fingerprint([2, read_config(folder), weights, beside, ModelConfig.model_json_schema()["properties"]])

    return cached_import(key, lambda directory, home: write_run(directory, read_pretrained(folder), home=home))


def cached_import(key: str, write: Callable[[RunDirectory, Path], Any]) -> RunDirectory:
    """The run of a key in the cache; ``write`` makes it, given its folder for now and the one where it will live."""
    home = cache_folder() / "imported" / key
    made = cached_folder(
        "imported", key, lambda draft: write(RunDirectory(draft), home), whole=lambda at: RunDirectory(at).exists()
    )
    return RunDirectory(made)


def write_run(directory: RunDirectory, found: Pretrained, *, home: Path) -> None:
    """The files of the run. ``home`` is where they will live."""
    recipe = {
        "about": f"Imported from {found.folder.resolve().name} ({found.architecture.class_of(found.model)}); not trained "
        "here: give data and training to go on from it with init_from.",
        "tokenizer": {"kind": "file", "file": str(RunDirectory(home.resolve()).tokenizer_file)},
        "model": found.model.to_dict(),
        "objective": "translate" if found.model.reads_source else "next-token" if found.model.causal else "masked",
    }
    write_imported(directory, recipe, {"imported": found.record(), "outputs": None}, found.tokenizer, found.weights)


def write_imported(
    directory: RunDirectory,
    recipe: Mapping[str, Any],
    environment: dict[str, Any],
    tokenizer: Tokenizer,
    weights: Mapping[str, Tensor],
) -> None:
    """A run that was not trained here: its weights as a checkpoint of step 0, its tokenizer, a recipe without data."""
    directory.root.mkdir(parents=True, exist_ok=True)
    tokenizer.save(directory.tokenizer_file)
    save_checkpoint(directory, Checkpoint(step=0, model=weights))
    directory.write_environment(environment)
    directory.write_state("imported", step=0, steps=0)
    directory.write_recipe({**recipe, "data": {"set": NO_DATA}, "training": {"steps": 1}})
