"""``glassformer evaluate``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from tests.refusals import refused

from glassformer.experiment import train
from glassformer.foundation.errors import UsageError
from glassformer.runs.directory import RunDirectory
from glassformer.web.routes.runs import evaluation_of


def test_figures_for_people_and_as_json(cli, trained) -> None:
    answer = cli("evaluate", trained)
    assert answer.code == 0
    for word in ("loss", "perplexity", "bits_per_byte", "unigram"):
        assert word in answer.out
    document = cli("evaluate", trained, "--json").json
    assert set(document) >= {"metrics", "baselines", "tainted"}
    assert set(document["metrics"]["perplexity"]) >= {"value", "low", "high", "n"}
    assert document["tainted"] is False


def test_another_checkpoint(cli, trained) -> None:
    early = cli("evaluate", trained, "--checkpoint", 4, "--json").json["metrics"]["loss"]["value"]
    late = cli("evaluate", trained, "--checkpoint", "last", "--json").json["metrics"]["loss"]["value"]
    assert early > late
    answer = cli("evaluate", trained, "--checkpoint", 7)
    assert answer.code == 1
    assert "has no checkpoint of step 7; it has 4, 8, 12" in answer.sentence
    assert cli("evaluate", trained, "--checkpoint", "newest").code == 2


def test_a_run_copied_without_its_optimizer(cli, trained, tmp_path) -> None:
    """The same figures on stdout with a note, one line more on stderr. The same where the file is there and damaged."""
    shutil.copytree(trained, tmp_path / "run")
    files = sorted((tmp_path / "run").rglob("optimizer.safetensors"))
    for file in files:
        file.unlink()
    answer = cli("evaluate", tmp_path / "run", "--json")
    whole, said = cli("evaluate", trained, "--json").json, answer.json["notes"]
    assert any("optimizer.safetensors is missing" in note for note in said)
    assert (answer.code, {**answer.json, "notes": whole["notes"]}) == (0, whole)
    assert " ".join(answer.err.split()).count("optimizer.safetensors is missing. The weights are intact") == 1
    for file in files:
        file.write_bytes(b"x")
    answer = cli("evaluate", tmp_path / "run", "--json")
    assert (answer.code, {**answer.json, "notes": whole["notes"]}) == (0, whole)
    assert "optimizer.safetensors is damaged" in " ".join(answer.err.split())


def test_opening_test_is_recorded(cli, trained, tmp_path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    assert cli("evaluate", tmp_path / "run", "--split", "test", "--json").code == 0
    assert len(RunDirectory(tmp_path / "run").openings()) == 1


def test_a_file_texts_and_predictions(cli, trained, tiny_text, tmp_path) -> None:
    assert cli("evaluate", trained, "--data", tiny_text, "--json").json["metrics"]["loss"]["n"] == 120
    document = cli("evaluate", trained, "--text", "the cat sat", "--text", "an old hen", "--json").json
    assert len(document["texts"]) == 2
    assert document["metrics"]["loss"]["n"] == 2
    cli("evaluate", trained, "--predictions", tmp_path / "p.tsv")
    assert (tmp_path / "p.tsv").read_text().startswith("position\tid\ttoken\tnats\n")
    answer = cli("evaluate", trained, "--text", "a", "--data", tiny_text)
    assert answer.code == 2
    assert "--data and --text are both given" in answer.sentence


def test_what_is_no_run_and_a_damaged_one(cli, trained, tmp_path) -> None:
    answer = cli("evaluate", tmp_path)
    assert answer.code == 1
    assert "is not a run" in answer.sentence
    shutil.copytree(trained, tmp_path / "run")
    file = RunDirectory(tmp_path / "run").checkpoint(12) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    answer = cli("evaluate", tmp_path / "run", "--json")
    assert answer.code == 0
    assert "step-12/model.safetensors is damaged" in answer.err
    assert answer.json["step"] == 8
    assert cli("evaluate", tmp_path / "run", "--checkpoint", 12).code == 1


TINY = ("model.width=12", "model.heads=3", "training.steps=2", "training.batch_size=4", "evaluation.every=2")


@pytest.fixture
def speeches(cli, tmp_path, monkeypatch):
    """A run of speeches-lm on a few lines of ours, with two test files."""
    folder = tmp_path / "data" / "speeches"
    folder.mkdir(parents=True)
    lines = [f"the people of the {word} are with us\n" for word in ("north", "south", "east", "west") * 20]
    (folder / "train_lm.txt").write_text("".join(lines))
    (folder / "train_classify.tsv").write_text("0\tthe people are free\n")
    (folder / "test_lm_obama.txt").write_text("the people of the north are free\n" * 7)
    (folder / "test_lm_hbush.txt").write_text("the west is with the people\n" * 5)
    monkeypatch.setenv("GLASSFORMER_DATA", str(folder.parent))
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    assert cli("train", "speeches-lm", "--out", tmp_path / "run", *(word for one in TINY for word in ("--set", one))).code == 0
    return tmp_path / "run"


def test_one_of_several_test_files(cli, speeches) -> None:
    one, other, both = (
        cli("evaluate", speeches, "--split", split, "--json").json for split in ("test:obama", "test:hbush", "test")
    )
    assert (one["name"], one["documents"], other["documents"], both["documents"]) == ("test:obama", 7, 5, 12)
    assert [opening["split"] for opening in RunDirectory(speeches).openings()] == ["test:obama", "test:hbush", "test"]


def test_a_wrong_split_is_answered_with_the_names_and_opens_nothing(cli, speeches) -> None:
    answer = cli("evaluate", speeches, "--split", "test:obma")
    assert answer.code == 2
    assert (
        "--split has no 'test:obma'. Did you mean 'test:obama'? Known: test, test:hbush, test:obama, train, validation"
        in answer.sentence
    )
    assert cli("evaluate", speeches, "--split", "valid").code == 2
    assert RunDirectory(speeches).openings() == []


def test_the_texts_of_a_recipe_are_measured_beside_a_split(cli, trained, tmp_path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    recipe = tmp_path / "run" / "recipe.yaml"
    assert "texts: {}" in recipe.read_text()
    recipe.write_text(recipe.read_text().replace("texts: {}", "texts: {plain: the cat sat on a mat, odd: hen hen hen}"))
    document = cli("evaluate", tmp_path / "run", "--json").json
    assert [text["name"] for text in document["texts"]] == ["plain", "odd"]
    assert document["name"] == "validation"
    alone = cli("evaluate", tmp_path / "run", "--text", "the cat sat on a mat", "--json").json
    assert document["texts"][0]["metrics"]["loss"]["value"] == pytest.approx(alone["metrics"]["loss"]["value"])
    answer = cli("evaluate", tmp_path / "run")
    lines = answer.out.splitlines()
    table = lines[lines.index("Texts, each on its own:") + 1 :]
    assert table[0].split()[:4] == ["text", "tokens", "loss", "perplexity"]
    assert [line.split()[0] for line in table[2:4]] == ["plain", "odd"]
    assert "texts" not in cli("evaluate", trained, "--json").json
    both = cli("evaluate", tmp_path / "run", "--text", "a mat sat").out.splitlines()
    names = [line.split("  ")[0] for line in both[both.index("Texts, each on its own:") + 3 :]]
    assert names == ["plain", "odd", "a mat sat"]


def test_a_part_changed_at_inference(cli, trained) -> None:
    plain, hidden = (
        cli("evaluate", trained, "--json", *more).json["metrics"]["loss"]["value"]
        for more in ((), ("--set", "model.mixer={kind: dot, masked: [0]}"))
    )
    assert hidden != pytest.approx(plain, rel=1e-4)
    assert cli("evaluate", trained, "--json").json["metrics"]["loss"]["value"] == plain
    assert cli("evaluate", trained, "--set", "training.lr=1").code == 2
    assert cli("evaluate", trained, "--set", "model.width=8").code == 2


def labelled(file: Path, rows: int, *, reverse: bool = False) -> Path:
    """Texts that say which of two labels they have; ``reverse``: on other lines."""
    numbers = range(rows)[::-1] if reverse else range(rows)
    lines = [f"{'good' if number % 2 else 'bad'}\tfilm {number} was {'fun' if number % 2 else 'dull'}\n" for number in numbers]
    file.parent.mkdir(exist_ok=True)
    file.write_text("label\ttext\n" + "".join(lines), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of the same texts, with a checkpoint of step 2 each."""
    folder = tmp_path_factory.mktemp("judges")
    recipe = {
        "data": {"path": str(labelled(folder / "lab.tsv", 60))},
        "tokenizer": {"kind": "word", "min_count": 1},
        "objective": "labels",
        "model": {"width": 8, "layers": 1, "heads": 2, "context": 9, "causal": False, "head": "classifier"},
        "training": {"steps": 4, "batch_size": 8, "device": "cpu"},
        "checkpoint": {"every": 2},
    }
    one, other = (train({**recipe, "seed": seed}, out=folder / f"run{seed}").folder for seed in (1, 2))
    return one, other


