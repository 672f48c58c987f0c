"""A trial of the promises: kills, damage, hostile requests, a busy page. Loopback only, in a folder of its own, a few minutes.

    python bench/trial.py [--scale 0.2] [--only kills,damage,token,...]

Prints one JSON document: of each part how much was tried (``n``) and how much went as promised (``kept``); ends with 1 if
anything did not. ``--scale 1`` is the size of the first trial (50 kills, 200 streams, 2,000 requests, 50 starts).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from glassformer.foundation.errors import GlassformerError
from glassformer.foundation.files import code_sha256
from glassformer.foundation.machine import cores
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.runs.checkpoint import checkpoint_checksums, newest_good, verify_checkpoint
from glassformer.runs.directory import RunDirectory
from glassformer.web.security import POLICY, TOKEN_HEADER
from glassformer.web.server import make_app

TOKEN = "the-token-of-the-trial"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"


class Trial:
    """One folder, one random generator, one tiny recipe."""

    def __init__(self, folder: Path, scale: float) -> None:
        self.folder, self.scale, self.random = folder, scale, random.Random(0)
        self.environment = {**os.environ, "GLASSFORMER_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
        self.environment |= {"GLASSFORMER_TOKEN": TOKEN, "RUST_BACKTRACE": "0"}
        text = folder / "text.txt"
        text.write_text("\n".join(f"the {n} cats of house {n * 7 % 100} saw {n % 9} dogs" for n in range(600)))
        model = {"width": 16, "heads": 2, "layers": 1, "context": 16, "dropout": 0.1}
        training = {"steps": 300, "batch_size": 8, "lr": 0.01, "device": "cpu", "precision": "float32"}
        self.recipe = folder / "tiny.yaml"
        data = {"path": str(text), "document": "line", "split": {"validation": 0.1}}
        recipe = {"about": MARKUP, "data": data, "model": model, "training": training, "checkpoint": {"every": 10, "keep": 3}}
        self.recipe.write_text(dump_yaml({**recipe, "evaluation": {"every": 100}}))
        self.shown = folder / "shown"
        self.whole = RunDirectory(self.shown / "whole")
        self.command("train", str(self.recipe), "--out", str(self.whole.root)).check_returncode()

    def times(self, full: int) -> int:
        return max(1, round(full * self.scale))

    def start(self, *words: str, code: str = "from glassformer.cli.main import main; main()") -> subprocess.Popen[bytes]:
        log = (self.folder / "log").open("ab")
        command = [sys.executable, "-c", code, *words]
        return subprocess.Popen(command, env=self.environment, cwd=self.folder, stdout=log, stderr=log)

    def command(
        self, *words: str, code: str = "from glassformer.cli.main import main; main()"
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, *words]
        return subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
        )

    def kill_at(self, child: subprocess.Popen[bytes], progress: Callable[[], int], wanted: int, seconds: float = 0.0) -> bool:
        """Kills it a moment after its progress is the wanted one and ``seconds`` are over; False where it ended before."""
        begun = time.monotonic()
        while child.poll() is None and (progress() < wanted or time.monotonic() < begun + seconds):
            time.sleep(0.005)
        try:
            child.wait(self.random.uniform(0.0, 0.2))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            return True
        return False

    def sums(self, run: RunDirectory) -> dict[str, str]:
        return checkpoint_checksums(run, run.steps()[-1])

    @contextmanager
    def server(self) -> Iterator[tuple[int, int]]:
        """The port and the process of a real server."""
        command = [sys.executable, "-m", "glassformer", "serve", str(self.shown), "--port", "0"]
        process = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().split(":")[2].split("/")[0]), process.pid
        finally:
            process.terminate()
            process.wait(30)


def ask(port: int, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, {TOKEN_HEADER: TOKEN, **headers})
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def warm(port: int) -> None:
    """Waits until the server has imported torch, which it does in the background after the first list."""
    ask(port, "GET", "/api/folder")
    time.sleep(2)
    ask(port, "GET", "/api/byhand")


def rss(pid: int) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def routes() -> list[tuple[str, set[str]]]:
    app = make_app(Path(), token=TOKEN, host="127.0.0.1", port=1, warm=False)
    return [(route.path.replace("{name:path}", "app.js"), set(route.methods)) for route in app.routes]  # type: ignore[attr-defined]


def counted(outcomes: list[bool], **facts: Any) -> dict[str, Any]:
    return {"n": len(outcomes), "kept": sum(outcomes), **facts}


def _last_step(run: RunDirectory) -> int:
    return max(run.steps(), default=0)


def kills(trial: Trial) -> dict[str, Any]:
    """Killed near random steps until done; the bits are those of the unbroken run, every checkpoint listed is whole."""
    whole, loadable, killed, number = [], [], list[int](), 0
    while len(killed) < trial.times(50):
        run = RunDirectory(trial.folder / f"killed-{number}")
        number += 1
        for near in sorted(trial.random.randrange(0, 300) for _ in range(5)):
            child = trial.start("train", str(trial.recipe), "--out", str(run.root), *(["--resume"] if run.exists() else []))
            if trial.kill_at(child, partial(_last_step, run), near):
                killed.append(_last_step(run))
            for step in run.steps():
                try:
                    verify_checkpoint(run.checkpoint(step))
                    loadable.append(True)
                except GlassformerError:
                    loadable.append(False)
        trial.command("train", str(trial.recipe), "--out", str(run.root), *(["--resume"] if run.exists() else []))
        whole.append(trial.sums(run) == trial.sums(trial.whole))
    return counted(whole, kills=len(killed), last_checkpoints=killed, checkpoints=counted(loadable))


def damage(trial: Trial) -> dict[str, Any]:
    """Each file of the last checkpoint, damaged in each way: named, and the checkpoint before it used."""
    outcomes = []
    ways: dict[str, Callable[[Path, bytes], Any]] = {
        "flipped": lambda file, content: file.write_bytes(content[:9] + bytes([content[9] ^ 1]) + content[10:]),
        "truncated": lambda file, content: file.write_bytes(content[: len(content) // 2]),
        "empty": lambda file, content: file.write_bytes(b""),
        "missing": lambda file, content: file.unlink(),
    }
    for name, way in product(("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"), ways.values()):
        run, said = RunDirectory(trial.folder / "damaged"), list[str]()
        shutil.copytree(trial.whole.root, run.root)
        file = run.checkpoint(run.steps()[-1]) / name
        way(file, file.read_bytes())
        found = newest_good(run, said.append)
        outcomes.append(found is not None and found.step == run.steps()[-2] and name in said[0])
        shutil.rmtree(run.root)
    return counted(outcomes)


def at_once(trial: Trial) -> dict[str, Any]:
    """Four `train FILE` at once: a folder each."""
    children = [trial.start("train", str(trial.recipe), "--set", "training.steps=3") for _ in range(4)]
    done = [child.wait(300) == 0 for child in children]
    return counted(done, folders=len(list((trial.folder / "runs").iterdir())))


def full_disk(trial: Trial) -> dict[str, Any]:
    """The disk fills up while it trains: exit code 1, a sentence, the last good checkpoint loads. Needs root (a small disk)."""
    outcomes = []
    for size in range(trial.times(4)):
        disk = trial.folder / f"disk-{size}"
        disk.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={600 + 100 * size}k", "tmpfs", str(disk)], capture_output=True, check=False
        )
        if mounted.returncode:
            return counted([], left_out=mounted.stderr.decode().strip())
        try:
            run = RunDirectory(disk / "run")
            more = ["--set", "checkpoint.keep=1000", "--set", "model.width=32"]
            done = trial.command("train", str(trial.recipe), "--out", str(run.root), *more)
            good = newest_good(run, lambda _: None)
            outcomes.append(done.returncode == 1 and "No room" in done.stderr and good is not None)
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)
    return counted(outcomes)


def clock(trial: Trial) -> dict[str, Any]:
    """The clock of the day goes backwards while it trains: the same bits."""
    code = "import itertools, time; t = itertools.count(2e9, -60); time.time = lambda: float(next(t))\n"
    run = RunDirectory(trial.folder / "backwards")
    done = trial.command(
        "train", str(trial.recipe), "--out", str(run.root), code=f"{code}from glassformer.cli.main import main; main()"
    )
    return counted([done.returncode == 0 and trial.sums(run) == trial.sums(trial.whole)])


def ledger(trial: Trial) -> dict[str, Any]:
    """Killed while it writes the ledger: the ledger is whole, and has every entry that was confirmed."""
    code = (
        "import sys; from pathlib import Path; from glassformer.study.history.ledger import Attempt, Ledger\n"
        "for n in range(10**6):\n"
        "    entry = Attempt('s', f'plan{n}', 'q', 'c', f'change{n}', .01, (0, 1), {}, {})\n"
        "    Ledger(Path(sys.argv[1])).record([entry])\n"
        "    Path(sys.argv[2]).write_text(str(n))"
    )
    outcomes = []
    for number in range(trial.times(50)):
        file, seen = trial.folder / f"ledger-{number}.json", trial.folder / f"seen-{number}"
        child = trial.start(str(file), str(seen), code=code)
        while not seen.exists() and child.poll() is None:
            time.sleep(0.01)
        time.sleep(trial.random.uniform(0, 0.3))
        child.kill()
        child.wait()
        entries = json.loads(file.read_text())["attempts"]
        outcomes.append(len(entries) >= int(seen.read_text() or 0))
    return counted(outcomes)


def study(trial: Trial) -> dict[str, Any]:
    """The driver of a study killed, with the store of trials on: finished trials stay, the figures are the undisturbed ones."""
    words = ["compare", str(trial.recipe), "--vary", "model.positions=none", "--seeds", "3", "--set", "training.steps=60"]
    undisturbed, killed = trial.folder / "undisturbed", trial.folder / "killed-study"
    trial.environment["GLASSFORMER_CACHE"] = str(trial.folder / "another-cache")
    assert trial.command(*words, "--out", str(undisturbed)).returncode == 0
    trial.environment["GLASSFORMER_CACHE"] = str(trial.folder / "cache")
    outcomes, finished = [], dict[Path, int]()

    def done() -> list[Path]:
        return [file for file in killed.glob("trials/*/*/state.json") if '"finished"' in file.read_text()]

    for number in range(trial.times(12)):
        child = trial.start(*words, "--out", str(killed))
        trial.kill_at(child, lambda: len(done()), number // 2, seconds=trial.random.uniform(2, 6))  # of six trials
        outcomes.append(all(file.stat().st_mtime_ns == at for file, at in finished.items()))
        finished = {file: file.stat().st_mtime_ns for file in done()}
        time.sleep(1.0)  # its workers see that it is gone
    assert trial.command(*words, "--out", str(killed)).returncode == 0
    tables = [json.loads((place / "values.json").read_text())["variants"] for place in (undisturbed, killed)]
    same = all(tables[0][name]["values"] == tables[1][name]["values"] for name in tables[0])
    return counted([*outcomes, same])


def token(trial: Trial) -> dict[str, Any]:
    """Every route and method without the right token, from another site, or by another name."""
    outcomes = []
    with trial.server() as (port, _):
        home = f"http://127.0.0.1:{port}"
        wrong = [
            {TOKEN_HEADER: ""},
            {TOKEN_HEADER: "wrong", "origin": home},
            {TOKEN_HEADER: "", "cookie": f"glassformer_{port}=x"},
        ]
        wrong += [{"origin": "http://evil.example"}, {"host": "evil.example"}, {"origin": "null"}]
        for (path, _), method, headers in product(routes(), METHODS, wrong):
            status, _, answered = ask(port, method, path, **headers)
            outcomes.append(status in (401, 403) and answered.get("content-security-policy") == POLICY)
    return counted(outcomes)


def traversals(trial: Trial) -> dict[str, Any]:
    """Names that try to leave the folder."""
    (trial.folder / "secret").mkdir(exist_ok=True)
    shutil.copy(trial.whole.recipe_file, trial.folder / "secret" / "recipe.yaml")
    ups = ["..", "%2e%2e", ".%2e", "%252e%252e", "..;", "\u2025", "....", "..\\", "whole/..", "/..", "whole/../.."]
    between = ["/", "\\", "%2f", "%5c", "//", "/./", "\u2215"]
    names = ["".join(parts) for parts in product(ups, between, ["secret", "secret/recipe.yaml", "etc/passwd"])]
    names += [str(trial.folder / "secret"), "/etc/passwd", "file:///etc/passwd", "~", "whole\x00", "a" * 5000]
    places = [("/api/run", "run"), ("/api/study", "study"), ("/api/run/report", "run"), ("/api/run/curves", "run")]
    outcomes = []
    with trial.server() as (port, _):
        for name, (path, key) in product(names, places):
            outcomes.append(ask(port, "GET", f"{path}?{urlencode({key: name})}")[0] == 404)
    return counted(outcomes)


def bodies(trial: Trial) -> dict[str, Any]:
    """Odd bodies for every route that takes one: an answer that says so, never a fault."""
    odd = [
        b"",
        b"{",
        b"[]",
        b"7",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"run": 1}',
        b'{"run": "whole", "text": 1}',
        b"x" * (5 << 20),
    ]
    odd += [
        json.dumps({key: value}).encode()
        for key in ("run", "name", "base")
        for value in ("..", None, [], {"a": 1}, 1e308, "\u0000")
    ]
    outcomes = []
    with trial.server() as (port, _):
        for path in [path for path, methods in routes() if "POST" in methods]:
            for content in odd:
                status, text, headers = ask(port, "POST", path, content)
                outcomes.append(status < 500 and "content-security-policy" in headers and b"Traceback" not in text)
    return counted(outcomes)


def hostile(trial: Trial) -> dict[str, Any]:
    """Huge and linked files of one run, markup in names and notes: the list is answered, nothing of outside is shown."""
    outcomes, seconds = [], []
    (trial.folder / "secret.txt").write_text("a secret outside")
    with trial.server() as (port, _):
        for name in ("recipe.yaml", "environment.json", "state.json", "metrics.jsonl", "notes.jsonl", "tokenizer.json"):
            for kind in ("huge", "linked", "a pipe"):
                bad = trial.shown / "bad"
                shutil.copytree(trial.whole.root, bad)
                (bad / name).unlink(missing_ok=True)
                if kind == "huge":
                    (bad / name).touch()
                    os.truncate(bad / name, 8 << 30)
                elif kind == "linked":
                    (bad / name).symlink_to(trial.folder / "secret.txt")
                else:
                    os.mkfifo(bad / name)
                begun = time.monotonic()
                status, text, _ = ask(port, "GET", "/api/folder")
                answers = [
                    ask(port, "GET", f"/api/{path}?run=bad&text=a") for path in ("run", "run/curves", "run/sample", "tokens")
                ]
                seconds.append(time.monotonic() - begun)
                fine = all(one[0] != 500 and b"a secret" not in one[1] for one in answers)
                outcomes.append(status == 200 and '"whole"' in text.decode() and fine)
                shutil.rmtree(bad)
        trial.whole.add_note(MARKUP)
        status, text, headers = ask(port, "GET", "/api/run?run=whole")
        outcomes.append(headers["content-type"] == "application/json" and headers["x-content-type-options"] == "nosniff")
    markup = trial.folder / "markup.txt"  # a model that writes markup: its samples, in its report, its map and its list
    markup.write_text(f"{MARKUP}\n" * 100)
    writes = RunDirectory(trial.shown / "writes")
    more = ["--set", f"data.path={markup}", "--set", "training.steps=60", "--set", "training.lr=0.03"]
    trial.command("train", str(trial.recipe), "--out", str(writes.root), *more).check_returncode()
    for run in (trial.whole, writes):
        trial.command("report", str(run.root)).check_returncode()
        outcomes.append("<img src=x" not in run.report_file.read_text())
    page = trial.folder / "map.html"
    trial.command("look", str(writes.root), MARKUP[:12], "--out", str(page)).check_returncode()
    outcomes.append("<img src=x" not in page.read_text())
    return counted(outcomes, slowest_s=round(max(seconds), 2))


def streams(trial: Trial) -> dict[str, Any]:
    """Streams opened and left, others held open beside connections that never finish their request: the page still answers."""
    outcomes, held = [], list[socket.socket]()
    with trial.server() as (port, pid):
        warm(port)
        for number in range(trial.times(200)):
            stream = socket.create_connection(("127.0.0.1", port), 30)
            head = f"GET /api/folder/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            stream.sendall((head + (f"{TOKEN_HEADER}: {TOKEN}\r\n\r\n" if number % 4 else "")).encode())
            if number % 4:
                outcomes.append(b"200" in stream.recv(64))
            held.append(stream)
            if number % 2:
                held.pop().close()
        before, end = rss(pid), time.monotonic() + 180 * trial.scale
        while time.monotonic() < end:
            begun = time.monotonic()
            outcomes.append(ask(port, "GET", "/api/folder")[0] == 200 and time.monotonic() - begun < 5)
            time.sleep(1)
        grown = rss(pid) - before
        for stream in held:
            stream.close()
    return counted([*outcomes, grown < 32 << 20], held_s=round(180 * trial.scale), grown_mb=round(grown / 1e6, 1))


def memory(trial: Trial) -> dict[str, Any]:
    """Many requests: the memory of the server stays flat."""
    with trial.server() as (port, pid):
        warm(port)
        for _ in range(100):
            ask(port, "GET", "/api/run?run=whole")
        before = rss(pid)
        outcomes = [ask(port, "GET", "/api/run?run=whole")[0] == 200 for _ in range(trial.times(2000))]
        grown = rss(pid) - before
    return counted([*outcomes, grown < 64 << 20], grown_mb=round(grown / 1e6, 1))


def starts(trial: Trial) -> dict[str, Any]:
    """Many starts at once: all are accepted, no more run than the machine has room for."""
    outcomes, names = [], [f"started-{number}" for number in range(trial.times(50))]
    with trial.server() as (port, _):
        for name in names:
            wanted = {"base": "run:whole", "name": name, "set": {"training.steps": 100_000}}
            outcomes.append(ask(port, "POST", "/api/start", json.dumps(wanted).encode())[0] == 200)
        most = 0
        for _ in range(10):
            states = [one["state"] for one in json.loads(ask(port, "GET", "/api/folder")[1])["started"]]
            most = max(most, states.count("running"))
            time.sleep(0.5)
        for name in reversed(names):
            ask(port, "POST", "/api/stop", json.dumps({"name": name}).encode())
        end = time.monotonic() + 60
        while any(one["alive"] for one in json.loads(ask(port, "GET", "/api/folder")[1])["started"]) and time.monotonic() < end:
            time.sleep(0.5)
    return counted([*outcomes, most <= cores()], most_at_once=most, cores=cores())


PARTS = (kills, damage, full_disk, at_once, clock, ledger, study, token, traversals, bodies, hostile, streams, memory, starts)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.2, help="share of the first trial's numbers (default 0.2)")
    parser.add_argument("--only", default="", help="parts, by name, with commas between them")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    document: dict[str, Any] = {"code_sha256": code_sha256(), "scale": options.scale, "cores": cores(), "parts": {}}
    wanted = options.only.split(",") if options.only else [part.__name__ for part in PARTS]
    with tempfile.TemporaryDirectory(prefix="trial-", ignore_cleanup_errors=True) as folder:
        trial = Trial(Path(folder).resolve(), options.scale)
        for part in PARTS:
            if part.__name__ in wanted:
                begun = time.monotonic()
                try:
                    found = part(trial)
                except Exception as error:  # one part that breaks costs no figure of the others
                    found = {"n": 1, "kept": 0, "error": f"{type(error).__name__}: {error}"}
                document["parts"][part.__name__] = {**found, "seconds": round(time.monotonic() - begun, 1)}
                print(part.__name__, document["parts"][part.__name__], file=sys.stderr, flush=True)
    print(json.dumps(document, indent=2))
    return int(any(part["n"] != part["kept"] for part in document["parts"].values()))


if __name__ == "__main__":
    sys.exit(main())
