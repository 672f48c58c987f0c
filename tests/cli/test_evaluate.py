"""``glassformer evaluate``."""

from __future__ import annotations

import shutil

from glassformer.runs.directory import RunDirectory


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
