"""The server: files by name, no torch until it is needed, an address with a token, a port that is taken."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import UsageError
from glassformer.web.server import _first_part, listen, static_files


def test_everything_the_page_asks_for_is_there(client) -> None:
    files = static_files()
    assert {"index.html", "app.js", "app.css", "page.css", "uplot.js", "uplot.css"} <= set(files)
    for name, file in files.items():
        assert client.get(f"/static/{name}").status_code == 200
        text = file.read_text(encoding="utf-8")
        for wanted in re.findall(r'from "(/static/[\w.]+)"|(?:src|href)="(/static/[\w.]+)"', text):
            assert "".join(wanted).removeprefix("/static/") in files, (name, wanted)


def test_no_module_makes_markup_of_text_or_asks_elsewhere() -> None:
    for name, file in static_files().items():
        if file.parent.name == "static" and file.parent.parent.name == "web":
            text = file.read_text(encoding="utf-8")
            for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "https://"):
                assert word not in text, (name, word)
            assert re.findall(r"\sstyle=|\son\w+=\"", text) == [], name


def test_loading_the_server_loads_no_torch() -> None:
    program = "import sys, glassformer.web.server; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_study_or_run_is_opened_at_once(folder: Path) -> None:
    assert _first_part(folder) == ""
    assert _first_part(folder / "one") == "#/run/one"
    (folder / "demo").mkdir()
    (folder / "demo" / "plan.yaml").write_text("x: 1")
    assert _first_part(folder / "demo") == "#/study/demo"


def test_a_port_that_is_taken_is_a_sentence() -> None:
    taken = listen("127.0.0.1", 0)
    try:
        with refused(UsageError, "port-in-use"):
            listen("127.0.0.1", taken.getsockname()[1])
    finally:
        taken.close()


def test_small_answers_are_sent_at_once() -> None:
    """Without TCP_NODELAY the body of an answer waits for the client's delayed confirmation of its head: 40 ms a request."""

    async def set_on_a_connection() -> int:
        found = asyncio.get_running_loop().create_future()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = listen("127.0.0.1", 0)
        async with await asyncio.start_server(accept, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            writer.close()
            return int(await asyncio.wait_for(found, 10))

    assert asyncio.run(set_on_a_connection())


def test_the_command_prints_the_address_and_listens_here_only(folder: Path) -> None:
    command = [sys.executable, "-m", "glassformer", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ))
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{30,})", address)
        assert found
        with pytest.raises(urllib.error.HTTPError, match="401"):  # a client without cookies is sent to / and refused there
            urllib.request.urlopen(address, timeout=300)
        port = int(found.group(1))
        sockets = Path("/proc/net/tcp").read_text().splitlines() if Path("/proc/net/tcp").exists() else []
        listening = [line.split()[1] for line in sockets[1:] if line.split()[3] == "0A"]
        assert [place for place in listening if place.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"] or not sockets
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
