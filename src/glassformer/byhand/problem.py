"""Text, lists, arrays and files -> finite numbers -> a checked problem: keys, values, a goal, a bound.

``"1,0;0,1"`` is two rows; numbers may be fractions (``1/3``). A .npy file is read without pickle. Keys are numbered from 1, as
on paper. Refuses what has no answer; solves nothing.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.foundation.errors import ConfigError, DataError, UnknownName

Array = NDArray[np.float64]

MAX_ROWS, MAX_COLUMNS, MAX_BYTES = 1000, 128, 16 << 20  # paper size, and far beyond
MAX_SIZE = 1e9  # larger entries leave float64 no digits for differences of scores
GOALS = ("select", "identity", "average", "weights")
WORKED_KEYS = ((0.47, 0.65, 0.60), (0.64, 0.50, -0.59), (-0.03, -0.48, -0.88), (0.43, -0.83, 0.35))
"""Keys of a published exercise; least squares on them gives the published queries to every printed digit."""


@dataclass(frozen=True)
class Goal:
    """What the weights shall be: one row per query (``identity`` has n of them, the others one)."""

    text: str
    kind: str
    rows: Array


@dataclass(frozen=True)
class Problem:
    """softmax(scale * q K^T) V with |q| <= bound. ``logits``: what least squares aims at (made up when None)."""

    keys: Array
    goal: Goal
    bound: float
    scale: float
    values: Array | None = None
    logits: Array | None = None

    def to_dict(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "goal": self.goal.text,
            "keys": self.keys.tolist(),
            "bound": self.bound,
            "scale": self.scale,
        }
        if self.values is not None:
            document["values"] = self.values.tolist()
        return document


def make_problem(
    keys: Any, goal: Any, *, values: Any = None, bound: Any = 10.0, scale: Any = 1.0, logits: Any = None
) -> Problem:
    """A problem from whatever the user has: text, lists, arrays. ``keys="worked"`` are the keys of the worked case."""
    matrix = worked_keys() if isinstance(keys, str) and keys.strip() == "worked" else as_matrix("keys", keys)
    n, d = matrix.shape
    parsed = parse_goal(goal, n)
    rows = None if values is None else as_matrix("values", values)
    if rows is not None and len(rows) != n:
        raise ConfigError(f"values has {len(rows)} rows for {n} keys; every key needs one value.", reason="values-per-key")
    targets = None if logits is None else as_vector("logits", logits)
    if targets is not None and (len(targets) != n or len(parsed.rows) > 1):
        raise ConfigError(
            f"logits needs one number for each of the {n} keys and a goal with one query; it has {len(targets)}.",
            reason="logits-per-key",
        )
    return Problem(matrix, parsed, as_length("bound", bound), as_scale(scale, d), rows, targets)


def worked_keys() -> Array:
    return np.array(WORKED_KEYS)


def as_length(name: str, value: Any) -> float:
    """A length that leaves something to choose."""
    length = as_number(name, value)
    if not 0 < length <= 1e9:
        raise ConfigError(
            f"{name}={length:g} must be a length above 0 and at most 1e9: only one vector has length 0.",
            reason="bad-length",
        )
    return length


def as_scale(value: Any, d: int) -> float:
    """The factor on the scores: a number above 0, or ``1/sqrt(d)``."""
    if isinstance(value, str) and re.fullmatch(r"1\s*/\s*sqrt\(?d\)?", value.strip()):
        return 1.0 / math.sqrt(d)
    scale = as_number("scale", value)
    if not 0 < scale <= 1e6:
        raise ConfigError(
            f"scale={scale:g} must be above 0: 1 for attention as on paper, 1/sqrt(d) for attention as in models.",
            reason="bad-scale",
        )
    return scale


def parse_goal(goal: Any, n: int) -> Goal:
    """``select 1``, ``identity``, ``average 1,2`` (or ``average all``), ``weights .5,.5,0``; or the weights themselves."""
    if isinstance(goal, Goal):
        return goal
    if not isinstance(goal, str):
        return _weights_goal(as_vector("weights", goal), n)
    kind, _, rest = goal.strip().partition(" ")
    kind, rest = kind.lower(), rest.strip()
    if kind not in GOALS:
        raise UnknownName("goal", kind, GOALS)
    if kind == "weights":
        if not rest:
            raise ConfigError("goal 'weights' needs the weights, for example: weights .5,.25,.25", reason="no-weights")
        return _weights_goal(as_vector("weights", rest), n)
    if kind == "identity":
        if rest:
            raise ConfigError(
                f"goal 'identity' selects every key in turn and takes no argument; drop {rest!r}.",
                reason="identity-with-more",
            )
        return Goal("identity", kind, np.eye(n))
    members = list(range(n)) if kind == "average" and rest.lower() == "all" else _members(kind, rest, n)
    row = np.zeros(n)
    row[members] = 1.0 / len(members)
    return Goal(f"{kind} {','.join(str(i + 1) for i in members)}", kind, row[None])


def key_number(name: str, value: Any, n: int) -> int:
    """A key's number on paper (1 to n) -> its place (0 to n-1)."""
    number = as_number(name, value)
    if number != int(number) or not 1 <= number <= n:
        raise ConfigError(f"{name}={number:g}: keys are numbered from 1 to {n}.", reason="no-such-key")
    return int(number) - 1


