"""Labels by the command line: ask, predict, show a batch; a pretrained encoder's run, its resume and its exported folders."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.cli.main import run as command_line
from glassformer.runs.directory import RunDirectory

transformers = pytest.importorskip("transformers")

MODEL = {"width": 12, "layers": 1, "heads": 2, "context": 9, "causal": False, "head": {"kind": "classifier", "hidden": [7]}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of labelled texts, a recipe and a run."""
    folder = tmp_path_factory.mktemp("verbs")
    rng = np.random.default_rng(1)
    own = {"cat": ["purr", "meow"], "dog": ["bark", "wag"]}
    lines = [
        f"{label} {rng.choice(own[label])} {' '.join(rng.choice(['the', 'it', 'saw'], 2))}" for label in own for _ in range(60)
    ]
    (folder / "animals.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    recipe = {
        "data": {"path": str(folder / "animals.txt"), "format": "label-text"},
        "tokenizer": {"kind": "word", "min_count": 1},
        "objective": "labels",
        "model": MODEL,
        "training": {"steps": 30, "batch_size": 12, "lr": 0.01},
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    gf.train(recipe, out=folder / "run")
    return folder


def test_ask_gives_the_label_and_every_probability(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = place / "asked.txt"
    texts.write_text("the dog did bark\nit saw meow\n", encoding="utf-8")
    assert command_line(["ask", str(place / "run"), "--questions", str(texts), "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert [one["question"] for one in answers] == ["the dog did bark", "it saw meow"]
    for one in answers:
        assert one["answer"] in ("cat", "dog")
        assert one["confidence"] + sum(other["confidence"] for other in one["alternatives"]) == pytest.approx(1.0)
    assert command_line(["ask", str(place / "run"), "a", "--pair", "b"]) == 2
    assert "This run takes one text" in capsys.readouterr().err


def test_data_show_prints_a_batch_with_shapes_and_padding(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["data", "show", str(place / "recipe.yaml")]) == 0
    shown = capsys.readouterr().out
    assert "ids int64 [12, 9], hidden bool [12, 9], labels int64 [12]" in shown
    assert "of padding" in shown
    assert re.search(r"^1: label (cat|dog), \d", shown, flags=re.MULTILINE)


def test_predictions_of_a_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = place / "own.txt"
    own.write_text("dog bark it\ncat purr the\n", encoding="utf-8")
    out = place / "predictions.tsv"
    assert command_line(["evaluate", str(place / "run"), "--data", str(own), "--predictions", str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["metrics"]["accuracy"]["n"] == 2
    assert out.read_text(encoding="utf-8").splitlines()[0].split("\t")[:4] == ["id", "text", "label", "predicted"]


def test_a_bad_label_in_a_users_file_is_one_sentence(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = place / "bad.txt"
    own.write_text("dog bark it\ncow moo the\n", encoding="utf-8")
    assert command_line(["evaluate", str(place / "run"), "--data", str(own)]) == 1
    assert "line 2: the label 'cow' does not occur" in capsys.readouterr().err


def tuned(place: Path, bert: Path, name: str, **model: Any) -> Path:
    """A run of a pretrained encoder, by ``glassformer train``; trained once for each name."""
    if (place / name).exists():
        return place / name
    recipe = {
        "data": {"path": str(place / "animals.txt"), "format": "label-text"},
        "objective": "labels",
        "model": {"kind": "pretrained", "folder": str(bert), "context": 12, **model},
        "training": {"steps": 3, "batch_size": 8, "lr": 0.05, "device": "cpu"},
        "checkpoint": {"every": 1, "keep": 3},
    }
    file = place / f"{name}.yaml"
    file.write_text(json.dumps(recipe), encoding="utf-8")
    assert command_line(["train", str(file), "--out", str(place / name), "--quiet"]) == 0
    return place / name


@pytest.fixture(scope="module")
def lora(place: Path, bert_folder: Path) -> Path:
    return tuned(place, bert_folder, "lora", tuning="lora", pool="own")


TEXTS = ["dog bark it", "purr the w5 w6", "w7 w8 w9 w10 w11 w12"]


def rows(tokenizer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids of the texts with their marks, padded, and 1 where a token is no padding: as transformers wants them."""
    encoded = [[2, *tokenizer.encode(text), 3] for text in TEXTS]
    longest = max(map(len, encoded))
    ids_BT = torch.tensor([ids + [0] * (longest - len(ids)) for ids in encoded])
    return ids_BT, (ids_BT != 0).long()


def our_scores(run: Path) -> torch.Tensor:
    loaded = gf.load(run)
    ids_BT, seen_BT = rows(loaded.tokenizer)
    with torch.no_grad():
        return loaded.model.eval()(ids_BT, key_padding_mask_BS=seen_BT == 0)


def test_a_run_says_which_tokenizer_it_used_and_goes_on(
    place: Path, lora: Path, bert_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"kind": "file", "file": f"{bert_folder}/tokenizer.json"}
    assert RunDirectory(lora).read_recipe()["tokenizer"] == own
    copy = RunDirectory(shutil.copytree(lora, place / "resumed"))
    assert command_line(["train", str(copy.root), "--resume", "--set", "training.steps=4", "--quiet"]) == 0
    assert copy.read_recipe()["tokenizer"] == own
    assert command_line(["evaluate", str(copy.root)]) == 0
    assert "at step 4" in capsys.readouterr().out


def test_plain_transformers_opens_a_merged_adapter_with_the_same_scores(
    lora: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["export", str(lora), str(place / "plain"), "--merge"]) == 0
    assert "(BertForSequenceClassification)" in capsys.readouterr().out
    assert not (place / "plain" / "adapter_model.safetensors").exists()
    model = transformers.AutoModelForSequenceClassification.from_pretrained(place / "plain").eval()
    ids_BT, seen_BT = rows(gf.load(lora).tokenizer)
    with torch.no_grad():
        theirs = model(input_ids=ids_BT, attention_mask=seen_BT).logits
    torch.testing.assert_close(our_scores(lora), theirs, rtol=1e-5, atol=1e-6)
    assert model.config.id2label == {0: "cat", 1: "dog"}
    words = transformers.AutoTokenizer.from_pretrained(place / "plain")
    assert words(TEXTS[0])["input_ids"] == [token for token in ids_BT[0].tolist() if token]


@pytest.mark.parametrize("tuning", ["lora", {"kind": "prompt", "length": 5}, {"kind": "prefix", "length": 5}], ids=str)
@pytest.mark.filterwarnings("ignore")  # the library's own advice
def test_plain_peft_opens_an_adapter_with_the_same_scores(tuning: Any, lora: Path, place: Path, bert_folder: Path) -> None:
    peft = pytest.importorskip("peft")
    kind = tuning if isinstance(tuning, str) else tuning["kind"]
    run = lora if kind == "lora" else tuned(place, bert_folder, kind, tuning=tuning, pool="own")
    folder = place / f"{kind}-adapter"
    assert command_line(["export", str(run), str(folder)]) == 0
    model = transformers.AutoModelForSequenceClassification.from_pretrained(bert_folder, num_labels=2)
    model = peft.PeftModel.from_pretrained(model, folder).eval()
    ids_BT, seen_BT = rows(gf.load(run).tokenizer)
    with torch.no_grad():
        theirs = model(input_ids=ids_BT, attention_mask=seen_BT).logits
    torch.testing.assert_close(our_scores(run), theirs, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_merged_is_said(place: Path, bert_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("prompt", "prefix"):
        run = tuned(place, bert_folder, kind, tuning={"kind": kind, "length": 5}, pool="own")
        assert command_line(["export", str(run), str(place / f"{kind}-merged"), "--merge"]) == 2
        said = capsys.readouterr().err.strip().splitlines()[-1]
        why = f"model.tuning={kind} adds inputs that a plain folder cannot store"
        assert said == f"Error: {why}; export it as an adapter (without --merge)."
        assert not (place / f"{kind}-merged").exists()


def test_head_tuning_is_a_plain_folder_with_and_without_merge(place: Path, bert_folder: Path) -> None:
    run = tuned(place, bert_folder, "head", tuning="head", pool="own")
    ids_BT, seen_BT = rows(gf.load(run).tokenizer)
    for name, flags in (("head-plain", []), ("head-merged", ["--merge"])):
        assert command_line(["export", str(run), str(place / name), *flags]) == 0
        model = transformers.AutoModelForSequenceClassification.from_pretrained(place / name).eval()
        with torch.no_grad():
            theirs = model(input_ids=ids_BT, attention_mask=seen_BT).logits
        torch.testing.assert_close(our_scores(run), theirs, rtol=1e-5, atol=1e-6)
