"""``glassformer serve``: the page of a folder, on this machine; prints its address with the token. Imports no torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from glassformer.cli.console import print_result, say
from glassformer.cli.options import Json, Plugin
from glassformer.foundation.errors import UsageError


def command(
    folder: Annotated[Path, Argument(metavar="[FOLDER]", help="The folder whose runs and studies are shown.")] = Path("."),
    port: Annotated[int, Option(metavar="N", min=0, max=65535, help="Port to listen on; 0 takes any free one.")] = 8765,
    host: Annotated[str, Option(metavar="ADDRESS", help="Any but 127.0.0.1 lets other machines connect.")] = "127.0.0.1",
    api: Annotated[bool, Option("--api", help="Serve no page, but POST /predict of a classifier: FOLDER is its run.")] = False,
    precision: Annotated[float | None, Option(metavar="P", help="With --api: withhold unsure answers as in `predict`.")] = None,
    coverage: Annotated[float | None, Option(metavar="P", help="With --api: as in `predict`.")] = None,
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Open a local web page for runs and studies. Watch them, look inside, generate, ask, start new runs.

    The address holds a token: whoever has it can start jobs on this machine. Ctrl-C stops the page; training goes on.
    """
    import socket

    from glassformer.foundation.plugins import load_plugins
    from glassformer.web.security import EVERYWHERE
    from glassformer.web.server import serve

    def show(address: str) -> None:
        print_result({"address": address, "folder": str(folder)}, address, json=json)
        if host not in ("127.0.0.1", "localhost", "::1"):
            called = f"its address or {socket.gethostname()}" if host in EVERYWHERE else host
            say(f"Other machines can reach this page at {called}; the token crosses the network unencrypted.")
        say("Ctrl-C stops the page; training started from it continues.")
        sys.stdout.flush()

    def show_api(address: str, token: str) -> None:
        document = {"address": address, "token": token, "run": str(folder)}
        print_result(document, f"{address}\nAuthorization: Bearer {token}", json=json)
        say("The token can only predict. GLASSFORMER_API_TOKEN sets it; /openapi.json describes the requests.")
        sys.stdout.flush()

    if not api and (precision is not None or coverage is not None):
        raise UsageError("--precision and --coverage are for --api; drop them.", reason="api-only")
    load_plugins(plugin or ())  # runs that were trained with them can then be opened
    if api:
        from glassformer.web.api import serve_api

        serve_api(folder, port=port, host=host, on_ready=show_api, precision=precision, coverage=coverage, say=say)
        return
    serve(folder, port=port, host=host, on_ready=show)
