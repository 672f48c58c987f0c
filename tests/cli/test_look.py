"""``glassformer look``."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from glassformer.experiment import train
from glassformer.foundation.yaml_text import dump_yaml

TEXT = "the cat sat"


@pytest.fixture(scope="module")
def filmed(tiny_text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    recipe = {
        "data": {"path": str(tiny_text), "document": "line", "split": {"validation": 0.2, "test": 0.1}},
        "model": {"width": 12, "heads": 3, "layers": 2, "context": 16},
        "training": {"steps": 9, "batch_size": 6, "lr": 0.02, "device": "cpu"},
        "checkpoint": {"film": 4, "every": 4},
        "seed": 5,
    }
    return train(recipe, out=tmp_path_factory.mktemp("filmed") / "run").folder


def test_the_document(cli, filmed: Path) -> None:
    answer = cli("look", filmed, TEXT, "--json").json
    assert "".join(answer["tokens"]) == TEXT
    attention = np.array(answer["attention"])
    assert attention.shape == (2, 3, 11, 11)
    np.testing.assert_allclose(attention.sum(axis=-1), 1.0, atol=1e-5)
    assert len(answer["losses"]) == 11
    hidden = np.array(cli("look", filmed, TEXT, "--json", "--hide", 3).json["attention"])
    assert not hidden[..., 3].any()
    untrained = cli("look", filmed, TEXT, "--json", "--checkpoint", "untrained").json
    assert untrained["attention"] != answer["attention"]
    assert cli("look", filmed, TEXT, "--json", "--checkpoint", 0).json["attention"] == untrained["attention"]
    one = cli("look", filmed, TEXT, "--json", "--layer", 1, "--head", 2).json
    assert np.shape(one["attention"]) == (1, 1, 11, 11)


def test_side_by_side_and_the_film(cli, filmed: Path) -> None:
    both = cli("look", filmed, TEXT, "--compare", "untrained", "--json").json
    assert (both["model"], both["compare"]["model"]) == ("last", "untrained")
    film = cli("look", filmed, TEXT, "--film", "--json").json["film"]
    assert [moment["model"] for moment in film] == ["step 0", "step 1", "step 3", "step 9"]
    assert film[-1]["attention"] == both["attention"]  # the last snapshot is the last checkpoint
    other = cli("look", filmed, TEXT, "--compare", filmed, "--json").json
    assert other["compare"]["attention"] == other["attention"]


def test_side_by_side_with_another_tokenizer(cli, filmed: Path, tiny_text: Path, tmp_path: Path) -> None:
    recipe = {
        "data": {"path": str(tiny_text), "document": "line", "split": {"validation": 0.2, "test": 0.1}},
        "tokenizer": {"kind": "bpe", "vocab": 270},
        "model": {"width": 8, "heads": 2, "layers": 1, "context": 16},
        "training": {"steps": 1, "batch_size": 2, "device": "cpu"},
    }
    pairs = train(recipe, out=tmp_path / "pairs").folder
    answer = cli("look", filmed, TEXT, "--compare", pairs, "--out", tmp_path / "both.html")
    assert answer.code == 0
    assert "The two tokenizers split the text differently (" in answer.err
    both = cli("look", filmed, TEXT, "--compare", pairs, "--json").json
    assert len(both["compare"]["tokens"]) < len(both["tokens"]) == 11
    assert np.shape(both["compare"]["attention"])[:2] == (1, 2)
    assert "split the text differently" not in cli("look", filmed, TEXT, "--compare", "untrained", "--json").err


def test_the_table(cli, filmed: Path) -> None:
    answer = cli("look", filmed, TEXT, "--layer", 1, "--head", 0)
    assert answer.code == 0
    assert "induction" in answer.out
    assert "10 't' reads" in answer.out


def test_effects(cli, filmed: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("the cat\nan old hen\nto see it\n", encoding="utf-8")
    answer = cli("look", filmed, TEXT, "--ablate", "mean", "--texts", tmp_path / "texts.txt", "--json").json["ablation"]
    assert np.shape(answer["effects"]) == (2, 3)
    assert answer["effects"][0][0]["n"] == 3
    assert "nats per token more" in cli("look", filmed, TEXT, "--ablate", "zero").out


def test_effects_are_those_of_the_model_that_is_named(cli, filmed: Path, tmp_path: Path) -> None:
    """Also beside another model and in a film, whose looks stand before it; and with the positions hidden that are."""

    def effects(*words: object) -> list[list[float]]:
        document = cli("look", filmed, TEXT, "--ablate", "zero", "--json", *words).json
        return [[head["value"] for head in layer] for layer in document["ablation"]["effects"]]

    own = effects()
    assert effects("--compare", "untrained") == own
    assert effects("--film") == own
    assert effects("--checkpoint", "untrained") != own
    assert effects("--hide", 3) != own
    shown = cli("look", filmed, TEXT, "--ablate", "zero", "--compare", "untrained", "--out", tmp_path / "page.html").out
    assert "last, without the head (zero): nats per token more" in shown


@pytest.mark.parametrize("name", ["page.html", "map.svg", "map.png"])
def test_files(cli, filmed: Path, tmp_path: Path, name: str) -> None:
    answer = cli("look", filmed, TEXT, "--out", tmp_path / name, "--compare", "untrained")
    assert answer.out == f"{tmp_path / name}\n"
    assert (tmp_path / name).stat().st_size > 1000
    assert name == "page.html" or (tmp_path / name).with_stem("map-untrained").is_file()


def test_looking_leaves_the_run_as_it_was(cli, filmed: Path) -> None:
    before = sorted((file, file.stat().st_mtime_ns) for file in filmed.rglob("*"))
    cli("look", filmed, TEXT, "--json")
    assert before == sorted((file, file.stat().st_mtime_ns) for file in filmed.rglob("*"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([""], "The text is empty"),
        (["the cat sat on a mat and"], "The text has 24 tokens, but model.context=16"),
        ([TEXT, "--layer", "7"], "--layer 7 cannot be used: this network has the layers 0 to 1; give one of them."),
        ([TEXT, "--layer", "0", "--head", "3"], "--head 3 cannot be used: each layer has the heads 0 to 2; give one of them."),
        ([TEXT, "--head", "1"], "--head 1 needs its layer"),
        ([TEXT, "--hide", "11"], "--hide 11 cannot be used: this text has the positions 0 to 10; give one of them."),
        ([TEXT, "--out", "map.gif"], "--out map.gif must end in .html"),
        ([TEXT, "--film", "--compare", "best"], "--film and --compare are both given"),
        ([TEXT, "--checkpoint", "newest"], "must be best, last or a step"),
        ([TEXT, "--ablate", "twice"], "--ablate twice cannot be used: choose zero, mean, resample."),
        ([TEXT, "--texts", "lines.txt"], "--texts lines.txt is used only with --ablate; add --ablate zero"),
        (
            [TEXT, "--ablate", "resample"],
            "--ablate resample takes outputs from another text; give --texts FILE with at least two",
        ),
    ],
)
def test_bad_words(cli, filmed: Path, words: list[str], sentence: str) -> None:
    answer = cli("look", filmed, *words)
    assert answer.code == 2
    assert sentence in answer.sentence


def test_a_run_without_what_was_asked_for(cli, filmed: Path, trained: Path, tmp_path: Path) -> None:
    assert "has nothing of step 5; it has 0, 1, 3, 8, 9, and untrained" in cli("look", filmed, TEXT, "--checkpoint", 5).sentence
    assert "has no film; train with --set checkpoint.film=12" in cli("look", trained, TEXT, "--film").sentence
    shutil.copytree(filmed, tmp_path / "bare")
    shutil.rmtree(tmp_path / "bare" / "checkpoints")
    answer = cli("look", tmp_path / "bare", TEXT)
    assert answer.code == 1
    assert "has no complete checkpoint yet" in answer.sentence


def test_a_mixer_without_a_pattern(cli, tiny, tmp_path: Path, unchecked) -> None:
    tiny["model"] |= {"mixer": "none", "dropout": 0.0}
    (tmp_path / "r.yaml").write_text(dump_yaml(tiny), encoding="utf-8")
    assert cli("train", tmp_path / "r.yaml", "--out", tmp_path / "run").code == 0
    found = cli("look", tmp_path / "run", TEXT, "--json").json
    assert found["attention"] is None
    assert "model.mixer=none forms no attention pattern" in found["no_attention"]
    assert cli("look", tmp_path / "run", TEXT).code == 0
    for more in (["--layer", 0], ["--out", tmp_path / "map.svg"]):
        answer = cli("look", tmp_path / "run", TEXT, *more)
        assert answer.code == 2
        assert "model.mixer=none forms no attention pattern" in answer.sentence
    assert cli("look", tmp_path / "run", TEXT, "--out", tmp_path / "page.html").code == 0


def test_step_0_of_a_child_is_its_parent(cli, filmed: Path, tiny, tmp_path: Path, unchecked) -> None:
    tiny |= {"init_from": str(filmed), "model": {"width": 12, "heads": 3, "layers": 2, "context": 16}}
    child = train(tiny, out=tmp_path / "child").folder
    wanted = cli("look", filmed, TEXT, "--json").json["attention"]
    assert cli("look", child, TEXT, "--json", "--checkpoint", 0).json["attention"] == wanted
    assert cli("look", child, TEXT, "--json", "--checkpoint", "untrained").json["attention"] != wanted
