"""The shared state of all routes: the folder, the table of runs, open curves, events, the worker, started processes."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from starlette.requests import Request

from glassformer.runs.directory import RunDirectory
from glassformer.runs.live_curves import Curves
from glassformer.runs.overview import RunTable
from glassformer.web.events import Hub
from glassformer.web.model_worker import ModelWorker
from glassformer.web.processes import Processes
from glassformer.web.served_folder import ServedFolder

MOST_CURVES = 16
"""Runs whose curves are cached in memory."""


@final
@dataclass
class AppState:
    """One folder that is shown."""

    folder: ServedFolder
    table: RunTable
    processes: Processes
    hub: Hub = field(default_factory=Hub)
    worker: ModelWorker = field(default_factory=ModelWorker)
    cache: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Slow answers by name, each with a signature of its inputs."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    shown: threading.Event = field(default_factory=threading.Event)
    """Set once the list was requested."""
    _curves: OrderedDict[Path, Curves] = field(default_factory=OrderedDict)

    @classmethod
    def of(cls, folder: Path) -> AppState:
        served = ServedFolder(folder)
        return cls(served, RunTable(served.root), Processes(served.root))

    def curves(self, run: RunDirectory) -> Curves:
        """The current curves of a run."""
        with self.lock:
            curves = self._curves.pop(run.root, None) or Curves(run.metrics_file)
            self._curves[run.root] = curves
            while len(self._curves) > MOST_CURVES:
                self._curves.popitem(last=False)
        curves.update()  # outside the lock: reading a long run for the first time takes seconds
        return curves

    def overview(self) -> dict[str, Any]:
        """The table of runs, without runs that are linked from outside the folder."""
        with self.lock:
            table = self.table.to_dict()
        shown, inside = [], dict[str, bool]()  # hundreds of runs are in few folders: each is tested once
        for row in table["runs"]:
            above, _, _ = row["folder"].rpartition("/")
            if above not in inside:
                inside[above] = row["folder"] == str(self.folder.root) or self.folder.holds(Path(above))
            if inside[above] and not os.path.islink(row["folder"]):
                shown.append(row)
        return {**table, "runs": shown}


def state_of(request: Request) -> AppState:
    state = request.app.state.state
    assert isinstance(state, AppState)
    return state
