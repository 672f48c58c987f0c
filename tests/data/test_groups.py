"""What evaluated items belong to: their file, a column of it, the person of a question."""

from __future__ import annotations

import json

import pytest
from tests.refusals import refused

from glassformer.assembly import prepare_data
from glassformer.data.config import DataConfig
from glassformer.data.groups import groups_of
from glassformer.foundation.errors import ConfigError, DataError
from glassformer.knowledge.questions import Questions
from glassformer.recipe import Recipe


def recipe(data: dict, **more) -> Recipe:
    return Recipe.parse(
        {
            "data": data,
            "tokenizer": "char",
            "model": {"width": 8, "layers": 1, "heads": 2, "context": 8},
            "training": {"steps": 2},
            **more,
        }
    )


@pytest.fixture
def books(tmp_path):
    for book in ("one", "two", "three"):
        (tmp_path / f"{book}.txt").write_text("".join(f"{book} says {number} things\n" for number in range(9)))
    return tmp_path


def test_documents_of_a_folder_belong_to_their_file(books):
    own = recipe({"path": str(books), "document": "line", "group": "file", "split": {"validation": 0.4}})
    items = prepare_data(own).split("validation")
    groups = groups_of(items, own.data)
    assert len(groups) == items.num_documents
    texts = [own_text(items, number, own) for number in range(items.num_documents)]
    assert all(text.startswith(group.rpartition("/")[2].removesuffix(".txt")) for text, group in zip(texts, groups))
    assert groups_of(items, own.data.model_copy(update={"group": None})) is None
    with refused(ConfigError, "group-without-columns"):
        groups_of(items, own.data.model_copy(update={"group": "speaker"}))


def own_text(items, number: int, own: Recipe) -> str:
    return prepare_data(own).tokenizer.decode(items.document(number).tolist()).strip()


@pytest.mark.parametrize("labelled", [False, True])
def test_rows_belong_to_what_a_column_says(tmp_path, labelled):
    rows = [{"text": f"line {at} of {'ab'[at % 2]}", "label": "xy"[at % 3 % 2], "who": "ab"[at % 2]} for at in range(20)]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    data = {"path": str(file), "group": "who", "split": {"validation": 0.4}}
    own = recipe({**data, **({"label_column": "label"} if labelled else {})}, **({"objective": "labels"} if labelled else {}))
    items = prepare_data(own).split("validation")
    groups = groups_of(items, own.data)
    assert set(groups) <= {"a", "b"}
    if labelled:
        assert [text[-1] for text in items.texts] == list(groups)
    else:
        assert [own_text(items, number, own)[-1] for number in range(items.num_documents)] == list(groups)
    with refused(DataError, "no-group"):
        groups_of(items, own.data.model_copy(update={"group": "nobody"}))


def test_questions_belong_to_their_person():
    asked = ("Where was Ann Lee born?", "When was Ann Lee born?", "Where was Bob Ray born?")
    assert groups_of(Questions("test", asked, None, (1, 2, 3)), DataConfig(set="docstrings")) == (
        "Ann Lee",
        "Ann Lee",
        "Bob Ray",
    )
