"""`atlas try my.py`: a variant of one's own -> conformance, laws, and a provisional cell on built-in text, on a laptop.

The row's YAML lies beside the file (``my.yaml``). The model is a miniature of XS and the text the built-in one, so the word is
provisional: it is never added to the records.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.atlas.cells import Cell
from glassformer.atlas.cells import cells as cells_of
from glassformer.atlas.protocol import Atlas, Row
from glassformer.atlas.records import Records
from glassformer.atlas.running import Portion
from glassformer.checks.conformance import SLOTS, cases
from glassformer.foundation.errors import CheckFailed, UsageError
from glassformer.foundation.plugins import module_of
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.registry import variants_of
from glassformer.study.running.executors.base import Executor

TEXT, SIZE = "standard-library", "XS"
MINIATURE = {
    "model.width": 64,
    "model.layers": 2,
    "model.heads": 2,
    "model.context": 64,
    "training.batch_size": 16,
    "data.split.validation": 0.04,
}
STEPS = 150


@dataclass(frozen=True)
class Tried:
    """What `atlas try` found: the row, its provisional cell, and the conformance cases that held."""

    row: Row
    cell: Cell
    held: int
    runs: int
    seconds: float


def row_file(plugin: Path) -> Path:
    """The YAML beside a variant's file."""
    file = plugin.with_suffix(".yaml")
    if not file.is_file():
        raise UsageError(
            f"{file} does not exist: a row is a variant's file and a YAML of the same name with title, slot, family, year, "
            "source, kind, claim and set (docs/atlas.md has an example).",
            reason="no-row-file",
        )
    return file


def conformance(plugin: Path) -> tuple[int, list[str]]:
    """How many cases of the conformance suite the model parts of a loaded plugin meet, and the sentences of those it fails."""
    found = [name.split("=", 1) for name in variants_of(module_of(plugin))]
    held, failed = 0, []
    for case in [case for slot, kind in found if slot in SLOTS for case in cases(slot, kind)]:
        try:
            case.run()
            held += 1
        except CheckFailed as error:
            failed.append(str(error))
    return held, failed


def try_row(
    plugin: Path,
    executor: Callable[[Path], Executor],
    *,
    seeds: int = 6,
    steps: int = STEPS,
    minutes: float | None = None,
    watch: Watcher = SILENT,
) -> Tried:
    """Checks and trains the row of a plugin (already loaded) against the miniature's baseline, paired by seed."""
    file = row_file(plugin)
    atlas = Atlas.load(MINIATURE, steps, more=[file])
    if not atlas.row(file.stem).set:
        raise UsageError(
            f"{file} has no `set`, so the row is the baseline itself; name what it changes.", reason="row-changes-nothing"
        )
    held, failed = conformance(plugin)
    if failed:
        raise CheckFailed(
            f"{plugin.name} fails {len(failed)} cases of the conformance suite: {failed[0]}", reason="conformance"
        )
    small = atlas.protocol.sizes[SIZE].model_copy(update={"design": "paired"})
    protocol = atlas.protocol.model_copy(
        update={"sizes": {**atlas.protocol.sizes, SIZE: small}, "looks": [seeds], "tuning_text": TEXT}
    )
    atlas = replace(atlas, protocol=protocol)
    row, records = atlas.row(file.stem), Records()
    portion = Portion(
        atlas, records, io.StringIO(), executor, minutes=minutes, plugins=[str(plugin.resolve())], watch=watch, base_rate=1.0
    )
    portion.run([(row.name, TEXT, SIZE, "modern")], seeds)
    runs = portion.done
    portion.measure_speeds([row.name], SIZE)
    cell = next(one for one in cells_of(atlas, records) if (one.row.name, one.text, one.size) == (row.name, TEXT, SIZE))
    return Tried(row, cell, held, runs, portion.seconds)