def counted(document) -> int:
    return sum(document["against"][key] for key in ("both", "only_first", "only_second", "neither"))


def test_two_runs_are_set_against_each_other_on_the_same_file_and_checkpoint(cli, judges, tmp_path) -> None:
    one, other = judges
    file = labelled(tmp_path / "more.tsv", 20)
    document = cli("evaluate", one, "--data", file, "--against", other, "--json").json
    assert document["metrics"]["accuracy"]["n"] == counted(document) == 20
    document = cli("evaluate", one, "--checkpoint", 2, "--against", one, "--json").json
    assert document["step"] == 2
    assert document["against"]["only_first"] == document["against"]["only_second"] == 0
    right = document["metrics"]["accuracy"]["value"] * document["metrics"]["accuracy"]["n"]
    assert document["against"]["both"] == round(right)
    assert "has no checkpoint of step 3" in cli("evaluate", one, "--checkpoint", 3, "--against", other).sentence
    answer = cli("evaluate", one, "--text", "film 1 was fun", "--against", other)
    assert answer.code == 2
    assert "--against counts right answers, but --text gives texts without answers; give a file with --data" in answer.sentence


def test_texts_of_two_files_with_one_name_are_not_paired(cli, judges, tmp_path) -> None:
    """The same name and lines, hence the same ids, and other texts: refused."""
    one, _ = judges
    file = labelled(tmp_path / "lab.tsv", 60, reverse=True)
    recipe = RunDirectory(one).read_recipe()
    recipe["data"]["path"] = str(file)
    stranger = train(recipe, out=tmp_path / "stranger").folder
    answer = cli("evaluate", one, "--against", stranger)
    assert answer.code == 1
    assert "were evaluated on different items, so they cannot be paired; give one file for both with --data" in answer.sentence
    assert counted(cli("evaluate", one, "--against", stranger, "--data", file, "--json").json) == 60


