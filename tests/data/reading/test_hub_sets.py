"""Data sets of Hugging Face, saved to a folder or loaded by name, through the library's own code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

datasets = pytest.importorskip("datasets")

import glassformer as gf  # noqa: E402
from glassformer.data.config import DataConfig  # noqa: E402
from glassformer.data.reading import hub_sets  # noqa: E402
from glassformer.data.reading.hub_sets import held_out_splits, is_hub_set, split_file  # noqa: E402
from glassformer.data.reading.sources import find_label_sources, find_pair_sources, find_sources  # noqa: E402
from glassformer.foundation.errors import DataError, MissingDependency, UnknownName  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own


def table(rows: int, *, first: int = 0, labelled: bool = True) -> datasets.Dataset:
    features = datasets.Features(
        {
            "text": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["negative", "positive"]),
            "translation": datasets.Translation(languages=["de", "en"]),
        }
    )
    numbers = range(first, first + rows)
    values = {
        "text": [f"a {'good' if number % 2 else 'bad'} film, number {number}" for number in numbers],
        "label": [number % 2 if labelled else -1 for number in numbers],
        "translation": [{"de": f"{number} Filme", "en": f"{number} films"} for number in numbers],
    }
    return datasets.Dataset.from_dict(values, features=features)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "saved"
    splits = {"train": table(40), "validation": table(8, first=40), "test": table(6, first=60, labelled=False)}
    datasets.DatasetDict(splits).save_to_disk(str(folder))
    return folder


@pytest.fixture(scope="module")
def files(saved: Path) -> Path:
    """A folder as a repository of the hub has it: a file per split."""
    folder = saved.parent / "files"
    folder.mkdir()
    for name, split in datasets.load_from_disk(str(saved)).items():
        split.to_parquet(str(folder / f"{name}.parquet"))
    return folder


@pytest.mark.parametrize("form", ["saved", "hf"])
def test_rows_have_names_of_classes_and_flat_columns(form, saved, files) -> None:
    path = str(saved) if form == "saved" else f"hf:{files}"
    assert is_hub_set(path)
    rows = [json.loads(line) for line in split_file(path).read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 40
    first = {"text": "a good film, number 1", "label": "positive", "translation.de": "1 Filme", "translation.en": "1 films"}
    assert rows[1] == first
    assert len(split_file(f"{path}#validation").read_text(encoding="utf-8").splitlines()) == 8


def test_its_splits_are_held_out_unless_their_labels_are_unknown(saved) -> None:
    assert held_out_splits(str(saved)) == {"validation": f"{saved}#validation"}
    found = find_label_sources(DataConfig(path=str(saved)))
    assert found.validation is not None
    assert found.validation.files[0].name == "validation.jsonl"
    assert found.tests == {}
    chosen = find_sources(DataConfig(path=str(saved), test=f"{saved}#test"))
    assert list(chosen.tests) == ["test"]
    assert chosen.train.name == str(saved)
    assert chosen.notes == ()
    pairs = find_pair_sources(DataConfig(path=str(saved), source_column="translation.de", target_column="translation.en"))
    assert pairs.validation is not None


def test_a_folder_of_one_table(tmp_path) -> None:
    table(5).save_to_disk(str(tmp_path / "one"))
    assert len(split_file(str(tmp_path / "one")).read_text(encoding="utf-8").splitlines()) == 5
    assert held_out_splits(str(tmp_path / "one")) == {}


def test_what_is_not_there(saved, tmp_path, monkeypatch) -> None:
    with pytest.raises(UnknownName):
        split_file(f"{saved}#dev")
    with pytest.raises(DataError) as refused:
        split_file(f"hf:{tmp_path / 'nowhere'}")
    assert refused.value.reason == "hub-set"
    monkeypatch.setitem(sys.modules, "datasets", None)
    hub_sets._written.cache_clear()
    with pytest.raises(MissingDependency) as missing:
        split_file(str(saved))
    assert missing.value.reason == "no-datasets"


@pytest.mark.usefixtures("unchecked")
def test_a_language_model_and_a_classifier_train_on_it(saved, files, tmp_path) -> None:
    recipe = {
        "data": {"path": f"hf:{files}"},
        "tokenizer": "byte",
        "model": {"width": 8, "heads": 2, "layers": 1, "context": 16},
        "training": {"steps": 2, "batch_size": 4, "device": "cpu"},
    }
    run = gf.train(recipe, out=tmp_path / "text")
    assert run.evaluate().loss > 0
    model = {**recipe["model"], "causal": False, "head": "classifier"}
    labels = {**recipe, "data": {"path": str(saved)}, "objective": "labels", "model": model}
    classifier = gf.train(labels, out=tmp_path / "labels")
    assert classifier.label_names == ["negative", "positive"]
    assert classifier.evaluate("validation").accuracy >= 0
