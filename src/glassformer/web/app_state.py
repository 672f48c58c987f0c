"""The shared state of all routes (folder, table of runs, curves, events, worker, processes), and what makes a route."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.runs.directory import RunDirectory
from glassformer.runs.live_curves import Curves
from glassformer.runs.overview import RunTable
from glassformer.web.events import Hub
from glassformer.web.model_worker import ModelWorker
from glassformer.web.processes import Processes
from glassformer.web.replies import body, reply
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


Answer = Callable[[AppState, dict[str, Any]], Any]
"""Makes the JSON document that answers a request, from the parameters of its address or of its body."""


def json_route(method: str, path: str, answer: Answer, *, worker: bool = False) -> Route:
    """A route that is answered in a thread; ``worker``: in the thread of the models, one request after the other."""

    async def handler(request: Request) -> Response:
        state = state_of(request)
        values = dict(request.query_params) if method == "GET" else await body(request)
        job = partial(answer, state, values)
        return reply(await (state.worker.do(job) if worker else run_in_threadpool(job)))

    return Route(path, handler, methods=[method])
