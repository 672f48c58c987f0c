"""Several labels, numbers and class weights: losses by hand, refused tables, whole runs with predictions and exports."""

from __future__ import annotations

import csv
import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.encoders import make_folder
from tests.refusals import refused

import glassformer as gf
from glassformer.checks.check_report import CheckReport
from glassformer.checks.loss_laws import check_loss
from glassformer.data.batches import Batch
from glassformer.data.config import DataConfig
from glassformer.data.labels.label_batches import IGNORED
from glassformer.data.labels.labelled_texts import Labels, load_labels
from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.foundation.errors import ConfigError, DataError, UsageError
from glassformer.objectives.base import OBJECTIVES
from glassformer.objectives.labels import LabelBatches, LabelsConfig
from glassformer.run import Run

TOPICS = ("late", "broken", "dear")


def table(file: Path, *, rows: int = 90, seed: int = 1) -> Path:
    """Words of each topic (of the tiny encoder's vocabulary), among others; the number is a sum over the topics."""
    rng = random.Random(seed)
    with file.open("w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(["text", "topics", "price", *TOPICS])
        for _ in range(rows):
            chosen = [topic for topic in TOPICS if rng.random() < 0.4]
            words = [f"w{4 + 5 * TOPICS.index(topic) + rng.randrange(5)}" for topic in chosen for _ in range(2)]
            words += [f"w{30 + rng.randrange(5)}" for _ in range(3)]
            rng.shuffle(words)
            price = 100 + 10 * sum(1 + TOPICS.index(topic) for topic in chosen)
            out.writerow([" ".join(words), "|".join(chosen), price, *(int(topic in chosen) for topic in TOPICS)])
    return file


class Scores:
    """A network whose scores are given."""

    takes_segments = False

    def __init__(self, scores: list[list[float]]) -> None:
        self.scores = torch.tensor(scores)

    def features(self, ids: Any, **options: Any) -> Any:
        return ids

    def logits(self, features: Any, mask: Any) -> Any:
        return self.scores


def batch(labels: Any, **more: Any) -> Batch:
    rows = len(labels)
    return Batch(
        ids=torch.zeros(rows, 2, dtype=torch.long), hidden=torch.zeros(rows, 2).bool(), labels=torch.tensor(labels), **more
    )


def test_losses_by_hand() -> None:
    filler = float(IGNORED)
    several = OBJECTIVES.parse("multilabel")
    one = batch([[1.0, 0.0], [filler, filler]])
    loss = several.loss(Scores([[2.0, -1.0], [5.0, 5.0]]), one, dropout_seed=None, smoothing=0.0)
    assert float(loss) == pytest.approx(math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-1)))
    assert int(several.count(one)) == 1
    number = OBJECTIVES.parse("regression")
    loss = number.loss(Scores([[2.0], [9.0]]), batch([[0.5], [filler]]), dropout_seed=None, smoothing=0.0)
    assert float(loss) == pytest.approx(1.5**2)
    with refused(ConfigError, "smoothing-of-numbers"):
        number.loss(Scores([[2.0]]), batch([[0.5]]), dropout_seed=None, smoothing=0.1)
    weighted = batch([0, 1], weights=torch.tensor([3.0, 0.5]))
    loss = LabelsConfig().loss(Scores([[0.0, 0.0], [0.0, 0.0]]), weighted, dropout_seed=None, smoothing=0.0)
    assert float(loss) == pytest.approx(3.5 * math.log(2))


