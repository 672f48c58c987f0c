"""Fitted baselines -> one file of plain arrays and back, so that a run can be evaluated without its training data."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from glassformer.foundation.files import read_bytes, write_atomically
from glassformer.runs.directory import RunDirectory

PRESENT = "present"
MOST_BYTES = 1 << 30


class Fitted(Protocol):
    """What a run needs of a baseline."""

    def arrays(self) -> dict[str, np.ndarray]: ...


def packed(baselines: Mapping[str, Fitted]) -> bytes:
    """The content of a file of plain arrays, named ``baseline/array``. The same baselines give the same bytes."""
    buffer = io.BytesIO()
    named = {f"{name}/{PRESENT}": np.zeros(0) for name in baselines}  # lists baselines without arrays, too
    named |= {f"{name}/{key}": array for name, baseline in baselines.items() for key, array in baseline.arrays().items()}
    np.savez_compressed(buffer, **named)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpacked(content: bytes) -> dict[str, dict[str, np.ndarray]] | None:
    """Arrays by baseline; None where the content is damaged."""
    found: dict[str, dict[str, np.ndarray]] = {}
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            for name in arrays.files:
                baseline, _, key = name.rpartition("/")
                own = found.setdefault(baseline, {})
                if key != PRESENT:
                    own[key] = arrays[name]
    except Exception:  # a damaged archive can raise anything: EOFError, zlib.error, BadZipFile, NotImplementedError
        return None
    return found


def save_baselines(run: RunDirectory, content: bytes) -> None:
    """Writes what ``packed`` gave into the run."""
    write_atomically(run.baselines_file, content)


def load_packed(file: Path) -> dict[str, dict[str, np.ndarray]] | None:
    """Arrays by baseline; None where there is no file, or it is damaged: then they are fitted again."""
    return unpacked(read_bytes(file, most=MOST_BYTES)) if file.is_file() else None


def texts_to_array(texts: Sequence[str], between: str = "\n") -> np.ndarray:
    """Texts without ``between`` in them as one array of bytes."""
    return np.frombuffer(between.join(texts).encode(), np.uint8)


def texts_of_array(array: np.ndarray, between: str = "\n") -> list[str]:
    """The inverse of ``texts_to_array``."""
    return array.tobytes().decode().split(between)
