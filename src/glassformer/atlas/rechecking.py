"""`atlas recheck`: the first seed of every cell again, with this version of the code, beside its record.

Equal values carry the cell's word over to this version. Where they differ, the cell needs fresh runs: the command is printed,
and the new records stay beside the old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TextIO

import numpy as np

from glassformer.atlas.cells import Cell, cells
from glassformer.atlas.protocol import BASELINE, Atlas
from glassformer.atlas.records import Records
from glassformer.atlas.running import Portion
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.study.running.executors.base import Executor


@dataclass(frozen=True)
class Rechecked:
    """``largest``: the largest difference of a document's loss between then and now; None where nothing came out."""

    cell: str
    word: str
    largest: float | None
    command: str

    @property
    def sentence(self) -> str:
        if self.largest is None:
            return f"{self.word} before; no run came out now. {self.command}"
        if self.largest == 0.0:
            return f"equal values, the word {self.word} stands."
        return f"values differ by up to {self.largest:.5f}, so {self.word} needs fresh runs: {self.command}"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "sentence": self.sentence}


def recheck(
    atlas: Atlas,
    records: Records,
    out: TextIO,
    executor: Callable[[Any], Executor],
    *,
    rows: Sequence[str] = (),
    minutes: float | None = None,
    watch: Watcher = SILENT,
) -> list[Rechecked]:
    """Runs one seed per cell that has runs (of ``rows`` alone, if given), and compares its values by document."""
    wanted = [cell for cell in cells(atlas, records) if cell.group is not None and (not rows or cell.row.name in rows)]
    fresh = Records()
    portion = Portion(atlas, fresh, out, executor, minutes=minutes, watch=watch, rates=records)
    jobs = [cell.group.runs[0].job for cell in wanted if cell.group is not None]
    places = dict.fromkeys((job.text, job.size, job.base) for job in jobs)
    runs = [records.select(row=BASELINE, text=text, size=size, base=base, area="trial")[:1] for text, size, base in places]
    portion.run_jobs([*(one.job for own in runs for one in own), *jobs])  # the baselines say whether other code is alike
    return [_compared(cell, fresh) for cell in wanted]


def _compared(cell: Cell, fresh: Records) -> Rechecked:
    assert cell.group is not None
    before = cell.group.runs[0]
    now = next((one for one in fresh.trials.values() if one.job == before.job), None)
    largest = None
    if now is not None and now.values is not None and before.values is not None and now.values.shape == before.values.shape:
        largest = float(np.abs(now.values - before.values).max())
    elif now is not None and now.problem == before.problem and now.values is before.values is None:
        largest = 0.0
    return Rechecked(f"{cell.row.name}, {cell.text}, {cell.size}", cell.word, largest, cell.command)
