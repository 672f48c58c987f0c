"""The page under load on this machine: 500 runs, a curve of a million points, 144 maps, 200 open event streams.

    python bench/page.py [--seconds N] [--only list,curve,maps,streams]

Prints one JSON document. What a browser waits for is measured in Chromium where there is one, and at the server over HTTP.
Times are of the clock; ``server_cpu_s`` is what the server itself needed, whatever else the machine does meanwhile.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import selectors
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.recipe import load_recipe
from glassformer.runs.directory import RunDirectory

TOKEN = "bench"


class Server:
    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "glassformer", "serve", str(folder), "--port", "0", "--quiet"]
        env = {**os.environ, "GLASSFORMER_TOKEN": TOKEN}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        self.port = int(self.address.split(":")[2].split("/")[0])

    def get(self, path: str) -> tuple[float, bytes]:
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("GET", path, headers={"X-Glassformer-Token": TOKEN})
        content = connection.getresponse().read()
        return time.perf_counter() - began, content

    def stream(self, path: str) -> socket.socket:
        opened = socket.create_connection(("127.0.0.1", self.port))
        words = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nX-Glassformer-Token: {TOKEN}\r\n\r\n"
        opened.sendall(words.encode())
        return opened

    @property
    def cpu(self) -> float:
        """Seconds of the processor that the server has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def browsing() -> Iterator[Any]:
    """A tab of Chromium; None where there is no browser."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        yield None
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.set_default_timeout(300_000)
        yield tab
        browser.close()


def many_runs(folder: Path, count: int = 500) -> dict[str, Any]:
    recipe = load_recipe("docstrings-char").to_dict()
    line = json.dumps({"step": 1000, "loss": 1.5}) + "\n"
    for number in range(count):
        run = RunDirectory(folder / f"run-{number:03}")
        run.write_recipe({**recipe, "seed": number})
        run.write_environment({"threads": 1})
        run.write_state("finished", step=1000, steps=1000)
        run.metrics_file.write_text(line * 1000 + '{"step": 1000, "validation_loss": 1.5}\n')
    found: dict[str, Any] = {"runs": count}
    with served(folder) as server:
        before = server.cpu
        found["first_list_s"] = server.get("/api/folder")[0]
        found["first_list_server_cpu_s"] = server.cpu - before
        found["next_list_s"] = server.get("/api/folder")[0]
    with browsing() as tab, served(folder) as server:
        if tab is not None:
            every = f"() => document.querySelectorAll('tbody tr').length >= {count} ? performance.now() / 1000 : false"
            for name in ("first_paint_s", "paint_again_s"):  # the page's own clock, from the address to the last row
                tab.goto(server.address if name == "first_paint_s" else server.address.partition("?")[0])
                found[name] = tab.wait_for_function(every).json_value()
    return found


PAN = """async (name) => {
    const box = document.querySelector("[data-drawn]"), before = box.dataset.drawn, began = performance.now();
    document.querySelector(`button[aria-label=${name}]`).click();
    while (box.dataset.drawn === before) await new Promise(requestAnimationFrame);
    return performance.now() - began;
}"""
"""Presses a button of the picture and waits until it is drawn anew."""


def long_curve(folder: Path, count: int = 1_000_000) -> dict[str, Any]:
    run = RunDirectory(folder / "long")
    run.write_recipe({**load_recipe("docstrings-char").to_dict()})
    run.write_state("finished", step=count, steps=count)
    with run.metrics_file.open("w") as stream:
        stream.writelines(f'{{"step": {step}, "loss": {3 + step % 97 / 100}, "lr": 0.001}}\n' for step in range(count))
    found: dict[str, Any] = {"points": count}
    with browsing() as tab, served(folder) as server:
        first, content = server.get("/api/run/curves?run=long&key=loss")
        found |= {"sent": len(json.loads(content)["curves"]["loss"]["step"]), "first_s": first}
        before = server.cpu
        pans = [
            server.get(f"/api/run/curves?run=long&key=loss&low={low}&high={low + 100_000}")[0]
            for low in range(0, 900_000, 90_000)
        ]
        found |= {"pan_median_s": statistics.median(pans), "pan_worst_s": max(pans)}
        found["pan_server_cpu_s"] = (server.cpu - before) / len(pans)
        if tab is not None:
            tab.goto(server.address)
            tab.goto(f"http://127.0.0.1:{server.port}/#/run/long")
            tab.wait_for_selector("[data-drawn]")
            tab.wait_for_timeout(2000)
            drawn = [tab.evaluate(PAN, name) for name in ["Closer", "Closer", *["Later", "Earlier"] * 6]]
            found |= {"redraw_median_ms": statistics.median(drawn[2:]), "redraw_worst_ms": max(drawn[2:])}
    return found


LOOK = """async () => {
    const home = document.querySelector(".look"), before = home.dataset.drawn, began = performance.now();
    [...document.querySelectorAll("button")].find((one) => one.textContent === "Look").click();
    while (home.dataset.drawn === before) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    const asked = performance.getEntriesByType("resource").filter((one) => one.name.endsWith("/api/look")).at(-1);
    return [performance.now() - began, performance.now() - asked.responseEnd];
}"""


def many_maps(folder: Path, tokens: int = 256) -> dict[str, Any]:
    """A model of 12 layers of 12 heads looks at a text of 256 tokens in the tab."""
    _untrained(RunDirectory(folder / "large"), tokens)
    found: dict[str, Any] = {"maps": 144, "tokens": tokens}
    with browsing() as tab, served(folder) as server:
        if tab is None:
            return found
        tab.goto(server.address)
        tab.goto(f"http://127.0.0.1:{server.port}/#/look/large?text={'12 men and 84 hens. ' * 12}0123456789abcdef")
        tab.wait_for_selector("[data-ready=yes]")
        tab.wait_for_selector(".heads table")
        times = []
        for _ in range(5):
            before = server.cpu
            times.append((*tab.evaluate(LOOK), server.cpu - before))
            tab.wait_for_timeout(3000)
        whole, drawn, cpu = zip(*times)
        found |= {"look_median_ms": statistics.median(whole), "fetched_and_drawn_median_ms": statistics.median(drawn)}
        found |= {"fetched_and_drawn_best_ms": min(drawn), "server_cpu_s": statistics.median(cpu)}
    return found


def _untrained(run: RunDirectory, tokens: int) -> None:
    """The files of a run of 12 layers of 12 heads that was not trained: what is drawn is as large."""
    from glassformer.data.tokenizers.byte import ByteTokenizer
    from glassformer.model.transformer import build_model
    from glassformer.runs.checkpoint import Checkpoint, save_checkpoint
    from glassformer.runs.weights import saved_tensors

    change = {"model.layers": 12, "model.heads": 12, "model.width": 144, "model.context": tokens, "tokenizer": "byte"}
    recipe = load_recipe("docstrings-char", change)
    tokenizer = ByteTokenizer()
    tokenizer.save(run.tokenizer_file)
    run.write_environment({"threads": 1, "outputs": None})
    run.write_recipe(recipe.to_dict())
    run.write_state("finished", step=1, steps=1)
    save_checkpoint(run, Checkpoint(1, saved_tensors(build_model(recipe.model, tokenizer.size, seed=1))))


@contextmanager
def readers(server: Server, count: int) -> Iterator[Callable[[], int]]:
    """Plain clients that read what comes: half watch the folder, half the run that trains. Gives the bytes they got."""
    paths = ["/api/folder/events", "/api/run/events?run=live"]
    waiting, going, got = selectors.DefaultSelector(), threading.Event(), [0]
    opened = [server.stream(paths[number % 2]) for number in range(count)]
    for one in opened:
        waiting.register(one, selectors.EVENT_READ)

    def read() -> None:
        while not going.is_set():
            for key, _ in waiting.select(0.2):
                got[0] += len(key.fileobj.recv(1 << 16))  # type: ignore[union-attr]

    thread = threading.Thread(target=read)
    thread.start()
    yield lambda: got[0]
    going.set()
    thread.join()
    for one in opened:
        one.close()


def streams(folder: Path, count: int, seconds: float) -> dict[str, Any]:
    """Steps a second of one training, alone and watched in turns; ``seconds`` watched in all, in three pieces."""
    words = ["--set", "training.steps=1000000", "--set", "training.log_every=1", "--set", "model.layers=2", "--quiet"]
    command = [sys.executable, "-m", "glassformer", "train", "docstrings-char", *words, "--out", str(folder / "live")]
    training = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics = RunDirectory(folder / "live").metrics_file

    def speed(piece: float) -> float:
        lines, began = sum(1 for _ in metrics.open()), time.perf_counter()
        time.sleep(piece)
        return (sum(1 for _ in metrics.open()) - lines) / (time.perf_counter() - began)

    try:
        while not metrics.exists() or metrics.stat().st_size < 10_000:
            assert training.poll() is None
            time.sleep(0.1)
        alone, watched, shares = [speed(seconds / 3)], [], []
        for _ in range(3):
            with served(folder) as server:
                server.get("/api/folder")
                time.sleep(6)  # torch is imported after the first list
                with readers(server, count) as got:
                    time.sleep(1)
                    before = server.cpu
                    watched.append(speed(seconds / 3))
                    shares.append((server.cpu - before) / (seconds / 3))
                    received = got()
            alone.append(speed(seconds / 3))
    finally:
        training.send_signal(signal.SIGKILL)
        training.wait()
    ratios = [one / ((before + after) / 2) for one, before, after in zip(watched, alone, alone[1:])]
    return {
        "streams": count,
        "seconds_watched": seconds,
        "bytes_in_the_last_piece": received,
        "steps_per_second_alone": alone,
        "steps_per_second_watched": watched,
        "ratio": statistics.median(ratios),
        "server_cpu_share": statistics.median(shares),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60, help="with 200 open streams")
    parser.add_argument("--only", default="list,curve,maps,streams")
    given = parser.parse_args()
    parts: dict[str, Callable[[Path], dict[str, Any]]] = {
        "list": many_runs,
        "curve": long_curve,
        "maps": many_maps,
        "streams": lambda folder: streams(folder, 200, given.seconds),
    }
    document: dict[str, Any] = {"cores": os.cpu_count()}
    for name in given.only.split(","):
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / name).mkdir()
            load = os.getloadavg()[0]
            document[name] = {"load_before": load, **parts[name](Path(place) / name), "load_after": os.getloadavg()[0]}
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