def test_balanced_classes_weigh_the_same_in_all(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("text,label\n" + "".join(f"x{n} y,{'rare' if n % 5 == 0 else 'common'}\n" for n in range(50)))
    config = DataConfig(path=str(file), class_weights="balanced")
    labels = Labels(config)
    train, weights = labels.split("train"), labels.class_weights
    assert weights is not None
    assert (weights * train.counts).tolist() == pytest.approx([len(train) / 2] * 2)
    several = Labels(
        DataConfig(path=str(table(tmp_path / "s.csv")), label_column=list(TOPICS), class_weights="balanced"), target="several"
    )
    assert several.class_weights is not None
    assert several.class_weights.shape == (2, 3)
    assert several.class_weights[1] @ several.split("train").counts == pytest.approx(3 * len(several.split("train")) / 2)
    assert Labels(DataConfig(path=str(file))).class_weights is None


def test_weights_leave_the_laws_of_the_loss_alone() -> None:
    """A loss with weights passes the check of targets; without its exception the probabilities would not add up."""
    table_VC = torch.nn.Embedding(11, 3)

    def loss_of(tensors: dict[str, Any], seed: Any) -> Any:
        scores = table_VC(tensors["ids"]).sum(dim=1)
        each = torch.nn.functional.cross_entropy(scores, tensors["labels"], reduction="none", ignore_index=IGNORED)
        return (each * tensors["weights"]).sum()

    rows = {"ids": torch.zeros(4, 5).long(), "labels": torch.zeros(4).long(), "weights": torch.tensor([3.0, 0.2, 1.0, 2.0])}
    assert not check_loss(loss_of, rows, vocabulary=11, outputs=3).broken


@pytest.mark.parametrize(
    ("objective", "data", "reason"),
    [
        ("labels", {"label_column": "price2"}, "too-many-labels"),
        ("multilabel", {"label_column": "topics"}, "no-separator"),
        ("multilabel", {"label_column": ["late", "price"]}, "not-a-flag"),
        ("regression", {"label_column": "text"}, "not-a-number"),
        ("labels", {"label_separator": "|"}, "setting-of-labels"),
        ("multilabel", {"label_column": "topics", "few": 4}, "setting-of-labels"),
        ("regression", {"label_column": "price", "class_weights": "balanced"}, "setting-of-labels"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, objective: str, data: dict[str, Any], reason: str) -> None:
    file = table(tmp_path / "t.csv")
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0] + ",price2", *(f"{line},{n}.5" for n, line in enumerate(lines[1:]))]) + "\n")
    recipe = {"data": {"path": str(file), **data}, "objective": objective, "model": {"causal": False, "head": "classifier"}}
    with refused((ConfigError, DataError), reason):
        gf.train({**recipe, "tokenizer": "word", "training": {"steps": 1}}, out=tmp_path / "run")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    place = tmp_path_factory.mktemp("targets")
    file, folder = table(place / "t.csv", rows=240), make_folder(place / "encoder")
    model = {"kind": "pretrained", "folder": str(folder), "pool": "own", "context": 16}
    training = {"steps": 60, "batch_size": 16, "lr": 0.003, "device": "cpu"}
    found = {}
    columns = {"multilabel": {"label_column": "topics", "label_separator": "|"}, "regression": {"label_column": "price"}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLASSFORMER_CACHE", str(place / "cache"))
        patch.setattr("glassformer.experiment.require_network", lambda model, **options: CheckReport(subject="tiny"))
        for objective, data in columns.items():
            data = {"path": str(file), "split": {"validation": 0.3}, **data}
            recipe = {"data": data, "objective": objective, "model": model, "training": training}
            found[objective] = gf.load(gf.train(recipe, out=place / objective).folder)
    return found


@pytest.mark.filterwarnings("ignore")
def test_several_labels_from_a_table_to_an_export(runs: dict[str, Run], tmp_path: Path) -> None:
    run, texts = runs["multilabel"], ["w4 w6 w30", "w9 w10 w14 w15 w31", "w32 w33"]
    evaluation = run.evaluate()
    assert evaluation.metrics["micro_f1"].value > evaluation.baselines["label shares"]["micro_f1"].value + 0.2
    found = run.predict(texts)
    assert found[0].labels is not None
    assert set(found[0].probabilities) == set(TOPICS)
    assert found[0].label is None
    asked = run.ask(texts)
    assert [one.answer for one in asked] == [", ".join(one.labels or ()) or "no label" for one in found]
    assert asked[0].confidence == pytest.approx(
        math.prod(p if name in (found[0].labels or ()) else 1 - p for name, p in found[0].probabilities.items())
    )
    with refused(UsageError, "abstain-needs-one-label"):
        run.ask(texts, abstain_below=0.5)
    with refused(UsageError, "abstain-needs-one-label"):
        run.predict(texts, precision=0.9)
    run.save_pretrained(tmp_path / "hf")
    logits, config = logits_of(tmp_path / "hf", texts)
    assert config.problem_type == "multi_label_classification"
    mine = torch.tensor([[one.probabilities[name] for name in config.id2label.values()] for one in found])
    torch.testing.assert_close(logits.sigmoid(), mine, rtol=0, atol=1e-5, check_dtype=False)


@pytest.mark.filterwarnings("ignore")
def test_a_number_from_a_table_to_an_export(runs: dict[str, Run], tmp_path: Path) -> None:
    run, texts = runs["regression"], ["w4 w6 w30", "w9 w10 w14 w15 w31", "w32 w33"]
    evaluation = run.evaluate()
    assert {"mae", "r2", "spearman"} <= set(evaluation.metrics)
    assert evaluation.baselines["mean"]["mae"].value > 0
    found = run.predict(texts)
    assert found[0].value is not None
    assert found[0].low is not None
    assert found[0].low < found[0].value < (found[0].high or 0)
    assert [one.answer for one in run.ask(texts)] == [f"{one.value:.6g}" for one in found]
    assert run.ask(texts)[0].confidence is None
    run.save_pretrained(tmp_path / "hf")
    logits, config = logits_of(tmp_path / "hf", texts)
    assert config.problem_type == "regression"
    torch.testing.assert_close(logits[:, 0].double(), torch.tensor([one.value for one in found]).double(), rtol=1e-5, atol=1e-3)
    pytest.importorskip("onnxruntime")
    run.save_onnx(tmp_path / "onnx")  # compares itself with the network
    assert json.loads((tmp_path / "onnx" / "labels.json").read_text())["problem_type"] == "regression"


def test_labels_are_given_from_the_fitted_thresholds_by_ask_as_by_predict(runs: dict[str, Run]) -> None:
    """With thresholds no score reaches, neither gives a label; with ones that all reach, both give every one."""
    predictor = runs["multilabel"].predictor()
    assert predictor.reference is not None
    for score, labels in ((1e9, ()), (-1e9, TOPICS)):
        moved = replace(predictor.reference, thresholds_C=predictor.reference.thresholds_C * 0 + score)
        run = gf.load(runs["multilabel"].folder)
        run._referred = moved
        assert set(run.predict(["w4 w6"])[0].labels or ()) == set(labels)
        assert set(run.ask("w4 w6")[0].answer.split(", ")) == set(labels or ("no label",))


@pytest.mark.parametrize(
    ("objective", "column"),
    [
        ("multilabel", "topics"),
        pytest.param("regression", "price", marks=pytest.mark.slow),
        pytest.param("regression", "stars", marks=pytest.mark.slow),
    ],
)
def test_every_target_has_verdicts(tmp_path: Path, objective: str, column: str) -> None:
    """Of a change that learns nothing, whatever the target: the others are ahead, and no difference is claimed."""
    file = table(tmp_path / "t.csv", rows=400)
    rows = list(csv.DictReader(file.read_text().splitlines()))
    with file.open("w", newline="") as stream:
        out = csv.DictWriter(stream, [*rows[0], "stars"])
        out.writeheader()
        out.writerows({**row, "stars": 5 - sum(int(row[topic]) for topic in TOPICS)} for row in rows)
    data = {"path": str(file), "label_column": column, "split": {"validation": 0.4}}
    recipe = {
        "data": data | ({"label_separator": "|"} if objective == "multilabel" else {}),
        "objective": objective,
        "tokenizer": {"kind": "word", "min_count": 1},
        "model": {"width": 32, "layers": 1, "heads": 2, "context": 16, "causal": False, "head": "classifier", "mixer": "none"},
        "training": {"steps": 120, "batch_size": 32, "lr": 0.01, "device": "cpu"},
    }
    study = gf.compare(recipe, vary={"training.steps": [1]}, seeds=6, on="inline", out=tmp_path / "study")
    (verdict,) = study.verdicts
    base, one_step = (study.seed_values(name) for name in study.plan.variants)
    sign = -1 if study.metric.lower_is_better else 1
    assert sign * (base.mean() - one_step.mean()) > 0.1
    assert verdict.verdict == "invalid"
    assert verdict.failed_seeds
    assert study.metric.name == ("exact_match" if objective == "multilabel" else "scaled_mae")


def logits_of(folder: Path, texts: list[str]) -> tuple[torch.Tensor, Any]:
    """What plain transformers makes of an export."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        return model(**batch).logits, model.config


def test_lists_in_jsonl_are_several_labels(tmp_path: Path) -> None:
    rows = [{"text": f"a {n}", "label": ["x", "y"] if n % 2 else (["x"] if n % 3 else [])} for n in range(24)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    labels = Labels(DataConfig(path=str(tmp_path / "t.jsonl")), target="several")
    assert labels.label_names == ("x", "y")
    assert sum(split.counts for split in (labels.split("train"), labels.split("validation"))).tolist() == [20, 12]


def test_batches_of_filler_rows_have_no_labels(tmp_path: Path) -> None:
    file = table(tmp_path / "t.csv", rows=21)
    config = DataConfig(path=str(file), label_column=list(TOPICS))
    prepared = load_labels(config, TOKENIZERS.parse("word"), target="several")

    class Data:
        tokenizer = prepared.tokenizer

        def part(self, name: str) -> Any:
            return prepared

    several: Any = OBJECTIVES.parse("multilabel")
    batches: LabelBatches = several.batches(Data(), context=9, batch_size=8, seed=0)
    counts = [int(several.count(batches.batch(step))) for step in range(int(batches.steps_per_epoch))]
    assert sum(counts) == len(prepared.split("train"))
    assert "late" in " ".join(several.show_with(batches.batch(0), Data()) + several.show_with(batches.batch(1), Data()))
