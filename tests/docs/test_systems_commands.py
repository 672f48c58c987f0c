"""docs/systems.md and docs/exercises: every command is executed, in order, in a short form on small files of the same shape.

Short: two steps of training on four rows in a narrow network, a study as a dry run, a benchmark of small sizes, a tiny encoder
instead of one that would have to be downloaded. The scripts of bench/ have tests of their own.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.encoders import make_folder

from glassformer.cli.main import run
from glassformer.foundation.yaml_text import parse_yaml

ROOT = Path(__file__).parents[2]
ROWS = [row for one in parse_yaml((ROOT / "docs/systems.yaml").read_text(), "systems.yaml")["systems"] for row in one["rows"]]
EXERCISES = parse_yaml((ROOT / "docs/exercises.yaml").read_text(), "exercises.yaml")["exercises"]
ITEMS = [item for one in EXERCISES for item in one["items"]]
LINES = [*(line for row in ROWS for line in row["commands"]), *(line for item in ITEMS for line in item.get("run", ()))]
COMMANDS = [words for words in dict.fromkeys(LINES) if words.startswith("glassformer ")]
QUOTED = [item for item in ITEMS if "prints" in item]
AS_THEY_STAND = {
    line for item in QUOTED for line in item["run"] if line.startswith("glassformer byhand") or "--dry-run" in line
}
"""Executed in full, and what they print is compared."""
REFUSED = [line for item in ITEMS for line in item.get("refused", ())]
STEPS = {
    "training.steps": 2,
    "training.batch_size": 4,
    "training.accumulate": 1,
    "evaluation.every": 2,
    "evaluation.batch_size": 8,
}
CAPTIONS = ("train", "val", "test_2016_flickr")
SIZES = {
    ("names", "multi30k", "transformer", "shakespeare", "world", "docstrings"): {"model.width": 32, "model.layers": 1},
    ("speeches", "numbers"): {"model.width": 32},  # commands look at their later layers
}
SMALL = {
    "gpt-nano-words": {"model.context": 32},
    "bpe": {"tokenizer.vocab": 300},
    "numbers-in-words": {"data.set.pairs": 600, "data.set.held_out": 30},
}
TRIAL = re.compile(r"studies/[\w-]+/trials/base/seed-\d+")
ENCODERS = ("sst2", "boolq")
"""Recipes and studies of pretrained encoders, by how their names begin."""


def write_sets(folder: Path) -> None:
    """Small files in the shape of each named set."""
    sentence = "the old river ran past a small house and we will not fail to see what it was in that year of hope"
    words = sentence.split(" ")
    lines = [
        " ".join(words[(5 * at + 3 * place * (1 + at % 3)) % len(words)] for place in range(6 + at % 9)) for at in range(240)
    ]
    people = [
        f"{first} {last}"
        for first in ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn")
        for last in ("Lovelace", "Hale", "Roy", "Lund", "Ames")
    ]
    places = ("Oslo", "Rome", "Bern", "Lima")
    asked = [f"Where was {name} born?\t{places[at % 4]}" for at, name in enumerate(people)]
    files: dict[str, list[str]] = {
        "wikitext-2/train.txt": [
            row for at, line in enumerate(lines) for row in ([f" = Title {at} = "] if at % 20 == 0 else []) + [f" {line} . "]
        ],
        "wikitext-2/valid.txt": [
            " = Other = ",
            *(f" {line} . " for line in lines[:40]),
            " = Last = ",
            *(f" {line} . " for line in lines[40:80]),
        ],
        "tinyshakespeare/input.txt": lines * 3,
        "speeches/train_lm.txt": lines,
        "speeches/test_lm_obama.txt": lines[:12],
        "speeches/test_lm_hbush.txt": lines[12:24],
        "speeches/train_classify.tsv": [f"{at % 3}\t{line}" for at, line in enumerate(lines)],
        "speeches/dev_classify.tsv": [f"{at % 3}\t{line}" for at, line in enumerate(lines[:30])],
        "sst2/train.txt": [f"{at % 2} {line}" for at, line in enumerate(lines)],
        "sst2/dev.txt": [f"{at % 2} {line}" for at, line in enumerate(lines[:30])],
        "boolq/train.jsonl": [
            json.dumps({"question": "is it", "answer": at % 3 == 0, "passage": lines[at % 240]}) for at in range(8040)
        ],
        "boolq/dev.jsonl": [json.dumps({"question": "is it", "answer": at % 3 == 0, "passage": lines[at]}) for at in range(40)],
        "names/wiki.txt": [f"{name}. Where? {name} was born in {places[at % 4]} ." for at, name in enumerate(people)],
        "names/train.tsv": asked[:24],
        "names/dev.tsv": asked[24:],
        "names/test_inputs.tsv": ["Where was Ada Lund born?"],
        "sst2/test.txt": [f"{at % 2} {line}" for at, line in enumerate(lines[30:50])],
        **{f"multi30k/{split}.de": [line.upper() for line in lines[:40]] for split in CAPTIONS},
        **{f"multi30k/{split}.en": lines[:40] for split in CAPTIONS},
    }
    for name, rows in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, few_docstrings: None) -> Iterator[Path]:
    """One folder for all commands, since later ones read what earlier ones wrote; with the sets beside it."""
    folder = tmp_path_factory.mktemp("systems")
    write_sets(folder / "data")
    (folder / "prompts.txt").write_text("The history of\nA small house\n")
    merges = ["#version: 0.2", "t h", "th e", "Ġ the", "o l", "ol d"]
    (folder / "vocab.bpe").write_text("\n".join(merges) + "\n", encoding="utf-8")
    before = os.environ.get("GLASSFORMER_DATA")
    os.environ["GLASSFORMER_DATA"] = str(folder / "data")
    yield folder
    os.environ.pop("GLASSFORMER_DATA") if before is None else os.environ.update(GLASSFORMER_DATA=before)


def short(line: str, encoder: Path) -> list[str]:
    """The command's words, with flags that make it short."""
    words, sets = shlex.split(os.path.expandvars(line.removeprefix("glassformer "))), dict[str, Any]()
    verb, name, *rest = [*words, ""]
    if name.startswith(ENCODERS) or ((verb, name) == ("data", "show") and rest[0].startswith(ENCODERS)):
        sets |= {"model.folder": encoder, "model.context": 8}
    if verb == "compare":
        words += ["--dry-run"]
        sets |= {"training.batch_size": 4, "training.accumulate": 1}
    elif verb == "train":
        sets |= next((sizes for begin, sizes in SIZES.items() if name.startswith(begin)), {})
        sets |= STEPS | next((more for ending, more in SMALL.items() if name.endswith(ending) and "tokenizer=" not in line), {})
        sets |= {"init_from": "runs/names-pretrain"} if name == "names-finetune" else {}
    elif verb == "bench":
        small = {
            "attention": ["--lengths", "8,16,32", "--repeats", "1"],
            "train": ["--steps", "1"],
            "generate": ["--new", "2", "--prompt", "2"],
        }
        sizes = ["--width", "16", "--layers", "1", "--heads", "2"] if name != "attention" else []
        words = [verb, name, *[word for word in rest if word and name != "attention"], *small[name], *sizes]
    gone = {*sets, "training.epochs"} if "training.steps" in sets else {*sets}
    kept = [
        word
        for at, word in enumerate(words)
        if not (word == "--set" and words[at + 1].split("=")[0] in gone)
        and not (at and words[at - 1] == "--set" and word.split("=")[0] in gone)
    ]
    return [*kept, *(word for key, value in sets.items() for word in ("--set", f"{key}={value}"))]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with places for a prompt of 128."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.encoders.PLACES", 160)
        return make_folder(tmp_path_factory.mktemp("encoder"))


