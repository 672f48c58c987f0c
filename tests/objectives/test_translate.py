"""The objective translate: its loss by hand, padding that does not count, and a run through every verb."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.refusals import refused

import glassformer as gf
from glassformer.data.batches import Batch
from glassformer.foundation.errors import ConfigError, UsageError
from glassformer.model.network import MODELS
from glassformer.objectives.base import OBJECTIVES
from glassformer.objectives.translate import IGNORES_SOURCE
from glassformer.runs.weights import saved_tensors

RECIPE: dict[str, Any] = {
    "data": {"set": {"kind": "rewriting", "task": "copy", "pairs": 200, "held_out": 20, "length": 4}},
    "tokenizer": {"kind": "word", "marks": False, "min_count": 1},
    "model": {"kind": "encoder-decoder", "width": 32, "layers": 1, "heads": 2, "context": 16},
    "objective": "translate",
    "training": {"steps": 60, "batch_size": 32, "lr": 5e-3, "device": "cpu", "schedule": "constant"},
    "evaluation": {"every": 30},
    "checkpoint": {"every": 30},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return gf.train(RECIPE, out=tmp_path_factory.mktemp("translate") / "run")


def test_the_loss_is_that_of_the_targets_alone() -> None:
    config = MODELS.parse({"kind": "encoder-decoder", "width": 12, "layers": 1, "heads": 3, "context": 9})
    network, objective = config.build(11, seed=0).eval(), OBJECTIVES.parse("translate")
    generator = torch.Generator().manual_seed(0)
    source_BS, ids_BT, targets_BT = (torch.randint(11, (2, n), generator=generator) for n in (6, 5, 5))
    targets_BT[1, 3:] = -100
    padding_BS = torch.arange(6) >= torch.tensor([[6], [4]])
    batch = Batch(ids=ids_BT, targets=targets_BT, source_ids=source_BS, source_padding=padding_BS)
    scores_BTV = network(source_BS, ids_BT, padding_BS).log_softmax(-1)
    expected = -sum(scores_BTV[b, t, targets_BT[b, t]] for b in range(2) for t in range(5) if targets_BT[b, t] >= 0)
    torch.testing.assert_close(objective.loss(network, batch, dropout_seed=None, smoothing=0.0), expected)
    assert int(objective.count(batch)) == 8
    other = Batch(**{**batch.tensors, "source_ids": torch.where(padding_BS, (source_BS + 1) % 11, source_BS)})
    assert torch.equal(*(objective.loss(network, one, dropout_seed=None, smoothing=0.0) for one in (batch, other)))


def test_it_trains_evaluates_translates_and_answers(run: Any, tmp_path: Path) -> None:
    result = run.evaluate(predictions=tmp_path / "predictions.tsv")
    assert result.metrics["loss"].value < result.baselines["untrained"]["loss"].value
    assert result.baselines["copy"]["exact_match"].value == 1.0
    assert any("copy baseline" in note for note in result.notes)  # nothing is better than copying here
    assert IGNORES_SOURCE not in result.notes
    gains = [one["validation_source_gain"] for one in run.records() if "validation_source_gain" in one]
    assert len(gains) == 2
    assert gains[1] > 0.05 * result.metrics["loss"].value
    lines = (tmp_path / "predictions.tsv").read_text().splitlines()
    assert lines[0].split("\t") == ["source", "translation", "log_probability", "target"]
    assert len(lines) == 21
    greedy, beams = run.translate(["a b", "c"]), run.translate("a b", beams=3)
    assert [one.source for one in greedy] == ["a b", "c"]
    assert len(beams[0].alternatives) == 2
    (answer,) = run.ask("a b", beams=2)
    assert 0 < answer.confidence <= 1
    assert len(answer.alternatives) == 1
    with refused(UsageError, "beams-and-sample"):
        run.translate("a b", beams=2, temperature=1.0)
    with refused(UsageError, "no-targets"):
        run.evaluate_texts("a b")


def test_a_stopped_run_goes_on_bit_by_bit(run: Any, tmp_path: Path) -> None:
    gf.train(RECIPE, set={"training.steps": 30}, out=tmp_path / "run")
    resumed = gf.train(RECIPE, out=tmp_path / "run", resume=True)
    one, other = saved_tensors(run.model), saved_tensors(resumed.model)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_model_that_ignores_its_source_is_caught(tmp_path: Path) -> None:
    run = gf.train(RECIPE, set={"model.cross": "none", "training.steps": 2}, out=tmp_path / "run")
    assert IGNORES_SOURCE in run.evaluate().notes
    assert any("ignores its source" in note for note in run.directory.read_environment()["checks"]["notes"])


@pytest.mark.slow
def test_a_study_names_the_variant_that_ignores_its_source(tmp_path: Path) -> None:
    short = {"training.steps": 4, "evaluation.every": 4, "checkpoint.every": 4}
    study = gf.compare(RECIPE, vary={"model.cross": ["none"]}, set=short, seeds=2, jobs=1, out=tmp_path / "study", on="inline")
    assert [note for note in study.notes if "ignores its source" in note] == [
        "model.cross=none ignores its source in 2 of 2 runs."
    ]


def test_a_model_without_an_encoder_is_refused(tmp_path: Path) -> None:
    with refused(ConfigError, "reads-no-source"):
        gf.train({**RECIPE, "model": {"width": 16, "layers": 1, "heads": 2, "context": 16}}, out=tmp_path / "run")


def test_two_tokenizers_and_everything_on_disk(tmp_path: Path) -> None:
    changes = {
        "tokenizer": {"kind": "two", "source": "char", "target": {"kind": "word", "marks": False, "min_count": 1}},
        "model.embeddings": "separate",
        "training.steps": 3,
        "data.set.task": "numbers",
    }
    run = gf.train(RECIPE, set=changes, out=tmp_path / "run")
    loaded = gf.load(tmp_path / "run")
    assert [one.text for one in loaded.translate(["12", "7"])] == [one.text for one in run.translate(["12", "7"])]
    assert loaded.tokenizer.size != loaded.tokenizer.target.size
    assert loaded.evaluate("test").metrics["exact_match"].n == 20
    json.dumps(loaded.evaluate("test").to_dict())


def test_looking_at_which_word_reads_which(run: Any, tmp_path: Path) -> None:
    look = run.look("a b c")
    written = run.translate("a b c")[0].text.split()
    assert look.keys == ["a", "b", "c", "<end>"]
    assert look.queries == [*written, "<end>"]
    assert look.attention.shape == (1, 2, len(written) + 1, 4)
    assert look.faults == []
    assert len(look.losses) == len(look.queries)
    before = look.scores
    with look.without(0, 1):
        altered = look.again()
    assert not (altered.scores == before).all()
    assert (look.again().scores == before).all()  # looking leaves no trace
    assert {"entropy", "first"} <= look.head_table()[0].keys()
    assert look.to_dict()["source"] == look.keys
    assert run.look("a b c", checkpoint="untrained", target=" ".join(written)).queries == look.queries
    encoder, decoder = (run.look("a b c", attention=which) for which in ("encoder", "decoder"))
    assert encoder.attention.shape[-2:] == (4, 4)
    assert decoder.tokens == ["<start>", *written]
    assert (decoder.attention[0, 0, 0, 1:] == 0).all()
    with refused(UsageError, "unknown-attention"):
        run.look("a", attention="sideways")
    assert look.figure(0, 1).axes[0].get_yticklabels()[0].get_text() == written[0]


def test_a_plain_model_has_no_source_to_look_at(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("abcdefgh " * 40)
    model = {"width": 8, "layers": 1, "heads": 1, "context": 8}
    recipe = {"data": {"path": str(tmp_path / "text.txt")}, "model": model, "training": {"steps": 1, "batch_size": 2}}
    plain = gf.train(recipe, out=tmp_path / "run")
    with refused(UsageError, "attention-without-source"):
        plain.look("abc", attention="cross")
    with refused(UsageError, "translates-nothing"):
        plain.translate("abc")