def test_windows_of_another_length(cli, tiny, tmp_path: Path, unchecked) -> None:
    """Longer windows where no weight belongs to a position, shorter ones always; the losses are those of the longer model."""
    tiny["model"] |= {"positions": "rotary", "dropout": 0.0}
    context, run = tiny["model"]["context"], train(tiny, out=tmp_path / "run")
    for length in (3, context, 2 * context + 1):
        document = cli("evaluate", run.folder, "--length", length, "--json").json
        assert len(document["loss_by_position"]["mean"]) == length
        assert any(f"Windows of {length} tokens" in note for note in document["notes"])
    plain = cli("evaluate", run.folder, "--json").json
    same = cli("evaluate", run.folder, "--length", context, "--json").json
    assert same["metrics"] == plain["metrics"]
    # the first positions of a longer window see what those of a shorter one see: a window of its own of the same tokens
    longer = cli("evaluate", run.folder, "--length", 2 * context, "--json").json["loss_by_position"]
    shorter = plain["loss_by_position"]
    assert longer["n"][0] * 2 - shorter["n"][0] in (0, 1)
    first = run.model_at("last")
    ids = torch.tensor([run.data.split("validation").tokens[: 2 * context].tolist()])
    grown = run._longer_model(run.checkpoint(), run._recipe_at(2 * context, None))
    torch.testing.assert_close(grown(ids)[:, :context], first(ids[:, :context]))
    assert "position in the window" in cli("evaluate", run.folder, "--length", 3).out


def test_a_length_that_cannot_be_read_is_a_sentence(cli, tiny, tmp_path: Path, unchecked) -> None:
    tiny["model"] |= {"positions": "learned"}
    run = train(tiny, out=tmp_path / "run")
    answer = cli("evaluate", run.folder, "--length", tiny["model"]["context"] + 1)
    assert answer.code == 2
    assert "positions.table.weight" in answer.sentence
    with refused(UsageError, "positions-end"):
        run.evaluate(length=tiny["model"]["context"] + 1)
    assert cli("evaluate", run.folder, "--length", 5).code == 0
    with refused(
        UsageError, "bad-length", f"{run.data.split('validation').num_tokens:,} tokens"
    ):  # before the checks, which take long
        run.evaluate(length=10**6)
    tiny |= {"objective": "spans"}
    spans = train(tiny, out=tmp_path / "spans")
    with refused(UsageError, "no-windows", "objective=spans"):
        spans.evaluate(length=5)


def test_what_was_measured_is_in_the_run_for_the_page(cli, trained, tmp_path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    run.evaluation_file("validation", 12).unlink(missing_ok=True)
    cli("evaluate", tmp_path / "run", "--checkpoint", "8")
    assert evaluation_of(run) is None
    document = cli("evaluate", tmp_path / "run", "--json").json
    saved = evaluation_of(run)
    assert saved is not None
    assert saved.to_dict()["metrics"] == document["metrics"]
