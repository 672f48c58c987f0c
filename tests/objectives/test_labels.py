"""Labelled texts: batches, loss by hand, predictions, and a whole run that is killed and resumed in every way of tuning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.refusals import refused

import glassformer as gf
from glassformer.checking.verify_resume import verify_resume
from glassformer.data.config import DataConfig
from glassformer.data.labels.labelled_texts import Labels, load_labels
from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.evaluation.results import EvaluationTools
from glassformer.foundation.errors import ConfigError, DataError, UsageError
from glassformer.foundation.files import sha256_of_file
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model
from glassformer.objectives.labels import LabelsConfig, as_batch, label_scores
from glassformer.run import load

MODEL = {"width": 12, "layers": 1, "heads": 2, "context": 9, "causal": False, "head": {"kind": "classifier", "hidden": [7]}}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three labels, each with words of its own among words that all share."""
    rng = np.random.default_rng(4)
    own = {"cat": "purr meow whisker", "dog": "bark wag fetch", "cow": "moo graze milk"}
    lines = []
    for number in range(240):
        label = ["cat", "dog", "cow"][number % 3]
        words = [str(rng.choice(own[label].split())), *rng.choice(["the", "a", "it", "saw", "did", "w5", "w6"], 1 + number % 4)]
        lines.append(f"{label} {' '.join(rng.permutation(words))} {number}")
    file = tmp_path_factory.mktemp("labels") / "animals.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def recipe(table: Path, **more: Any) -> dict[str, Any]:
    return {
        "data": {"path": str(table), "format": "label-text"},
        "tokenizer": {"kind": "word", "min_count": 2},
        "objective": "labels",
        "model": MODEL,
        "training": {"steps": 60, "batch_size": 12, "lr": 0.01},
        "evaluation": {"every": 20},
        **more,
    }


def prepared(table: Path) -> Labels:
    return load_labels(DataConfig(path=str(table), format="label-text"), TOKENIZERS.parse({"kind": "word", "min_count": 2}))


class Data:
    def __init__(self, part: Labels) -> None:
        self.tokenizer, self._part = part.tokenizer, part

    def part(self, name: str) -> Labels:
        assert name == "labels"
        return self._part


def test_the_loss_is_the_sum_over_texts_that_have_a_label(table: Path) -> None:
    data = Data(prepared(table))
    objective = LabelsConfig()
    batches = objective.batches(data, context=9, batch_size=10, seed=1)  # type: ignore[arg-type]
    model = build_model(ModelConfig.parse(MODEL), data.tokenizer.size, outputs=3, seed=1).eval()
    short = next(batch for step in range(22) if int(objective.count(batch := batches.batch(step))) < 10)
    labels = short["labels"]
    logs = torch.log_softmax(model(short["ids"], key_padding_mask_BS=short["hidden"]), dim=1)
    by_hand = -sum(logs[row, labels[row]] for row in range(10) if labels[row] >= 0)
    torch.testing.assert_close(objective.loss(model, short, dropout_seed=None, smoothing=0.0), by_hand)


def test_scores_do_not_depend_on_how_a_text_is_padded(table: Path) -> None:
    part = prepared(table)
    model = build_model(ModelConfig.parse(MODEL), part.tokenizer.size, outputs=3, seed=1).eval()
    items = part.split("validation")
    together, one_by_one = (
        LabelsConfig().predict(model, items, EvaluationTools(part.tokenizer, 9, batch_size=size)) for size in (50, 1)
    )
    for row, alone in zip(together, one_by_one):
        assert row["predicted"] == alone["predicted"]
        assert row["confidence"] == pytest.approx(alone["confidence"], rel=1e-5)


def test_a_run_learns_and_says_what_it_found(table: Path, tmp_path: Path) -> None:
    run = gf.train(recipe(table), out=tmp_path / "run")
    result = run.evaluate()
    figures, baselines = result.metrics, result.baselines
    assert set(baselines) >= {"prior", "majority", "bag of words", "word pairs", "untrained"}
    assert figures["accuracy"].value > 0.5 > baselines["majority"]["accuracy"].value
    document = result.to_dict()
    assert document["confusion"]["labels"] == ["cat", "cow", "dog"]
    assert np.array(document["confusion"]["rows_true_columns_predicted"]).sum() == 24
    assert {"validation_accuracy", "validation_loss"} <= set(run.records()[-1])
    json.dumps(document)
    own = tmp_path / "own.txt"
    own.write_text("dog bark bark\n", encoding="utf-8")
    assert run.evaluate(data=own).metrics["accuracy"].n == 1
    with refused(UsageError, "abstain-needs-answers", "--abstain-below"):
        run.ask("dog bark", abstain=True)


def test_texts_that_are_cut_are_told_wherever_they_are_read(table: Path, tmp_path: Path) -> None:
    told = Told()
    run = gf.train(recipe(table, training={"steps": 1, "batch_size": 2}), out=tmp_path / "run", watch=told)
    own = tmp_path / "own.txt"
    own.write_text("dog bark bark\ncat " + "purr " * 30 + "\n", encoding="utf-8")
    cut = "1 of 2 texts (50.0%) are longer than 9 tokens and were cut"
    assert any(cut in note for note in run.evaluate(data=own).notes)
    again = load(run.folder, watch=told)
    again.ask(again.questions(own))
    assert any(cut in sentence for sentence in told.sentences)


