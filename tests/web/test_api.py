"""The endpoint of a classifier: its token, what it refuses, batches over requests, no request lost, its own description."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

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
