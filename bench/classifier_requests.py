"""Requests to a classifier: one text by plain transformers, by ``run.predict`` and by ``serve --api``, in turns in one run;
then a load test of the endpoint: many clients at once, no request lost, the server's memory while it lasts and its slope.

    python bench/classifier_requests.py RUN [--rounds 100] [--clients 50] [--requests 20000] [--every 500] [--warm 1000]

RUN: a classifier with ``model.pool: own``; with ``--rounds 0``, the load test alone, of any run; with ``--requests 0``, none.
Prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TEXTS = [
    "the parcel arrived late and the box was wet",
    "I was charged twice for the same order, please refund my money",
    "cannot log in",
    "the app crashes on start since the update of last week and nothing helps, not even installing it again",
]


def resident(pid: int) -> float:
    """MB of a process in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def plain(folder: Path) -> Callable[[str], list[float]]:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()

    @torch.no_grad()
    def probabilities(text: str) -> list[float]:
        return model(**tokenizer(text, truncation=True, return_tensors="pt")).logits.softmax(-1)[0].tolist()

    return probabilities


def memory_of_plain(folder: Path) -> float:
    """MB of a process that has answered one text by plain transformers."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); import os; from pathlib import Path; import classifier_requests as own; "
        "own.plain(Path(sys.argv[1]))(own.TEXTS[0]); print(own.resident(os.getpid()))"
    )
    words = [sys.executable, "-c", code, str(folder), str(Path(__file__).parent)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[-1])


def computed(pid: int) -> float:
    """Milliseconds that the threads of a process have computed."""
    return sum(int(file.read_text().split()[0]) for file in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e6


def in_turns(ways: dict[str, Callable[[str], Any]], rounds: int, server: int) -> dict[str, Any]:
    """Milliseconds of each way, by the clock and computed (here and in the server), one after another in every round; the first
    three rounds warm up."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 3):
        text = TEXTS[number % len(TEXTS)]
        for name, way in ways.items():
            begun, start = computed(os.getpid()) + computed(server), time.perf_counter()
            way(text)
            if number >= 3:
                taken[name].append(1000 * (time.perf_counter() - start))
                cpu[name].append(computed(os.getpid()) + computed(server) - begun)
    return {
        name: {
            "median_ms": round(statistics.median(each), 2),
            "p95_ms": round(sorted(each)[int(0.95 * len(each))], 2),
            "median_cpu_ms": round(statistics.median(cpu[name]), 2),
        }
        for name, each in taken.items()
    }


def made_up_texts(count: int) -> list[str]:
    """Texts of 1 to 16 words, one word in five new: every batch has another shape, and no cache helps for long."""
    rng = random.Random(0)
    known = " ".join(TEXTS).split()

    def word() -> str:
        return rng.choice(known) if rng.random() < 0.8 else "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 9)))

    return [" ".join(word() for _ in range(rng.randint(1, 16))) for _ in range(count)]


async def load_test(
    address: str, token: str, pid: int, *, clients: int, requests: int, every: int, warm: int
) -> dict[str, Any]:
    """``warm`` requests, then ``requests`` more, each client sending its next one when the last is answered; the server's
    memory after every ``every`` of them."""
    import httpx

    texts = iter(made_up_texts(warm + requests))
    taken: list[float] = []
    memory: list[float] = []
    wrong = 0

    async def client() -> None:
        nonlocal wrong
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120) as http:
            for text in texts:
                start = time.perf_counter()
                reply = await http.post(address, json={"texts": [text]})
                wrong += reply.status_code != 200 or len(reply.json()["predictions"]) != 1
                taken.append(1000 * (time.perf_counter() - start))
                if len(taken) >= warm and (len(taken) - warm) % every == 0:
                    memory.append(resident(pid))

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    seconds = time.perf_counter() - start
    half = len(memory) // 2
    return {
        "clients": clients,
        "sent": warm + requests,
        "answered": len(taken) - wrong,
        "texts_per_second": round(len(taken) / seconds, 1),
        "median_ms": round(statistics.median(taken), 1),
        "p95_ms": round(sorted(taken)[int(0.95 * len(taken))], 1),
        "after_requests": f"{warm} and every {every} more",
        "server_mb": [round(one, 1) for one in memory],
        "bytes_per_request": slope(memory, every),
        "bytes_per_request_of_the_last_half": slope(memory[half:], every),
    }


