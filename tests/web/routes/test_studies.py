"""A study on the page is its report; a damaged one is said to be."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from glassformer.web.app_state import AppState
from glassformer.web.routes.studies import _watch
from glassformer.web.security import TOKEN_HEADER
from glassformer.web.server import make_app


@pytest.fixture(scope="module")
def with_study(tmp_path_factory, tiny_text: Path) -> Path:
    from glassformer.study.compare import compare

    folder = tmp_path_factory.mktemp("studies")
    recipe = {
        "data": {"path": str(tiny_text), "document": "line", "split": {"validation": 0.3}},
        "model": {"width": 8, "heads": 2, "layers": 1, "context": 16},
        "training": {"steps": 4, "batch_size": 4, "lr": 0.01, "device": "cpu", "precision": "float32"},
        "evaluation": {"every": 2},
    }
    compare(recipe, {"model.positions": ["none"]}, seeds=2, out=folder / "study", on="inline", store=False)
    return folder


def test_the_report_as_blocks(with_study, monkeypatch) -> None:
    app = make_app(with_study, token="t", host="127.0.0.1", port=1, warm=False)
    client = TestClient(app, base_url="http://127.0.0.1:1", headers={TOKEN_HEADER: "t"})
    assert client.get("/api/folder").json()["studies"] == ["study"]
    found = client.get("/api/study", params={"study": "study"}).json()
    kinds = [block["kind"] for block in found["page"]["blocks"]]
    assert kinds[:3] == ["heading", "banner", "verdicts"]  # it has learned too little, and says so first
    assert kinds.count("figure") >= 2
    assert found["study"]["verdicts"][0]["verdict"] == found["page"]["blocks"][2]["items"][0]["verdict"]
    assert len(found["trials"]) >= 2
    assert {one["status"] for one in found["trials"]} == {"finished"}
    trial = client.get("/api/run", params={"run": found["trials"][0]["name"]}).json()
    assert trial["study"] == "study"
    answer = client.post("/api/stop", json={"name": found["trials"][0]["name"]})
    assert "stop the study" in answer.json()["error"]
    state = AppState.of(with_study)
    look = _watch(state, "study")
    assert look()["changed"] is False
    assert look() is None
    monkeypatch.setattr(state.processes, "find", lambda name: {"alive": True})
    assert look()["changed"] is True
    monkeypatch.setattr(state.processes, "find", lambda name: {"alive": False})
    assert look()["changed"] is True  # it ends after its last file is written: now it can go on, and not be stopped
    assert look() is None


def test_a_damaged_study_is_said_to_be(client, folder) -> None:
    (folder / "broken").mkdir()
    (folder / "broken" / "plan.yaml").write_text("schema: 1\nplan: 3\n")
    found = client.get("/api/study", params={"study": "broken"}).json()
    assert "plan" in found["damaged"]
    assert client.get("/api/study", params={"study": "one"}).status_code == 404
