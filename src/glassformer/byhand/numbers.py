"""Text, lists, arrays, .npy and .csv files -> finite float64 arrays; anything else gets a sentence.

``"1,0;0,1"`` is two rows; numbers may be fractions (``1/3``). A .npy file is read without pickle. Knows no problem.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.foundation.errors import ConfigError, DataError

Array = NDArray[np.float64]

MAX_ROWS, MAX_COLUMNS, MAX_BYTES = 1000, 128, 16 << 20  # paper size, and far beyond
MAX_SIZE = 1e9  # larger entries leave float64 no digits for differences of scores


def as_number(name: str, value: Any) -> float:
    """One finite number: 0.5, ".5", "1/3"."""
    if isinstance(value, str):
        value = _number_from_text(name, value)
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise ConfigError(f"{name}={value!r} is not a number.")
    if not np.isfinite(float(value)):
        raise ConfigError(f"{name}={value!r} is not a finite number; NaN and infinity have no place on paper.")
    return float(value)


def as_matrix(name: str, value: Any, *, folder: Path | None = None) -> Array:
    """Rows of equal length from text, nested lists, an array or the name of a .npy or .csv file."""
    if isinstance(value, str):
        value = read_numbers(name, value, folder) if is_file_name(value) else _rows_from_text(name, value)
    elif isinstance(value, Path):
        value = read_numbers(name, str(value), folder)
    array = _array(name, value)
    if array.ndim != 2:
        raise ConfigError(f"{name} has {array.ndim} dimension(s); give rows of numbers, for example '1,0;0,1'.")
    if 0 in array.shape:
        raise ConfigError(f"{name} is empty (shape {_shape(array)}); give at least one row with one number.")
    if array.shape[0] > MAX_ROWS or array.shape[1] > MAX_COLUMNS:
        raise ConfigError(f"{name} has shape {_shape(array)}; by hand goes up to {MAX_ROWS} rows of {MAX_COLUMNS} numbers.")
    return _finite(name, array)


def as_vector(name: str, value: Any, *, folder: Path | None = None) -> Array:
    """One row of numbers, from the same sources as a matrix."""
    if isinstance(value, str | Path):
        rows = as_matrix(name, value, folder=folder)
        if len(rows) != 1 and rows.shape[1] != 1:
            raise ConfigError(f"{name} has shape {_shape(rows)}; give one row of numbers, for example '1,0,2'.")
        return rows.reshape(-1)
    array = _array(name, value)
    if array.ndim != 1 or array.size == 0:
        raise ConfigError(f"{name} has shape {_shape(array)}; give one row of at least one number.")
    return _finite(name, array)


def read_numbers(name: str, file: str, folder: Path | None = None) -> Any:
    """The content of a .npy or .csv file; a relative name counts from ``folder``."""
    path = (folder or Path()) / file
    if not path.is_file():
        raise DataError(f"the file for {name} does not exist.", file=path)
    if path.stat().st_size > MAX_BYTES:
        raise DataError(f"larger than {MAX_BYTES >> 20} MiB; by hand is for problems of paper size.", file=path)
    return _read_npy(path) if path.suffix.lower() == ".npy" else _read_csv(path)


def _read_npy(path: Path) -> Array:
    try:
        # mapped: no pickle is ever read this way, and a header that lies about its size allocates nothing
        return np.array(np.lib.format.open_memmap(path, mode="r"))
    except (ValueError, OSError, EOFError, MemoryError) as error:
        raise DataError(f"not a .npy file of plain numbers ({str(error).rstrip('.')}).", file=path) from error


def _read_csv(path: Path) -> list[list[float]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text ({error.reason} at byte {error.start}).", file=path) from error
    rows: list[list[float]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            row = [_number_from_text("the value", cell) for cell in _cells(line)]
        except ConfigError as error:
            raise DataError(str(error), file=path, line=number) from None
        if rows and len(row) != len(rows[0]):
            raise DataError(f"{len(row)} numbers, but the first row has {len(rows[0])}.", file=path, line=number)
        rows.append(row)
    if not rows:
        raise DataError("no row of numbers in it.", file=path)
    return rows


def _rows_from_text(name: str, text: str) -> list[list[float]]:
    rows = [[_number_from_text(name, cell) for cell in _cells(row)] for row in re.split(r"[;\n]", text) if row.strip()]
    if len({len(row) for row in rows}) > 1:
        raise ConfigError(
            f"{name}: rows have {', '.join(str(len(row)) for row in rows)} numbers; all rows need the same count."
        )
    return rows


def _cells(line: str) -> list[str]:
    return [cell for cell in re.split(r"[,\s]+", line.strip(" \t\r,[]()")) if cell]


def _number_from_text(name: str, text: str) -> float:
    above, slash, below = text.partition("/")
    try:
        return float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        raise ConfigError(f"{name}: {text!r} is not a number; write numbers like 0.5, -2 or 1/3.") from None


def is_file_name(text: str) -> bool:
    """Whether a text is the name of a file of numbers."""
    return text.strip().lower().endswith((".npy", ".csv"))


def _array(name: str, value: Any) -> Array:
    try:
        array = np.asarray(value)
    except ValueError:
        raise ConfigError(f"{name}: the rows have different lengths; all rows need the same count of numbers.") from None
    if array.dtype.kind not in "iuf" and array.size:
        raise ConfigError(f"{name} holds {array.dtype} values; give plain real numbers.")
    return array.astype(np.float64)


def _finite(name: str, array: Array) -> Array:
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = " and ".join(f"{word} {i + 1}" for word, i in zip(("row", "column") if array.ndim == 2 else ("place",), bad[0]))
        raise ConfigError(f"{name} has {array[tuple(bad[0])]} in {where}; every entry must be a finite number.")
    if float(np.abs(array).max()) > MAX_SIZE:
        raise ConfigError(
            f"{name} has an entry of size {np.abs(array).max():.3g}; entries go up to {MAX_SIZE:.0e}, so scale them."
        )
    return array


def _shape(array: Array) -> str:
    return " x ".join(str(size) for size in array.shape) or "()"
