"""A data set of Hugging Face -> one jsonl file per split, in the cache. Imports ``datasets`` when it is asked for one.

``hf:NAME``, ``hf:NAME:CONFIG`` (a name of the hub, or a folder that ``load_dataset`` reads) or a folder written by
``save_to_disk``; ``#SPLIT`` at the end chooses a split, otherwise it is train. Names of classes replace their numbers, nested
columns are named by their path (``translation.de``), and columns that are no text or number are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from glassformer.data.disk_cache import cached_folder
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import DataError, MissingDependency, UnknownName
from glassformer.foundation.files import read_json, write_json

HUB = "hf:"
OTHER_NAMES = {"validation": ("validation", "valid", "val", "dev"), "test": ("test",)}
"""What the splits are called that a recipe holds out."""
_BATCH = 1000
_SPLITS = "splits.json"


def is_hub_set(path: str) -> bool:
    """Whether ``path`` names a set of the hub or a folder that the library ``datasets`` saved."""
    if path.startswith(HUB):
        return True
    place = Path(path.partition("#")[0]).expanduser()
    return (place / "dataset_dict.json").is_file() or all(
        (place / name).is_file() for name in ("dataset_info.json", "state.json")
    )


def split_file(path: str) -> Path:
    """The file with the rows of the split that ``path`` names."""
    name, _, split = path.partition("#")
    folder = _written(name)
    known = read_json(folder / _SPLITS)
    chosen = split or ("train" if "train" in known or len(known) > 1 else next(iter(known)))
    if chosen not in known:
        raise UnknownName(f"the splits of {name}", chosen, known)
    return folder / f"{chosen}.jsonl"


def held_out_splits(path: str) -> dict[str, str]:
    """``validation`` and ``test`` of the set, as paths; without splits whose labels are not published."""
    name, _, split = path.partition("#")
    if split:
        return {}
    known: dict[str, Any] = read_json(_written(name) / _SPLITS)
    found = {key: next((one for one in names if one in known), None) for key, names in OTHER_NAMES.items()}
    return {key: f"{name}#{one}" for key, one in found.items() if one is not None and not known[one]["unlabelled"]}


@lru_cache(maxsize=8)
def _written(name: str) -> Path:
    """The folder with all splits of a set, written when its files changed."""
    splits = _load(name)
    files = [Path(one["filename"]) for each in splits.values() for one in each.cache_files]
    stamps = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = fingerprint({"name": name, "files": [list(stamp) for stamp in stamps], "form": 1})

    def write(folder: Path) -> None:
        about = {}
        for split, rows in splits.items():
            unlabelled = 0
            with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as stream:
                for row, known in _rows(rows):
                    stream.write(json.dumps(row, ensure_ascii=False) + "\n")
                    unlabelled += not known
            about[split] = {"rows": len(rows), "unlabelled": len(rows) > 0 and unlabelled == len(rows)}
        write_json(folder / _SPLITS, about)

    return cached_folder("hub", key, write)


def _load(name: str) -> Mapping[str, Any]:
    """The splits by name, as the library gives them: tables on disk, read in pieces."""
    try:
        import datasets
    except ImportError as error:
        raise MissingDependency(
            f"data.path={name} needs the package datasets; install glassformer[data].", reason="no-datasets"
        ) from error
    try:
        if name.startswith(HUB):
            known, _, config = name.removeprefix(HUB).partition(":")
            found = datasets.load_dataset(known, config or None)
        else:
            found = datasets.load_from_disk(name)
    except (OSError, ValueError) as error:  # not found, no connection, no such config, no file it can read
        raise DataError(f"cannot be loaded ({str(error).splitlines()[0]}).", file=name, reason="hub-set") from error
    return dict(found) if isinstance(found, dict) else {"train": found}


def _rows(split: Any) -> Iterator[tuple[dict[str, Any], bool]]:
    """Each row as plain values, and whether its label is known (-1 stands for one that is not published)."""
    split = split.flatten()
    plain = {name: one for name, one in split.features.items() if type(one).__name__ in ("Value", "ClassLabel")}
    names = {name: one.names for name, one in plain.items() if type(one).__name__ == "ClassLabel"}
    for batch in split.select_columns(list(plain)).iter(batch_size=_BATCH):
        for values in zip(*(batch[name] for name in plain)):
            row = dict(zip(plain, values))
            known = all(row[name] is not None and row[name] >= 0 for name in names)
            row |= {name: classes[row[name]] for name, classes in names.items() if row[name] is not None and row[name] >= 0}
            yield {key: one if isinstance(one, str | int | float | None) else str(one) for key, one in row.items()}, known
