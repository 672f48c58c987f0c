"""Requests to a classifier: one text by plain transformers, by ``run.predict`` and by ``serve --api``, in turns in one run;
then a load test of the endpoint: many clients at once, no request lost, memory before and after.

    python bench/classifier_requests.py RUN [--rounds 100] [--clients 50] [--requests 20] [--loads 3]

RUN: a classifier with ``model.pool: own``; with ``--rounds 0``, the load test alone, any run. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
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


async def load_test(address: str, token: str, *, clients: int, requests: int) -> dict[str, Any]:
    import httpx

    answered: list[float] = []
    wrong = 0

    async def client() -> None:
        nonlocal wrong
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120) as http:
            for number in range(requests):
                start = time.perf_counter()
                reply = await http.post(address, json={"texts": [TEXTS[number % len(TEXTS)]]})
                if reply.status_code != 200 or len(reply.json()["predictions"]) != 1:
                    wrong += 1
                answered.append(1000 * (time.perf_counter() - start))

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    seconds = time.perf_counter() - start
    return {
        "clients": clients,
        "sent": clients * requests,
        "answered": len(answered) - wrong,
        "texts_per_second": round(len(answered) / seconds, 1),
        "median_ms": round(statistics.median(answered), 1),
        "p95_ms": round(sorted(answered)[int(0.95 * len(answered))], 1),
    }


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
    options.add_argument("--requests", type=int, default=20)
    options.add_argument("--loads", type=int, default=3)
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
            loads = []
            for _ in range(chosen.loads):
                load = asyncio.run(
                    load_test(ready["address"], ready["token"], clients=chosen.clients, requests=chosen.requests)
                )
                loads.append({**load, "server_mb": round(resident(server.pid), 1)})
            found["load"] = loads
            print(json.dumps(found, indent=2))
        finally:
            server.terminate()
            server.wait(20)


if __name__ == "__main__":
    main()
