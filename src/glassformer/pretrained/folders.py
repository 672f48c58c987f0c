"""A folder or a hub name -> its config.json and its tensors, from safetensors only: no pickle, no code, bounded headers."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from glassformer.foundation.errors import DataError, MissingDependency

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
GENERATION_CONFIG = "generation_config.json"
WANTED = (
    CONFIG,
    GENERATION_CONFIG,
    "*.safetensors",
    INDEX,
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
)
"""The files downloaded from the hub: no pickle and no Python file."""
LARGEST_JSON = 64 << 20
LARGEST_HEADER = 100 << 20
"""The header limit of safetensors itself."""
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def is_folder(path: Path | str) -> bool:
    """Whether this is the folder of a Hugging Face model."""
    return (Path(path) / CONFIG).is_file()


def locate(name: Path | str) -> Path:
    """The folder itself, or that of a hub name: from the hub's cache, or downloaded where the settings allow it."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not is_folder(folder):
            raise DataError(
                f"there is no {CONFIG}, so this is not the folder of a Hugging Face model.",
                file=folder,
                reason="not-a-model-folder",
            )
        return folder
    text = str(name)
    if folder.exists() or text.startswith((".", "/", "~")) or text.count("/") > 1:
        raise DataError(
            "is not a folder; give the folder of a Hugging Face model, or its name on the hub.",
            file=name,
            reason="not-a-model-folder",
        )
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingDependency(
            f"{text} is no folder here, and looking for it on the hub needs huggingface_hub; install glassformer[hf]."
        ) from error
    offline = any(
        os.environ.get(key, "").upper() in ("1", "ON", "YES", "TRUE") for key in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    )
    try:
        return Path(huggingface_hub.snapshot_download(text, allow_patterns=list(WANTED), local_files_only=offline))
    except Exception as error:  # the library has a dozen kinds, and so has the network below it
        known = {"LocalEntryNotFoundError": "the hub cannot be reached", "RepositoryNotFoundError": "the hub has no such name"}
        of_error = known.get(type(error).__name__, type(error).__name__)
        reason = "the settings forbid the network (HF_HUB_OFFLINE)" if offline else of_error
        raise DataError(
            f"{text} is not a local folder, is not in the hub's cache, and cannot be fetched: {reason}; "
            "give a folder instead (in a recipe: model.folder).",
            reason="not-fetched",
        ) from error


def read_config(folder: Path) -> dict[str, Any]:
    """The settings in config.json."""
    return read_document(folder / CONFIG)


def read_document(file: Path) -> dict[str, Any]:
    """A JSON object of bounded size."""
    try:
        if file.stat().st_size > LARGEST_JSON:
            raise DataError(
                f"is larger than {LARGEST_JSON >> 20} MiB, so it is not a settings file.", file=file, reason="too-large"
            )
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}).", file=file, reason="unreadable") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not valid JSON ({error}); fetch it again.", file=file, reason="not-json") from None
    if not isinstance(document, dict):
        raise DataError("is JSON but not an object; fetch it again.", file=file, reason="not-json")
    return document


def weight_files(folder: Path) -> dict[Path, list[str] | None]:
    """The weight files, each with the tensors that the index lists for it (None: all it has)."""
    if (folder / WEIGHTS).is_file():
        return {folder / WEIGHTS: None}
    if (folder / INDEX).is_file():
        return _shards(folder)
    pickles = sorted(file.name for pattern in PICKLES for file in folder.glob(pattern))
    if pickles:
        raise DataError(
            f"the weights are only in {pickles[0]}, a pickle, which could run code and is not read; save the "
            "model again as safetensors.",
            file=folder,
            reason="only-pickles",
        )
    raise DataError(
        f"there are no weights: neither {WEIGHTS} nor {INDEX}; fetch the model again with its weights.",
        file=folder,
        reason="no-weights",
    )


def _shards(folder: Path) -> dict[Path, list[str] | None]:
    index = read_document(folder / INDEX).get("weight_map")
    if not isinstance(index, dict) or not index or not all(isinstance(shard, str) for shard in index.values()):
        raise DataError("has no weight_map from tensors to files; fetch it again.", file=folder / INDEX, reason="damaged-index")
    found: dict[Path, list[str] | None] = {}
    for tensor, shard in index.items():
        if Path(shard).name != shard or not shard.endswith(".safetensors"):
            raise DataError(
                f"names {shard!r} for {tensor}, which is not a safetensors file of this folder.",
                file=folder / INDEX,
                reason="damaged-index",
            )
        if not (folder / shard).is_file():
            raise DataError(
                f"names the file {shard} for {tensor}, but it is not in the folder; fetch it.",
                file=folder / INDEX,
                reason="damaged-index",
            )
        found[folder / shard] = [*(found.get(folder / shard) or []), tensor]
    return found


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the folder by its name there."""
    tensors: dict[str, Tensor] = {}
    for file, promised in weight_files(folder).items():
        _refuse_foreign(file)
        try:
            with safe_open(file, framework="pt", device="cpu") as stored:
                names = set(stored.keys())
                missing = [name for name in promised or () if name not in names]
                if missing:
                    raise DataError(
                        f"the tensor {missing[0]} is not in it, though {INDEX} says so.", file=file, reason="damaged-index"
                    )
                tensors.update((name, stored.get_tensor(name)) for name in sorted(names if promised is None else promised))
        except (SafetensorError, OSError, ValueError) as error:
            raise DataError(
                f"cannot be read as safetensors ({error}); fetch it again.", file=file, reason="not-safetensors"
            ) from error
    require_finite(tensors, folder)
    return tensors


def require_finite(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Raises if a weight is NaN or infinite: such a model gives NaN for every text."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise DataError(
                f"the tensor {name} has NaN or infinite weights, so every score would be NaN; fetch the folder again, or "
                "train the model again with a smaller learning rate.",
                file=folder,
                reason="weights-not-finite",
            )


def _refuse_foreign(file: Path) -> None:
    """Raises unless the file starts with the length of a JSON header, as safetensors do and pickles and archives do not."""
    with file.open("rb") as stream:
        start = stream.read(9)
    length = struct.unpack("<Q", start[:8])[0] if len(start) == 9 else 0
    if not 2 <= length <= min(LARGEST_HEADER, file.stat().st_size - 8) or start[8:9] != b"{":
        raise DataError("is not a safetensors file despite its name; nothing was read.", file=file, reason="not-safetensors")