def _members(kind: str, text: str, n: int) -> list[int]:
    words = [word for word in re.split(r"[,\s]+", text.strip("{} ")) if word]
    if not words:
        raise ConfigError(f"goal {kind!r} names no key; write for example '{kind} 1'.", reason="no-key-named")
    if kind == "select" and len(words) > 1:
        raise ConfigError(
            f"goal 'select' takes one key, not {len(words)}; to mix several use 'average {','.join(words)}'.",
            reason="select-several",
        )
    members = [key_number(kind, word, n) for word in words]
    if len(set(members)) < len(members):
        raise ConfigError(f"goal '{kind} {text}' names a key twice; for unequal weights use 'weights ...'.", reason="key-twice")
    return sorted(members)


def _weights_goal(weights: Array, n: int) -> Goal:
    if len(weights) != n:
        raise ConfigError(
            f"weights has {len(weights)} numbers for {n} keys; give one weight per key, 0 for keys to ignore.",
            reason="weights-per-key",
        )
    if float(weights.min()) < 0:
        raise ConfigError(f"weights has {weights.min():g}; softmax weights are never negative.", reason="negative-weight")
    total = float(weights.sum())
    if abs(total - 1) > 1e-6:
        raise ConfigError(f"weights add up to {total:g}, not 1; divide each by {total:g}.", reason="weights-sum")
    return Goal(f"weights {','.join(f'{w:g}' for w in weights)}", "weights", (weights / total)[None])


def as_number(name: str, value: Any) -> float:
    """One finite number: 0.5, ".5", "1/3"."""
    if isinstance(value, str):
        value = _number_from_text(name, value)
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise ConfigError(f"{name}={value!r} is not a number.", reason="not-a-number")
    if not np.isfinite(float(value)):
        raise ConfigError(f"{name}={value!r} is not a finite number; give a finite one.", reason="not-finite")
    return float(value)


def as_matrix(name: str, value: Any, *, folder: Path | None = None) -> Array:
    """Rows of equal length from text, nested lists, an array or the name of a .npy or .csv file."""
    if isinstance(value, str):
        value = read_numbers(name, value, folder) if is_file_name(value) else _rows_from_text(name, value)
    elif isinstance(value, Path):
        value = read_numbers(name, str(value), folder)
    array = _array(name, value)
    if array.ndim != 2:
        raise ConfigError(
            f"{name} has {array.ndim} dimension(s); give rows of numbers, for example '1,0;0,1'.", reason="not-two-dimensional"
        )
    if 0 in array.shape:
        raise ConfigError(f"{name} is empty (shape {_shape(array)}); give at least one row with one number.", reason="empty")
    if array.shape[0] > MAX_ROWS or array.shape[1] > MAX_COLUMNS:
        raise ConfigError(
            f"{name} has shape {_shape(array)}; the limit is {MAX_ROWS} rows of {MAX_COLUMNS} numbers.",
            reason="too-large",
        )
    return _finite(name, array)


