"""A nanoGPT folder and token ids -> a scratch copy of it that can be trained: files, data, options. Imports no torch."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Mapping
from pathlib import Path

from glassformer.foundation.errors import UsageError

FILES = ("train.py", "model.py", "configurator.py")
DATASET = "bench"
"""The name of our data in its ``data`` folder."""
Texts = tuple[bytes, bytes, int]
"""Training and validation text as numbers of 16 bits, and how many different ones there are."""


def nanogpt_file(folder: Path, name: str) -> Path:
    file = folder / name
    if not file.is_file():
        raise UsageError(f"--nanogpt {folder} has no {name}; give the folder of a nanoGPT checkout.")
    return file


def prepare_nanogpt(folder: Path, scratch: Path, texts: Texts, *more: str) -> None:
    """Makes ``scratch`` anew: the files that training takes, ``more`` of the folder's files, and the texts as its data."""
    files = {name: nanogpt_file(folder, name) for name in (*FILES, *more)}
    shutil.rmtree(scratch, ignore_errors=True)
    for name, file in files.items():
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, scratch / name)
    training, validation, vocabulary = texts
    data = scratch / "data" / DATASET
    data.mkdir(parents=True)
    (data / "train.bin").write_bytes(training)
    (data / "val.bin").write_bytes(validation)
    (data / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": vocabulary}))  # its format; we never read one


def nanogpt_options(values: Mapping[str, object]) -> list[str]:
    """The words of its command line that train on our data, with these values."""
    return [f"--{name}={value}" for name, value in {"dataset": DATASET, "out_dir": "out", **values}.items()]
