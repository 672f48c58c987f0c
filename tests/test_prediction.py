"""Predictions: those of plain transformers on the export, of a list and a table; abstention, temperature, strange texts."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.encoders import make_folder
from tests.refusals import refused

import glassformer as gf
from glassformer.cli.main import run as command_line
from glassformer.cli.predict import _kind_of_input
from glassformer.foundation.errors import UsageError
from glassformer.prediction import Prediction
from glassformer.run import Run

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own advice
NAMES = ("billing", "shipping", "tech")


def texts(count: int, seed: int) -> list[tuple[str, str]]:
    """Words from ten of the encoder's own for each label, of many lengths, with a tenth of the labels wrong."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        label = rng.randrange(3)
        words = [f"w{rng.randrange(4 + 10 * label, 14 + 10 * label)}" for _ in range(rng.randrange(2, 24))]
        found.append((" ".join(words), NAMES[label if rng.random() > 0.1 else rng.randrange(3)]))
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("prediction")
    with (place / "t.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["message", "kind"], *texts(240, 1)])
    recipe = {
        "data": {"path": str(place / "t.csv"), "text_column": "message", "label_column": "kind", "split": {"validation": 0.4}},
        "objective": "labels",
        "model": {"kind": "pretrained", "folder": str(make_folder(place / "encoder")), "pool": "own", "context": 16},
        "training": {"steps": 40, "batch_size": 16, "lr": 0.003, "device": "cpu"},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLASSFORMER_CACHE", str(place / "cache"))
        patch.setattr("glassformer.experiment.require_network", lambda model, **options: _passed())
        return gf.load(gf.train(recipe, out=place / "run").folder)


def _passed() -> Any:
    from glassformer.checks.check_report import CheckReport

    return CheckReport(subject="a tiny model")


def test_probabilities_are_those_of_plain_transformers_on_the_export(run: Run, tmp_path: Path) -> None:
    run.save_pretrained(tmp_path / "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "hf").eval()
    asked = [text for text, _ in texts(50, 2)]
    assert max(len(text.split()) for text in asked) > 16  # some are cut
    batch = tokenizer(asked, truncation=True, padding=True, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        theirs = model(**batch).logits.softmax(-1).numpy()
    ours = run.predict(asked, temperature=False)
    assert np.abs(np.array([list(one.probabilities.values()) for one in ours]) - theirs).max() < 1e-5
    assert [one.label for one in ours] == [model.config.id2label[at] for at in theirs.argmax(1)]
    one_by_one = [run.predict([text], temperature=False)[0].confidence for text in asked[:9]]
    assert one_by_one == pytest.approx([one.confidence for one in ours[:9]], abs=1e-6)


def test_the_temperature_makes_validation_more_likely_and_is_stored(run: Run) -> None:
    heat = run.predictor().reference
    assert heat is not None
    assert run.directory.prediction_file.is_file()
    held_out = run.data.part("labels").split("validation")

    def loss(temperature: bool) -> float:
        found = run.predict(held_out.texts, temperature=temperature)
        return -float(np.mean([np.log(one.probabilities[NAMES[label]]) for one, label in zip(found, held_out.labels)]))

    assert loss(True) <= loss(False) + 1e-4
    again = gf.load(run.folder).predictor().reference
    assert again is not None
    assert again.temperature == heat.temperature


def test_unsure_answers_are_withheld_for_a_wanted_precision(run: Run) -> None:
    held_out = run.data.part("labels").split("validation")
    found = run.predict(held_out.texts, precision=0.95)
    given = [one.label == held_out.label_names[label] for one, label in zip(found, held_out.labels) if not one.abstained]
    assert 0 < len(given) < len(found)
    assert np.mean(given) >= 0.95
    covered = run.predict(held_out.texts, coverage=0.5)
    assert 0.5 <= np.mean([not one.abstained for one in covered]) < 0.6
    with refused(UsageError, "two-rules"):
        run.predict(["w5"], precision=0.9, coverage=0.9)
    with refused(UsageError, "not-a-share"):
        run.predict(["w5"], precision=90.0)


def test_a_text_of_words_nobody_knows_is_unlike_anything_seen(run: Run) -> None:
    known = run.predict([text for text, _ in texts(100, 3)])
    assert np.mean([bool(one.unlike) for one in known]) < 0.08
    assert run.predict(["где моя посылка сегодня", "quite other words than those"])[0].unlike


def test_a_table_keeps_its_columns(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [["id", "message", "note"], *([str(at), text, "n;o"] for at, (text, _) in enumerate(texts(20, 4)))]
    rows[5][1] = "  "
    with (tmp_path / "in.csv").open("w", newline="") as stream:
        csv.writer(stream, delimiter=";").writerows(rows)
    words = ["predict", str(run.folder), str(tmp_path / "in.csv"), "--out"]
    assert command_line([*words, str(tmp_path / "out.csv"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["rows"], document["answered"]) == (20, 19)
    with (tmp_path / "out.csv").open(newline="") as stream:
        found = list(csv.DictReader(stream, delimiter=";"))
    assert [[row["id"], row["message"], row["note"]] for row in found] == rows[1:]
    assert (found[4]["predicted"], found[4]["abstained"]) == ("", "true")
    expected = run.predict([found[7]["message"]])[0]
    assert found[7]["predicted"] == expected.label
    assert [float(found[7][f"p({name})"]) for name in NAMES] == pytest.approx(list(expected.probabilities.values()), abs=1e-6)
    assert command_line([*words, str(tmp_path / "out.jsonl"), "--quiet"]) == 0
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["predicted"] for line in lines] == [row["predicted"] or None for row in found]
    capsys.readouterr()
    assert command_line(["predict", str(run.folder), str(tmp_path / "out.csv")]) == 1  # it has these columns already
    assert "'predicted'" in capsys.readouterr().err


def test_what_ask_says_of_a_number_and_of_several_labels() -> None:
    """A number with its interval; of several labels each with its own probability, beside that of all of them."""
    number = Prediction(value=2.5, low=1.25, high=4.0).as_answer("x")
    assert (number.to_dict()["low"], number.to_dict()["high"]) == (1.25, 4.0)
    assert "1.25 to 4" in str(number)
    several = Prediction(labels=("a", "b"), probabilities={"a": 0.8, "b": 0.5, "c": 0.1}).as_answer("x")
    assert several.confidence == pytest.approx(0.8 * 0.5 * 0.9)
    assert several.alternatives == (("a", 0.8), ("b", 0.5), ("c", 0.1))
    assert several.to_dict()["several"]
    assert not Prediction("a", 0.8, {"a": 0.8, "b": 0.2}).as_answer("x").several


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("begins", "kind"),
    [
        (b'{"text": 1}\n', "jsonl"),
        (b'\xef\xbb\xbf {"text": 1}\n', "jsonl"),
        (b"text;label\n", "csv"),
        ("text\n{}".encode("utf-16"), "csv"),
    ],
)
def test_what_standard_input_is(begins: bytes, kind: str, packed: bool, tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(gzip.compress(begins) if packed else begins)
    assert _kind_of_input(tmp_path / "input") == kind


def test_what_was_found_in_a_table_is_said(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes("message;n\nw5 Müßiggänger;1\n".encode("cp1252"))
    assert command_line(["predict", str(run.folder), str(file), "--out", str(tmp_path / "out.csv")]) == 0
    said = capsys.readouterr().err
    assert "semicolons" in said
    assert "'Müßiggänger'" in said
    file.write_text("message,n\nw5,1\n")
    assert command_line(["predict", str(run.folder), str(file), "--out", str(tmp_path / "out.csv")]) == 0
    assert "was read with" not in capsys.readouterr().err


def test_a_parquet_table_from_standard_input(run: Run, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    parquet, table = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow").table
    parquet.write_table(table({"message": ["w5 w6", "w15"], "n": [1, 2]}), tmp_path / "t.parquet")
    with (tmp_path / "t.parquet").open("rb") as stream, monkeypatch.context() as patch:
        patch.setattr("sys.stdin", io.TextIOWrapper(stream))
        assert command_line(["predict", str(run.folder), "-"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [(line["n"], line["predicted"]) for line in lines] == [
        (at, run.predict([text])[0].label) for at, text in ((1, "w5 w6"), (2, "w15"))
    ]


def test_what_is_no_classifier_and_no_table(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.txt").write_text("w5\n")
    assert command_line(["predict", str(run.folder), str(tmp_path / "t.txt")]) == 2
    (tmp_path / "t.csv").write_text("massage\nw5\n")
    assert command_line(["predict", str(run.folder), str(tmp_path / "t.csv")]) == 1
    assert "--text-column" in capsys.readouterr().err