def slope(memory_mb: list[float], every: int) -> dict[str, float]:
    """Bytes that a request adds, by least squares, with its standard error; and how far the memory moved at all."""
    import scipy.stats

    line = scipy.stats.linregress([every * at for at in range(len(memory_mb))], [one * 2**20 for one in memory_mb])
    moved = max(memory_mb) - min(memory_mb)
    return {"slope": round(line.slope, 1), "standard_error": round(line.stderr, 1), "range_mb": round(moved, 1)}


def beside_plain(run: Any, folder: Path, ready: dict[str, Any], rounds: int, pid: int) -> dict[str, Any]:
    """One text by each way in turns, the largest difference of a probability, memory."""
    import httpx

    http = httpx.Client(headers={"Authorization": f"Bearer {ready['token']}"}, timeout=60)
    transformers = plain(folder)

    def by_http(text: str) -> Any:
        return http.post(ready["address"], json={"texts": [text]}).raise_for_status().json()["predictions"][0]

    ways = {"plain transformers": transformers, "run.predict": lambda text: run.predict([text]), "serve --api": by_http}
    apart = max(
        abs(ours - theirs)
        for text in TEXTS
        for ours, theirs in zip(
            run.predict([text], temperature=False)[0].probabilities.values(), transformers(text), strict=True
        )
    )
    found: dict[str, Any] = {"one_text": in_turns(ways, rounds, pid), "largest_difference": apart}
    base = found["one_text"]["plain transformers"]["median_ms"]
    found["times_plain"] = {name: round(each["median_ms"] / base, 2) for name, each in found["one_text"].items()}
    cpu = found["one_text"]["plain transformers"]["median_cpu_ms"]
    found["times_plain_cpu"] = {name: round(each["median_cpu_ms"] / cpu, 2) for name, each in found["one_text"].items()}
    found["memory_mb"] = {"plain transformers": memory_of_plain(folder), "server, warm": resident(pid)}
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("run", type=Path)
    options.add_argument("--rounds", type=int, default=100)
    options.add_argument("--clients", type=int, default=50)
    options.add_argument("--requests", type=int, default=20_000)
    options.add_argument("--every", type=int, default=500)
    options.add_argument("--warm", type=int, default=1000)
    chosen = options.parse_args()
    import glassformer as gf

    run = gf.load(chosen.run)
    with tempfile.TemporaryDirectory() as place:
        folder = run.save_pretrained(Path(place) / "hf").folder if chosen.rounds else Path()
        words = [sys.executable, "-m", "glassformer", "serve", str(chosen.run), "--api", "--port", "0", "--json"]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ})
        try:
            assert server.stdout is not None
            lines = [server.stdout.readline()]
            while lines[-1] and not lines[-1].startswith("}"):
                if lines[-1].rstrip().endswith("}"):
                    break
                lines.append(server.stdout.readline())
            ready = json.loads("".join(lines))
            found = beside_plain(run, folder, ready, chosen.rounds, server.pid) if chosen.rounds else {}
            if chosen.requests:
                load = load_test(
                    ready["address"],
                    ready["token"],
                    server.pid,
                    clients=chosen.clients,
                    requests=chosen.requests,
                    every=chosen.every,
                    warm=chosen.warm,
                )
                found["load"] = asyncio.run(load)
            print(json.dumps(found, indent=2))
        finally:
            server.terminate()
            server.wait(20)


if __name__ == "__main__":
    main()
