"""Networks of a user's own (docs/snippets/own_*.py) through every verb: each works, or says in one sentence why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.journeys.test_verbs import TABLE

from glassformer.cli.main import run as command_line
from glassformer.foundation.plugins import load_plugins
from glassformer.web.security import TOKEN_HEADER
from glassformer.web.server import make_app

SNIPPETS = Path(__file__).parents[2] / "docs" / "snippets"
FILES = {kind: SNIPPETS / f"own_{kind.removeprefix('own-')}.py" for kind in ("gru", "lstm", "own-gpt")}
PLUGINS = [word for file in FILES.values() for word in ("--plugin", str(file))]
TRAINING = {"training": {"steps": 4, "batch_size": 8, "device": "cpu"}, "checkpoint": {"every": 2}}
STUDY = ["--vary", "training.lr=0.02", "--seeds", "2", "--on", "inline", "--no-store"]
WORLD = {"set": {"kind": "world", "people": 40}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "text.txt").write_text("".join(f"the {'cat' if n % 3 else 'dog'} saw {n}\n" for n in range(90)), encoding="utf-8")
    labelled = "".join(f"dog it did bark at {n}\ncat it did purr at {n}\n" for n in range(20))
    (folder / "animals.txt").write_text(labelled, encoding="utf-8")
    text = {"path": str(folder / "text.txt"), "document": "line"}
    animals = {"data": {"path": str(folder / "animals.txt"), "format": "label-text"}, "objective": "labels"}
    recipes: dict[str, Any] = {
        **{kind: {"data": text, "model": {"kind": kind, "width": 12, "context": 16}} for kind in FILES},
        "labels": {**animals, "tokenizer": {"kind": "word", "min_count": 1}, "model": {"kind": "lstm", "width": 12}},
        "unpadded": {**animals, "tokenizer": {"kind": "word", "min_count": 1}, "model": {"kind": "gru", "width": 12}},
        "answers": {"data": WORLD, "objective": "answers", "model": {"kind": "gru", "width": 12, "context": 64}},
    }
    for name, recipe in recipes.items():
        (folder / f"{name}.yaml").write_text(json.dumps({**recipe, **TRAINING}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run_of(place: Path) -> Callable[[str], Path]:
    """The run of a recipe, trained by ``glassformer train`` when it is first asked for."""

    def found(name: str) -> Path:
        run = place / name
        if not run.exists():
            assert command_line(["train", f"{run}.yaml", "--out", str(run), "--quiet", *PLUGINS]) == 0
        return run

    return found


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def made(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = command_line([str(word) for word in words] + PLUGINS)
        captured = capsys.readouterr()
        assert "bug in Glassformer" not in captured.err
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return made


WORDS: dict[str, list[str]] = {
    "evaluate": [],
    "generate": ["the", "--max-new-tokens", "3"],
    "ask": ["the dog did bark"],
    "check": [],
    "report": [],
    "look": ["the dog"],
    "export": ["EXPORTED"],
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("verb", WORDS)
def test_every_verb_works_or_says_why_not(verb: str, kind: str, run_of: Callable[[str], Path], call: Call) -> None:
    run = run_of(kind)
    code, out, err = call(verb, run, *(word.replace("EXPORTED", f"{run}-exported") for word in WORDS[verb]))
    expected = TABLE[verb, "next-token, own network"]
    if expected == "works":
        assert code == 0, err
        assert out
    else:
        assert code == 2
        last = err.strip().splitlines()[-1]
        assert last.startswith(f"Error: {expected.replace('KIND', kind).replace(', own network', '')}"), last


@pytest.mark.parametrize("kind", FILES)
def test_the_cost_is_measured_before_anything_is_trained(kind: str, place: Path, call: Call) -> None:
    code, out, err = call("train", place / f"{kind}.yaml", "--dry-run", "--json")
    assert code == 0, err
    plan = json.loads(out)
    assert plan["parameters"] == sum(part["parameters"] for part in plan["parts"]) > 0
    assert plan["step_flops"] > plan["forward_flops"] > 0


def test_flops_of_recurrent_layers_by_hand(place: Path, call: Call) -> None:
    """8 rows of 16 tokens: three (four) gates of 12 units from 12 inputs and 12 states; the head is the rest."""
    for kind, gates, layers in (("gru", 3, 1), ("lstm", 4, 2)):
        parts = json.loads(call("train", place / f"{kind}.yaml", "--dry-run", "--json")[1])["parts"]
        recurrent = next(part for part in parts if part["name"].startswith(f"{kind} ("))
        assert recurrent["forward_flops"] == 2 * 8 * 16 * gates * 12 * (12 + 12) * layers
        assert recurrent["parameters"] == gates * 12 * (12 + 12 + 2) * layers


@pytest.mark.parametrize("kind", FILES)
def test_a_study_is_planned_and_refuses_to_match(kind: str, place: Path, call: Call) -> None:
    code, out, err = call("compare", place / f"{kind}.yaml", *STUDY, "--dry-run", "--json", "--out", place / f"{kind}-plan")
    assert code == 0, err
    assert json.loads(out)["variants"][0]["parameters"] > 0
    matched = ["--match", "parameters", "--out", place / f"{kind}-matched"]
    code, _, err = call("compare", place / f"{kind}.yaml", *STUDY, *matched)
    assert code == 2
    assert f"model.kind={kind} has none to adapt" in err


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_a_study_and_a_killed_run(kind: str, place: Path, call: Call) -> None:
    """Against a Transformer, with a verdict; and resumed in the same bits."""
    change = ["--vary", "model={kind: transformer, width: 12, heads: 2, layers: 1, context: 16}", *STUDY[2:]]
    code, out, err = call("compare", place / f"{kind}.yaml", *change, "--json", "--out", place / f"{kind}-study")
    assert code == 0, err
    assert json.loads(out)["verdicts"][0]["verdict"]
    assert call("report", place / f"{kind}-study")[0] == 0
    code, _, err = call("verify-resume", place / f"{kind}.yaml", "--kills", 1)
    assert code == 0, err


def test_a_resumed_run_ends_in_the_same_weights(place: Path, call: Call) -> None:
    whole, broken, steady = place / "whole", place / "broken", ["--set", "training.schedule=constant"]
    assert call("train", place / "lstm.yaml", "--out", whole, *steady)[0] == 0
    assert call("train", place / "lstm.yaml", "--out", broken, *steady, "--set", "training.steps=2")[0] == 0
    assert call("train", broken, "--resume", "--set", "training.steps=4")[0] == 0
    weights = [json.loads((run / "checkpoints/step-4/manifest.json").read_text(encoding="utf-8")) for run in (whole, broken)]
    names = ("model.safetensors", "optimizer.safetensors")
    assert [weights[0]["sha256"][name] for name in names] == [weights[1]["sha256"][name] for name in names]


def test_the_page_opens_it(run_of: Callable[[str], Path], place: Path) -> None:
    run = run_of("gru")
    load_plugins(FILES.values())
    app = make_app(place, token="t", host="127.0.0.1", port=1, warm=False)
    with TestClient(app, base_url="http://127.0.0.1:1", headers={TOKEN_HEADER: "t"}, raise_server_exceptions=False) as page:
        name = run.name
        assert page.get("/api/run/cost", params={"run": name}).json()["parameters"] > 0
        assert page.get("/api/run/sample", params={"run": name}).json()["blocks"]
        seen = page.post("/api/look", json={"run": name, "text": "the dog"}).json()
        assert "forms no attention pattern" in seen["view"]["no_maps"]
        assert seen["next"]


def test_labels_need_a_mask_and_then_work(run_of: Callable[[str], Path], place: Path, call: Call) -> None:
    run = run_of("labels")
    assert call("ask", run, "it did bark")[0] == 0
    assert call("evaluate", run)[0] == 0
    assert json.loads(call("check", run, "--json")[1])["judged"]["padding"] == "passed"
    code, _, err = call("train", place / "unpadded.yaml", "--out", place / "unpadded")
    assert code == 1
    assert "padding could not be judged" in err


def test_answers_without_a_cache(run_of: Callable[[str], Path], call: Call) -> None:
    code, out, err = call("ask", run_of("answers"), "the dog did bark", "--beams", 2, "--json")
    assert code == 0, err
    assert json.loads(out)["answers"]
