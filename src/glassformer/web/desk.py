"""What all routes of one server share: the folder, the table of runs, open curves, events, the worker, started processes."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from starlette.requests import Request

from glassformer.runs.curves import Curves
from glassformer.runs.directory import RunDirectory
from glassformer.runs.overview import RunTable
from glassformer.web.events import Hub
from glassformer.web.place import Place
from glassformer.web.processes import Processes
from glassformer.web.workshop import Workshop

MOST_CURVES = 16
"""Runs whose curves are kept in memory."""


@final
@dataclass
class Desk:
    """One folder that is shown."""

    place: Place
    table: RunTable
    processes: Processes
    hub: Hub = field(default_factory=Hub)
    workshop: Workshop = field(default_factory=Workshop)
    kept: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Answers that took long, by name, each with what it rests on."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    shown: threading.Event = field(default_factory=threading.Event)
    """Set once somebody has seen the list."""
    _curves: OrderedDict[Path, Curves] = field(default_factory=OrderedDict)

    @classmethod
    def of(cls, folder: Path) -> Desk:
        place = Place(folder)
        return cls(place, RunTable(place.root), Processes(place.root))

    def curves(self, run: RunDirectory) -> Curves:
        """The curves of a run as they stand now."""
        with self.lock:
            curves = self._curves.pop(run.root, None) or Curves(run.metrics_file)
            self._curves[run.root] = curves
            while len(self._curves) > MOST_CURVES:
                self._curves.popitem(last=False)
        curves.update()  # outside the lock: the first look at a long run takes seconds, which nobody else waits for
        return curves

    def overview(self) -> dict[str, Any]:
        """The table of runs; runs that links bring in from outside are not shown."""
        with self.lock:
            table = self.table.to_dict()
        kept, inside = [], dict[str, bool]()  # hundreds of runs lie in few folders: each is asked about once
        for row in table["runs"]:
            above, _, _ = row["folder"].rpartition("/")
            if above not in inside:
                inside[above] = row["folder"] == str(self.place.root) or self.place.holds(Path(above))
            if inside[above] and not os.path.islink(row["folder"]):
                kept.append(row)
        return {**table, "runs": kept}


def desk_of(request: Request) -> Desk:
    desk = request.app.state.desk
    assert isinstance(desk, Desk)
    return desk
