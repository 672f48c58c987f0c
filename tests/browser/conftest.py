"""A real browser, a real server of a folder of small trained runs. Skipped, with the reason, where there is no Chromium."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.web.processes import Processes

LONGEST = 400_000
"""Milliseconds to wait for what must come: a shared machine can be slow."""
TOKEN = "token-of-the-browser-tests"
PICTURES = os.environ.get("GLASSFORMER_PICTURES")
"""A folder: the journeys keep their screenshots there, for the docs."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Closed with its module: an open Playwright keeps an event loop running, and tests of asyncio need their own."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    playwright.expect.set_options(timeout=LONGEST)
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Server:
    """``glassformer serve`` as a process: can be killed and started again on the same port."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home, self.port = folder, home, 0
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "glassformer", "serve", str(self.folder), "--port", str(self.port)]
        env = {**os.environ, "GLASSFORMER_TOKEN": TOKEN}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), self.address
        self.port = int(self.address.split(":")[2].split("/")[0])

    def stop(self, *, kill: bool = False) -> None:
        assert self.process is not None
        self.process.kill() if kill else self.process.terminate()
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def at(self, place: str) -> str:
        return f"http://127.0.0.1:{self.port}/#/{place}"


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory, tiny_text: Path) -> Path:
    """Two trained runs of a small text: characters, and pairs of them."""
    from glassformer.experiment import train

    folder = tmp_path_factory.mktemp("gallery")
    values: dict[str, Any] = {
        "about": "A small model of a small text.",
        "data": {"path": str(tiny_text), "document": "line", "split": {"validation": 0.2}},
        "model": {"width": 16, "heads": 4, "layers": 2, "context": 48},
        "training": {"steps": 60, "batch_size": 8, "lr": 0.01, "device": "cpu", "precision": "float32", "log_every": 1},
        "evaluation": {"every": 20},
    }
    train(values, out=folder / "letters")
    train({**values, "tokenizer": {"kind": "bpe", "vocab": 300}}, out=folder / "pairs")
    return folder


@pytest.fixture
def people(folder: Path) -> list[str]:
    """Questions, and in the folder a run that was trained a little to answer such ones."""
    from glassformer.experiment import train

    changes = {"data.set": {"kind": "world", "people": 60, "seed": 0}, "tokenizer.vocab": 300, "model.width": 16}
    more = {"training.steps": 30, "training.batch_size": 8, "training.schedule": "constant", "evaluation.every": 30}
    run = train("world-scratch", set={**changes, **more}, out=folder / "people")
    items = run.data.part("questions").split("validation")
    return list(items.questions[:3])


@pytest.fixture
def folder(gallery: Path, tmp_path: Path) -> Path:
    """A copy that a journey may change."""
    return Path(shutil.copytree(gallery, tmp_path / "runs"))


@pytest.fixture(scope="session")
def standing(gallery: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all journeys that change nothing."""
    started = Server(gallery, tmp_path_factory.mktemp("home"))
    started.start()
    yield started
    started.stop()


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A journey that asks for the folder may change it, and gets a server of its own for its copy."""
    if "folder" not in request.fixturenames:
        yield request.getfixturevalue("standing")
        return
    folder = request.getfixturevalue("folder")
    started = Server(folder, tmp_path)
    started.start()
    yield started
    if started.process is not None and started.process.poll() is None:
        started.stop()
    for one in Processes(folder).list():  # what a journey that failed has left running
        if one["alive"]:
            os.kill(one["pid"], signal.SIGKILL)


@pytest.fixture
def open_page(chromium: Any, server: Server) -> Iterator[Callable[..., Any]]:
    """Opens the page as a person does: by the printed address. Anything the browser complains about fails the test."""
    contexts, complaints = [], list[str]()

    def opened(*, width: int = 1280, height: int = 900, **more: Any) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(LONGEST)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if "Content Security" in said.text else None)
        page.goto(server.address)
        page.get_by_role("heading", level=1).wait_for()
        return page

    yield opened
    for context in contexts:
        for page in context.pages:
            page.unroute_all(behavior="ignoreErrors")  # an answer that a failed test still holds would be waited for
        context.close()
    assert complaints == []


@pytest.fixture
def picture() -> Callable[..., None]:
    """Keeps a screenshot for the docs, when they are asked for."""

    def keep(page: Any, name: str, *, whole: bool = False) -> None:
        if PICTURES:
            Path(PICTURES).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=str(Path(PICTURES) / f"{name}.png"), full_page=whole)

    return keep