TAKE_LONG = ("compare translation", "wikitext-2", "tinyshakespeare", "sst2-grid", "knowledge", "boolq-tuning")
"""Studies whose dry run times the steps of many or of large variants."""


def lines() -> list[Any]:
    slow = {line for line in COMMANDS if line.startswith("glassformer compare") and any(name in line for name in TAKE_LONG)}
    slow |= {line for line in COMMANDS if "compare gpt-nano-words" in line or "compare translation" in line}
    shortened = [line for line in COMMANDS if line not in AS_THEY_STAND]
    return [pytest.param(line, marks=pytest.mark.slow) if line in slow else line for line in shortened]


@pytest.mark.parametrize("line", lines())
def test_every_command_runs(line: str, place: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch, unchecked: None) -> None:
    monkeypatch.chdir(place)
    if (trial := TRIAL.search(line)) and not Path(trial[0]).exists():  # its study is only a dry run here
        assert run(short(f"glassformer train sst2-exercise --set data.validation=null --out {trial[0]}", encoder)) == 0
    assert run(short(line, encoder)) == 0


WITHOUT_WEIGHTS = (
    "data show sst2-exercise",
    "train sst2-exercise --set training.batch_size=128 --dry-run",
    "train sst2-exercise --set training.optimizer=sgd --out runs/own --set checkpoint.best=true",
    "report runs/own --figure curves.svg",
    "evaluate runs/own --checkpoint best --split train",
    "compare sst2-exercise --tune training.batch_size=8,16 --tune training.epochs=2,5 --seeds 2 --out studies/own",
)


def test_part_3_of_s0_runs_without_weights(
    place: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch, unchecked: None
) -> None:
    """As the top of the page says: speeches-classify-exercise in the place of sst2-exercise."""
    monkeypatch.chdir(place)
    for line in WITHOUT_WEIGHTS:
        assert run(short("glassformer " + line.replace("sst2-exercise", "speeches-classify-exercise"), encoder)) == 0, line


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_to_be_refused_is(line: str, place: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    assert run(short(line, encoder)) == 2


@pytest.mark.parametrize("item", QUOTED, ids=lambda item: item["id"])
def test_what_an_answer_quotes_is_printed(
    item: dict[str, Any], place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands of attention by hand and of sizes, as they stand."""
    monkeypatch.chdir(place)
    for line in item["run"]:
        if line in AS_THEY_STAND:
            assert run(shlex.split(line)[1:]) == 0
    printed = capsys.readouterr().out
    assert [quoted for quoted in item["prints"] if str(quoted) not in printed] == []


def test_sizes_in_the_text_are_those_that_the_commands_print(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3.1: 434,403 parameters with the classifier, 427,600 without, 801,803 for the decoder."""
    monkeypatch.chdir(place)
    assert run(["train", "speeches-classify-exercise", "--dry-run"]) == 0
    assert "427,600" in capsys.readouterr().out
    printed = []
    for line in COMMANDS:
        if line.startswith("glassformer train speeches-") and "--dry-run" in line:
            capsys.readouterr()
            assert run([*shlex.split(line)[1:], "--json"]) == 0
            printed.append(json.loads(capsys.readouterr().out)["parameters"])
    assert printed == [434403, 801803] * 2
