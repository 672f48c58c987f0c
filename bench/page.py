"""The page under load on this machine: 500 runs, a curve of a million points, 144 maps, 200 open event streams.

    python bench/page.py [--steps N]

Prints one JSON document. Needs no browser: what a browser waits for is measured at the server, over HTTP.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
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
        self.port = int(self.process.stdout.readline().split(":")[2].split("/")[0])

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

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


def many_runs(folder: Path, count: int = 500) -> dict[str, Any]:
    recipe = load_recipe("docstrings-char").plain()
    line = json.dumps({"step": 1000, "loss": 1.5}) + "\n"
    for number in range(count):
        run = RunDirectory(folder / f"run-{number:03}")
        run.write_recipe({**recipe, "seed": number})
        run.write_environment({"threads": 1})
        run.write_state("finished", step=1000, steps=1000)
        run.metrics_file.write_text(line * 1000 + '{"step": 1000, "validation_loss": 1.5}\n')
    server = Server(folder)
    try:
        first, second = server.get("/api/folder")[0], server.get("/api/folder")[0]
        return {"runs": count, "first_list_s": first, "next_list_s": second}
    finally:
        server.close()


def long_curve(folder: Path, count: int = 1_000_000) -> dict[str, Any]:
    run = RunDirectory(folder / "long")
    run.write_recipe({**load_recipe("docstrings-char").plain()})
    run.write_state("finished", step=count, steps=count)
    with run.metrics_file.open("w") as stream:
        stream.writelines(f'{{"step": {step}, "loss": {3 + step % 97 / 100}, "lr": 0.001}}\n' for step in range(count))
    server = Server(folder)
    try:
        first, content = server.get("/api/run/curves?run=long&key=loss")
        points = len(json.loads(content)["curves"]["loss"]["step"])
        pans = sorted(
            server.get(f"/api/run/curves?run=long&key=loss&low={low}&high={low + 100_000}")[0]
            for low in range(0, 900_000, 90_000)
        )
        return {
            "points": count,
            "sent": points,
            "first_s": first,
            "pan_median_s": pans[len(pans) // 2],
            "pan_worst_s": pans[-1],
        }
    finally:
        server.close()


def steps_per_second(folder: Path, name: str, steps: int) -> float:
    words = [
        "train",
        "docstrings-char",
        "--set",
        f"training.steps={steps}",
        "--set",
        "training.log_every=1",
        "--set",
        "model.layers=2",
    ]
    began = None
    process = subprocess.Popen([sys.executable, "-m", "glassformer", *words, "--out", str(folder / name), "--quiet"])
    metrics = RunDirectory(folder / name).metrics_file
    while process.poll() is None:
        if began is None and metrics.exists() and metrics.stat().st_size:
            began = time.perf_counter(), sum(1 for _ in metrics.open())
        time.sleep(0.01)
    assert began is not None
    return (steps - began[1]) / (time.perf_counter() - began[0])


def streams(folder: Path, count: int, steps: int) -> dict[str, Any]:
    """Training speed with and without readers, in turns; the first of each warms the caches."""
    alone = [steps_per_second(folder, f"alone-{turn}", steps) for turn in range(2)][-1]
    server = Server(folder)
    try:
        opened = [server.stream("/api/folder/events") for _ in range(count // 2)]
        opened += [server.stream(f"/api/run/events?run=alone-{number % 2}") for number in range(count - count // 2)]
        watched = steps_per_second(folder, "watched", steps)
        for one in opened:
            one.close()
    finally:
        server.close()
    again = steps_per_second(folder, "alone-again", steps)
    return {"streams": count, "alone": [alone, again], "watched": watched, "ratio": watched / ((alone + again) / 2)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400, help="of each training beside the streams; 0: leave it out")
    given = parser.parse_args()
    document: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()}
    with tempfile.TemporaryDirectory() as place:
        document["list"] = many_runs(Path(place) / "many")
        document["curve"] = long_curve(Path(place) / "curve")
        if given.steps:
            (Path(place) / "streams").mkdir()
            document["streams"] = streams(Path(place) / "streams", 200, given.steps)
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