class Told:
    """A watcher that keeps what is said."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def progress(self, *facts: Any) -> None:
        pass


def test_a_run_that_predicts_one_class_is_told_while_it_trains(table: Path, tmp_path: Path) -> None:
    told = Told()
    training = {"steps": 36, "batch_size": 12, "lr": 1e-9}
    gf.train(recipe(table, training=training, evaluation={"every": 18}), out=tmp_path / "run", watch=told)
    said = [sentence for sentence in told.sentences if "collapsed" in sentence and sentence.startswith("All predictions")]
    assert len(said) == 1  # and not after every evaluation
    assert "since epoch 1: collapsed." in said[0]


def test_a_text_without_a_label_cannot_be_evaluated(table: Path, tmp_path: Path) -> None:
    run = gf.train(recipe(table, training={"steps": 1, "batch_size": 2}), out=tmp_path / "run")
    with refused(DataError, "no-labels"):
        run.evaluate_texts(["the dog"])


def test_a_run_is_read_without_its_training_file(table: Path, tmp_path: Path) -> None:
    copy = tmp_path / "train.txt"
    copy.write_text(table.read_text(encoding="utf-8"), encoding="utf-8")
    run = gf.train(recipe(copy, training={"steps": 2, "batch_size": 4}), out=tmp_path / "run")
    run.evaluate()  # keeps the baselines
    copy.unlink()
    own = tmp_path / "own.txt"
    own.write_text("dog bark\ncow moo\n", encoding="utf-8")
    assert gf.load(tmp_path / "run").evaluate(data=own).metrics["accuracy"].n == 2


def test_a_head_for_tokens_is_refused(table: Path, tmp_path: Path) -> None:
    with refused(ConfigError, "head-per-token", "model.head"):
        gf.train(recipe(table, model={**MODEL, "head": "untied"}), out=tmp_path / "run")


def test_predictions_have_every_probability(table: Path) -> None:
    part = prepared(table)
    model = build_model(ModelConfig.parse(MODEL), part.tokenizer.size, outputs=3, seed=1).eval()
    row = LabelsConfig().predict(model, part.split("validation"), EvaluationTools(part.tokenizer, 9))[0]
    assert sum(row[f"p({name})"] for name in part.label_names) == pytest.approx(1.0)
    assert row["label"] in part.label_names


def test_a_batch_is_shown_with_its_padding(table: Path) -> None:
    data = Data(prepared(table))
    batches = LabelsConfig().batches(data, context=9, batch_size=3, seed=1)  # type: ignore[arg-type]
    lines = LabelsConfig().show(batches.batch(0), data.tokenizer)
    assert len(lines) == 3
    assert all("of padding" in line for line in lines)
    numbers = [int(label) for label in batches.batch(0)["labels"]]
    assert [line.split(",")[0] for line in lines] == [f"label {number}" for number in numbers]
    named = LabelsConfig().show_with(batches.batch(0), data)  # type: ignore[arg-type]
    assert [line.split(",")[0] for line in named] == [f"label {('cat', 'cow', 'dog')[number]}" for number in numbers]
    fewer = LabelsConfig().batches(data, context=9, batch_size=250, seed=1)  # type: ignore[arg-type]
    assert "only fills the batch, not counted" in LabelsConfig().show(fewer.batch(0), data.tokenizer)[-1]
    assert as_batch(batches.groups.batch(0)).shapes == batches.batch(0).shapes


@pytest.mark.slow
@pytest.mark.parametrize("tuning", ["full", "lora", {"kind": "prefix", "length": 3}], ids=str)
def test_a_killed_run_of_a_pretrained_encoder_ends_in_the_same_bits(
    tuning: Any, table: Path, bert_folder: Path, tmp_path: Path
) -> None:
    model = {"kind": "pretrained", "folder": str(bert_folder), "tuning": tuning, "context": 12}
    training = {"steps": 12, "batch_size": 4, "lr": 0.01}
    wanted = recipe(table, model=model, training=training, checkpoint={"every": 2})
    del wanted["tokenizer"]  # it is the folder's
    proof = verify_resume(wanted, kills=1, folder=tmp_path)
    assert proof.same


@pytest.mark.parametrize("tuning", ["full", "lora"])
def test_the_run_says_which_pretrained_weights_it_began_with(
    tuning: str, table: Path, bert_folder: Path, tmp_path: Path
) -> None:
    model = {"kind": "pretrained", "folder": str(bert_folder), "tuning": tuning, "context": 12}
    wanted = recipe(table, model=model, training={"steps": 1, "batch_size": 4, "lr": 0.01})
    del wanted["tokenizer"]  # it is the folder's
    run = gf.train(wanted, out=tmp_path / "run")
    assert run.directory.read_environment()["pretrained"] == {
        "folder": str(bert_folder.resolve()),
        "sha256": sha256_of_file(bert_folder / "model.safetensors"),
    }


@pytest.mark.parametrize("segments", [0, 2])
def test_the_second_text_has_the_second_segment(tmp_path: Path, segments: int) -> None:
    """Segments, where a model has them, tell the texts of a pair apart: the second row is read, and gets a gradient."""
    rows = [{"text": "is it red", "pair": f"the cat is {word}", "label": word} for word in ("red", "blue") * 6]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = DataConfig(path=str(tmp_path / "pairs.jsonl"), pair_column="pair")
    data = Data(load_labels(config, TOKENIZERS.parse({"kind": "word", "min_count": 1})))
    batch = LabelsConfig().batches(data, context=13, batch_size=5, seed=1).batch(0)  # type: ignore[arg-type]
    model = build_model(
        ModelConfig.parse({**MODEL, "context": 13, "segments": segments}), data.tokenizer.size, outputs=2, seed=1
    )
    found = label_scores(model.eval(), batch)
    by_hand = model(batch["ids"], key_padding_mask_BS=batch["hidden"], **({"segments_BT": batch["types"]} if segments else {}))
    torch.testing.assert_close(found, by_hand, rtol=0, atol=0)
    if segments:
        (gradient_KD,) = torch.autograd.grad(found.sum(), model.segments.weight)
        assert gradient_KD[1].abs().sum() > 0
