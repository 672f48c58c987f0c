"""The endpoint of a classifier: its token, what it refuses, batches over requests, no request lost, its own description."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

import glassformer as gf
from glassformer.web import api
from glassformer.web.api import MOST_TEXTS, make_api

TOKEN = "only-predicts"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


class Lengths:
    """A classifier by the length of a text; remembers the sizes of its batches."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, texts: list[str], pairs: list[str] | None) -> list[dict[str, Any]]:
        self.gate.wait(20)
        self.sizes.append(len(texts))
        if "boom" in texts:
            raise ValueError("boom")
        return [{"label": str(len(text)), "text": text} for text in texts]


def application(job: Any, **more: Any) -> Any:
    return make_api(job, token=TOKEN, labels=["a", "b"], pairs=False, about="x", **more)


@pytest.fixture
def client() -> Any:
    with TestClient(application(Lengths())) as found:
        yield found


def test_one_text_or_several(client: TestClient) -> None:
    assert client.post("/predict", json={"texts": "abc"}, headers=HEADERS).json()["predictions"][0]["label"] == "3"
    several = client.post("/predict", json={"texts": ["a", "bb"]}, headers=HEADERS)
    assert [one["label"] for one in several.json()["predictions"]] == ["1", "2"]


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer other"}, {"Authorization": TOKEN}, {"X-Token": TOKEN}])
def test_without_the_token_nothing_is_predicted(client: TestClient, headers: dict[str, str]) -> None:
    assert client.post("/predict", json={"texts": ["a"]}, headers=headers).status_code == 401


@pytest.mark.parametrize(
    "wrong",
    [{}, {"texts": []}, {"texts": [" "]}, {"texts": [3]}, {"texts": ["a"] * (MOST_TEXTS + 1)}, {"texts": ["a"], "run": "b"}],
    ids=["nothing", "empty", "blank", "number", "many", "key"],
)
def test_a_wrong_request_is_a_sentence(client: TestClient, wrong: dict[str, Any]) -> None:
    answer = client.post("/predict", json=wrong, headers=HEADERS)
    assert answer.status_code == 400
    assert answer.json()["error"].endswith(".")


def test_a_fault_of_one_batch_does_not_end_the_server(client: TestClient) -> None:
    assert client.post("/predict", json={"texts": ["boom"]}, headers=HEADERS).status_code == 500
    assert client.post("/predict", json={"texts": ["a"]}, headers=HEADERS).status_code == 200


def test_it_describes_itself_and_nothing_else_is_there(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.")
    assert set(document["paths"]) == {"/predict", "/health"}
    assert client.get("/health").json() == {"status": "ready"}
    for path in ("/", "/api/runs", "/static/page.css"):
        assert client.get(path, headers=HEADERS).status_code == 404


async def _many(app: Any, texts: list[list[str]]) -> list[httpx.Response]:
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://api", headers=HEADERS, timeout=30) as client:
            return list(await asyncio.gather(*(client.post("/predict", json={"texts": one}) for one in texts)))


def test_many_clients_share_batches_and_each_gets_its_own_answer() -> None:
    job = Lengths()
    asked = [[f"{'x' * number}", f"{'y' * (number + 1)}"] for number in range(1, 51)]
    answers = asyncio.run(_many(application(job), asked))
    for texts, answer in zip(asked, answers):
        assert [one["text"] for one in answer.json()["predictions"]] == texts
    assert sum(job.sizes) == 100
    assert len(job.sizes) < 10  # not one batch for each request


def test_too_much_at_once_is_refused_and_the_rest_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "MOST_WAITING", 20)
    codes = [answer.status_code for answer in asyncio.run(_many(application(Lengths()), [["a"] * 5] * 12))]
    assert set(codes) == {200, 503}


def resident(pid: int) -> int:
    """Bytes of a process in memory."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * int(next(line for line in status if line.startswith("VmRSS")).split()[1])


@pytest.fixture
def served(tmp_path: Path, unchecked: None) -> Any:
    """A small classifier behind ``serve --api``, in a process of its own."""
    (tmp_path / "animals.txt").write_text("".join(f"dog it did bark at {n}\ncat it did purr at {n}\n" for n in range(20)))
    recipe = {
        "data": {"path": str(tmp_path / "animals.txt"), "format": "label-text", "split": {"validation": 0.3}},
        "tokenizer": {"kind": "word", "min_count": 1},
        "objective": "labels",
        "model": {"width": 64, "layers": 1, "heads": 1, "context": 64, "causal": False, "head": "classifier"},
        "training": {"steps": 2, "batch_size": 8},
    }
    gf.train(recipe, out=tmp_path / "run")
    words = [sys.executable, "-m", "glassformer", "serve", str(tmp_path / "run"), "--api", "--port", "0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        lines = ""
        while server.stdout is not None and "}" not in lines:
            line = server.stdout.readline()
            assert line, "the server ended"
            lines += line
        yield server, json.loads(lines)
        server.terminate()


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="the memory of another process is read from /proc")
def test_memory_does_not_grow_by_request(served: Any) -> None:
    """A request that kept its text and its answer, about a kilobyte, is seen: it grows in a straight line."""
    server, ready = served
    rng, warm, requests, every = random.Random(0), 250, 200, 20
    memory = []
    with httpx.Client(headers={"Authorization": f"Bearer {ready['token']}"}, timeout=60) as client:
        for number in range(warm + requests):
            text = " ".join(rng.choices(["dog", "cat", "bark", "purr", str(number)], k=rng.randint(1, 60)))
            assert client.post(ready["address"], json={"texts": [text]}).status_code == 200
            if number >= warm and number % every == 0:
                memory.append(resident(server.pid))
    grown = np.polyfit(every * np.arange(len(memory)), memory, 1)[0]
    assert grown < 800, f"{grown:.0f} bytes a request: {memory}"
