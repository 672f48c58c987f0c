"""What baselines depend on: any change of the data or of a setting that matters is another sum, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer import assembly
from glassformer.assembly import fitted_baselines, prepare_data, saved_baselines
from glassformer.experiment import train
from glassformer.objectives.labels import LabelsConfig
from glassformer.objectives.next_token import NextTokenConfig
from glassformer.recipe import load_recipe
from glassformer.runs.directory import RunDirectory

TRAINING = {"steps": 1, "batch_size": 4, "device": "cpu"}
MODEL = {"width": 12, "layers": 1, "heads": 2, "context": 9}


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))


def labels(file: Path, **data: Any) -> dict[str, Any]:
    model = {**MODEL, "causal": False, "head": "classifier"}
    return {
        "data": {"path": str(file), **data},
        "objective": "labels",
        "tokenizer": "word",
        "model": model,
        "training": TRAINING,
    }


def text(file: Path, **more: Any) -> dict[str, Any]:
    return {"data": {"path": str(file)}, "tokenizer": "char", "model": MODEL, "training": TRAINING, **more}


def summed(recipe: dict[str, Any], **changes: Any) -> str | None:
    found = load_recipe(recipe, {key.replace("__", "."): value for key, value in changes.items()})
    return found.objective.fitted_on(prepare_data(found))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "table.csv"
    rows = [f"the {'cat' if n % 2 else 'dog'} ran {n},{'ab'[n % 2]},{'yz'[n % 3 == 0]},so {n}" for n in range(30)]
    file.write_text("\n".join(["text,label,mood,more", *rows]) + "\n")
    return file


@pytest.fixture
def story(tmp_path: Path) -> Path:
    file = tmp_path / "story.txt"
    file.write_text("".join(f"the cat saw {n} mice run away from it.\n" for n in range(60)))
    return file


def test_of_labels_whatever_changes_a_training_text_or_its_label(table: Path) -> None:
    recipe = labels(table)
    sums = [
        summed(recipe),
        summed(recipe, data__split__seed=1),
        summed(recipe, data__split__validation=0.3),
        summed(recipe, data__label_column="mood"),
        summed(recipe, data__text_column="more"),
        summed(recipe, data__pair_column="more", tokenizer__marks=True),
    ]
    table.write_text(table.read_text().replace("dog", "hen"))
    sums.append(summed(recipe))
    assert len(set(sums)) == len(sums)


def test_of_labels_neither_seed_nor_model_nor_tokenizer_matter(table: Path) -> None:
    assert summed(labels(table), seed=5, model__width=24, training__lr=0.5, tokenizer__min_count=2) == summed(labels(table))


def test_of_text_the_files_their_division_and_the_tokenizer(story: Path) -> None:
    recipe = text(story)
    sums = [
        summed(recipe),
        summed(recipe, data__split__validation=0.3),
        summed(recipe, data__document="line", data__split__seed=1),
        summed(recipe, data__document="line", data__split__seed=2),
        summed(recipe, tokenizer={"kind": "bpe", "vocab": 270}),
        summed(recipe, objective={"kind": "masked", "share": 0.2}),
        summed(recipe, objective={"kind": "masked", "share": 0.3}),
    ]
    story.write_text(story.read_text().replace("cat", "dog"))
    sums.append(summed(recipe))
    assert len(set(sums)) == len(sums)
    assert summed(recipe, seed=5, model__width=24) == sums[-1]


def test_of_answers_the_questions_their_division_and_the_text(tmp_path: Path) -> None:
    people, file, asked = (
        [f"{'ABCD'[n % 4]}na {'EFGH'[n // 4]}ox" for n in range(16)],
        tmp_path / "text.txt",
        tmp_path / "q.tsv",
    )
    file.write_text("".join(f"{name} was born in Rome.\n" for name in people))
    asked.write_text("".join(f"Where was {name} born?\tRome\n" for name in people))
    data = {"path": str(file), "questions": {"train": str(asked)}}
    recipe = {
        "data": data,
        "tokenizer": "byte",
        "objective": "answers",
        "model": {**MODEL, "context": 64},
        "training": TRAINING,
    }
    mixed = {"kind": "mixture", "parts": {"spans": {"share": 0.5}, "answers": {"share": 0.5}}, "judged_by": "answers"}
    sums = [summed(recipe), summed(recipe, data__split__seed=1)]
    assert summed(recipe, objective=mixed, seed=3) == sums[0]
    asked.write_text(asked.read_text().replace("Rome", "Paris"))
    sums.append(summed(recipe))
    file.write_text(file.read_text().replace("Rome", "Paris"))
    sums.append(summed(recipe))
    assert len(set(sums)) == len(sums)


@pytest.mark.parametrize("objective", ["labels", "text"])
def test_two_runs_of_the_same_data_fit_once_and_keep_the_same_bytes(
    objective: str, table: Path, story: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, kind = (labels(table), LabelsConfig) if objective == "labels" else (text(story), NextTokenConfig)
    data = prepare_data(load_recipe(recipe))
    plain = assembly.packed_baselines(None, lambda: load_recipe(recipe).objective.fit_baselines(data))
    real, fits = kind.fit_baselines, []
    monkeypatch.setattr(kind, "fit_baselines", lambda self, data: fits.append(1) or real(self, data))
    runs = [train(recipe, out=tmp_path / f"run{seed}", seed=seed).directory for seed in (1, 2)]
    assert [run.baselines_file.read_bytes() for run in runs] == [plain, plain]
    runs[1].baselines_file.unlink()  # a run that lost them takes them from the cache, too
    assert set(saved_baselines(runs[1], load_recipe(recipe).objective, lambda: data)) == set(kind.baselines)
    assert runs[1].baselines_file.read_bytes() == plain
    assert fits == [1]
    assert fitted_baselines(load_recipe(recipe).objective, data) == plain


def test_an_objective_that_cannot_say_what_its_baselines_depend_on_fits_them_itself(
    story: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, objective = prepare_data(load_recipe(text(story))), load_recipe(text(story)).objective
    monkeypatch.setattr(NextTokenConfig, "fitted_on", lambda self, data: None)
    assert set(saved_baselines(RunDirectory(tmp_path), objective, lambda: data)) == set(objective.baselines)
    assert not (tmp_path / "cache" / "baselines").exists()
