"""A folder -> the local page: routes, the guard before them, and the server itself. Imports no torch until it is needed."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from glassformer.foundation.errors import GlassformerError, UsageError
from glassformer.runs.directory import RunDirectory
from glassformer.study.directory import StudyDirectory
from glassformer.web.app_state import AppState
from glassformer.web.replies import answered
from glassformer.web.routes import byhand, look, models, new_run, runs, studies
from glassformer.web.security import EVERYWHERE, Guard, allowed_hosts
from glassformer.web.served_folder import NotFound

HERE = Path(__file__).parent
UNSEEN = 60.0
"""Seconds after which torch is imported even if the page was not opened."""
AFTER_THE_LIST = 1.0
"""Seconds between the first list and the import of torch, for the browser's other first requests."""
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


def static_files() -> dict[str, Path]:
    """All static files by name: ours, the drawing code of looks, the common style, uPlot from its package."""
    files = {file.name: file for file in sorted((HERE / "static").iterdir()) if file.suffix in TYPES}
    files |= {f"lens/{file.name}": file for file in sorted((HERE.parent / "lens" / "static").iterdir())}
    files["page.css"] = HERE.parent / "figures" / "static" / "page.css"
    spec = find_spec("uplot")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    for place in places:
        files["uplot.js"] = Path(place) / "static" / "uPlot.iife.js"
        files["uplot.css"] = Path(place) / "static" / "uPlot.min.css"
    return files


def make_app(folder: Path, *, token: str, host: str, port: int, warm: bool = True) -> Starlette:
    """The whole application for one folder."""
    state, files = AppState.of(folder), static_files()

    async def index(request: Request) -> Response:
        return FileResponse(files["index.html"], media_type="text/html")

    async def static(request: Request) -> Response:
        file = files.get(request.path_params["name"])
        if file is None:
            raise NotFound("There is no such file.")
        return FileResponse(file, media_type=TYPES[file.suffix], headers={"Cache-Control": "no-cache"})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        state.processes.take_turns()  # of what waited when another server ended
        if warm:
            threading.Thread(target=_make_ready, args=(state,), daemon=True).start()
        yield
        state.worker.close()

    own = [Route("/", index, methods=["GET"]), Route("/static/{name:path}", static, methods=["GET"])]
    rooms: list[Any] = [runs, studies, models, look, byhand, new_run]
    everywhere = port if host in EVERYWHERE else None
    hosts, cookie = allowed_hosts(host, port), f"glassformer_{port}"
    guard = Middleware(Guard, token=token, hosts=hosts, cookie=cookie, any_address=everywhere)
    routes = [*own, *(route for room in rooms for route in room.ROUTES)]
    app = Starlette(
        routes=[Route(route.path, answered(route.endpoint), methods=list(route.methods or ())) for route in routes],
        middleware=[guard],
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.state = state
    return app


def serve(folder: Path, *, port: int, host: str = "127.0.0.1", on_ready: Callable[[str], None]) -> None:
    """Serves until stopped. ``on_ready`` is called with the address once the server listens."""
    import uvicorn

    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; give a folder for runs.")
    listening = listen(host, port)
    port = listening.getsockname()[1]
    token = os.environ.get("GLASSFORMER_TOKEN") or secrets.token_urlsafe(24)
    app = make_app(folder, token=token, host=host, port=port)
    shown = "127.0.0.1" if host in EVERYWHERE else host
    settings = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, server_header=False, lifespan="on"
    )
    on_ready(f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/?token={token}{_first_part(folder)}")
    uvicorn.Server(settings).run(sockets=[listening])


def _make_ready(state: AppState) -> None:
    """Reads the list of runs first; imports torch after it was shown, since the import blocks every response."""
    with suppress(OSError, GlassformerError):
        state.overview()
    state.shown.wait(UNSEEN)
    time.sleep(AFTER_THE_LIST)
    state.worker.warm()


def _first_part(folder: Path) -> str:
    """The part of the page to open: the study or the run, if the folder is one."""
    kinds = {"study": StudyDirectory(folder).exists(), "run": RunDirectory(folder).exists()}
    return next((f"#/{kind}/{quote(folder.resolve().name)}" for kind, holds in kinds.items() if holds), "")


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; raises if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio turns Nagle's algorithm off; otherwise the second part of an answer waits 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise UsageError(
            f"--port {port} cannot be used ({error.strerror}); choose another, or 0 for any free one.", reason="port-in-use"
        ) from None
    listening.listen(512)
    return listening