def as_vector(name: str, value: Any, *, folder: Path | None = None) -> Array:
    """One row of numbers, from the same sources as a matrix."""
    if isinstance(value, str | Path):
        rows = as_matrix(name, value, folder=folder)
        if len(rows) != 1 and rows.shape[1] != 1:
            raise ConfigError(
                f"{name} has shape {_shape(rows)}; give one row of numbers, for example '1,0,2'.", reason="not-one-row"
            )
        return rows.reshape(-1)
    array = _array(name, value)
    if array.ndim != 1 or array.size == 0:
        raise ConfigError(f"{name} has shape {_shape(array)}; give one row of at least one number.", reason="not-one-row")
    return _finite(name, array)


def read_numbers(name: str, file: str, folder: Path | None = None) -> Any:
    """The content of a .npy or .csv file; a relative name counts from ``folder``."""
    path = (folder or Path()) / file
    if not path.is_file():
        raise DataError(f"the file for {name} does not exist.", file=path, reason="missing-file")
    if path.stat().st_size > MAX_BYTES:
        raise DataError(f"larger than {MAX_BYTES >> 20} MiB; give a smaller problem.", file=path, reason="file-too-large")
    return _read_npy(path) if path.suffix.lower() == ".npy" else _read_csv(path)


def _read_npy(path: Path) -> Array:
    try:
        # mapped: no pickle is ever read this way, and a header that lies about its size allocates nothing
        return np.array(np.lib.format.open_memmap(path, mode="r"))
    except (ValueError, OSError, EOFError, MemoryError) as error:
        raise DataError(f"not a .npy file of plain numbers ({str(error).rstrip('.')}).", file=path, reason="not-npy") from error


def _read_csv(path: Path) -> list[list[float]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text ({error.reason} at byte {error.start}).", file=path, reason="not-utf8") from error
    rows: list[list[float]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            row = [_number_from_text("the value", cell) for cell in _cells(line)]
        except ConfigError as error:
            raise DataError(str(error), file=path, line=number, reason=error.reason) from None
        if rows and len(row) != len(rows[0]):
            raise DataError(
                f"{len(row)} numbers, but the first row has {len(rows[0])}.", file=path, line=number, reason="ragged-rows"
            )
        rows.append(row)
    if not rows:
        raise DataError("it contains no row of numbers.", file=path, reason="empty")
    return rows


def _rows_from_text(name: str, text: str) -> list[list[float]]:
    rows = [[_number_from_text(name, cell) for cell in _cells(row)] for row in re.split(r"[;\n]", text) if row.strip()]
    if len({len(row) for row in rows}) > 1:
        raise ConfigError(
            f"{name}: rows have {', '.join(str(len(row)) for row in rows)} numbers; all rows need the same count.",
            reason="ragged-rows",
        )
    return rows


def _cells(line: str) -> list[str]:
    return [cell for cell in re.split(r"[,\s]+", line.strip(" \t\r,[]()")) if cell]


def _number_from_text(name: str, text: str) -> float:
    above, slash, below = text.partition("/")
    try:
        return float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        raise ConfigError(
            f"{name}: {text!r} is not a number; write numbers like 0.5, -2 or 1/3.", reason="not-a-number"
        ) from None


def is_file_name(text: str) -> bool:
    """Whether a text is the name of a file of numbers."""
    return text.strip().lower().endswith((".npy", ".csv"))


def _array(name: str, value: Any) -> Array:
    try:
        array = np.asarray(value)
    except ValueError:
        raise ConfigError(
            f"{name}: the rows have different lengths; all rows need the same count of numbers.", reason="ragged-rows"
        ) from None
    if array.dtype.kind not in "iuf" and array.size:
        raise ConfigError(f"{name} holds {array.dtype} values; give plain real numbers.", reason="not-real")
    return array.astype(np.float64)


def _finite(name: str, array: Array) -> Array:
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = " and ".join(f"{word} {i + 1}" for word, i in zip(("row", "column") if array.ndim == 2 else ("place",), bad[0]))
        raise ConfigError(
            f"{name} has {array[tuple(bad[0])]} in {where}; every entry must be a finite number.", reason="not-finite"
        )
    if float(np.abs(array).max()) > MAX_SIZE:
        raise ConfigError(
            f"{name} has an entry of size {np.abs(array).max():.3g}; entries go up to {MAX_SIZE:.0e}, so scale them.",
            reason="entry-too-large",
        )
    return array


def _shape(array: Array) -> str:
    return " x ".join(str(size) for size in array.shape) or "()"
