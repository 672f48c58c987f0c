"""What evaluated items belong to: their file, a column of it, the person of a question."""

from __future__ import annotations

import json

import pytest
from tests.refusals import refused

from glassformer.assembly import prepare_data
from glassformer.data.config import DataConfig
from glassformer.data.groups import groups_of
from glassformer.data.reading.named_sets import find_set
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


@pytest.fixture
def sets(tmp_path, monkeypatch):
    """Small files in the form of the real sets."""
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    rows = [
        {"question": f"is {at} odd", "title": f"t{at % 4}", "answer": bool(at % 2), "passage": f"passage {at % 6}"}
        for at in range(24)
    ]
    for name, own in (("train", rows), ("dev", [{**row, "passage": f"a {row['passage']}"} for row in rows])):
        (tmp_path / "boolq").mkdir(exist_ok=True)
        (tmp_path / "boolq" / f"{name}.jsonl").write_text("\n".join(json.dumps(row) for row in own))
    articles = "".join(f" \n = Article {at} = \n \n one line\n another line\n = = Section = = \n a third\n" for at in range(3))
    (tmp_path / "wikitext-2").mkdir()
    for name in ("train", "valid"):
        (tmp_path / "wikitext-2" / f"{name}.txt").write_text(articles)
    return tmp_path


def test_questions_of_boolq_belong_to_their_title(sets):
    own = recipe({"set": "boolq", "split": {"validation": 0.5}}, objective="labels")
    data = prepare_data(own)
    for split in ("validation", "test:dev"):
        items = data.split(split)
        expected = [f"t{int(text.split()[1]) % 4}" for text in items.texts]
        assert groups_of(items, own.data) == tuple(expected)
    # asked for by the recipe: the recipe's word counts
    by_passage = own.data.model_copy(update={"group": "passage"})
    assert set(groups_of(items, by_passage)) == {f"a passage {at}" for at in range(6)}


def test_passages_keep_the_title_they_stand_under_first(sets):
    own = recipe({"set": "boolq-passages", "document": "line"})
    items = prepare_data(own).split("validation")
    assert [own_text(items, number, own) for number in range(6)] == [f"a passage {at}" for at in range(6)]
    assert groups_of(items, own.data) == ("t0", "t1", "t2", "t3", "t0", "t1")


def test_lines_of_wikitext_belong_to_their_article(sets):
    own = recipe({"set": "wikitext-2", "document": "line"})
    items = prepare_data(own).split("validation")
    groups = groups_of(items, own.data)
    assert items.num_documents == 15
    assert [groups.index(group) for group in groups] == [0] * 5 + [5] * 5 + [10] * 5
    whole = recipe({"set": "wikitext-2"})  # articles are its documents: each is a group of its own
    assert groups_of(prepare_data(whole).split("validation"), whole.data) is None


def test_what_a_set_says_holds_for_its_own_files_alone(sets, tmp_path):
    (tmp_path / "mine.txt").write_text("one line\nanother line\n")
    own = recipe({"set": "wikitext-2", "document": "line", "validation": str(tmp_path / "mine.txt")})
    assert groups_of(prepare_data(own).split("validation"), own.data) is None


def test_files_of_the_standard_library_belong_to_their_package():
    rows = find_set("standard-library").train.files[0].read_text(encoding="utf-8").splitlines()
    packages = {row["file"]: row["package"] for row in map(json.loads, rows)}
    assert packages["asyncio/tasks.py"] == packages["asyncio/queues.py"] == "asyncio"
    assert packages["bisect.py"] == "bisect"


def test_a_copy_of_a_set_without_the_column_has_no_groups(tmp_path, monkeypatch):
    """Some copies of BoolQ have no titles: what the set declares is then not known, and nothing is refused."""
    rows = [{"question": f"is it {at}", "answer": at % 2 == 0, "passage": f"it is {at // 2}"} for at in range(12)]
    (tmp_path / "boolq").mkdir()
    for name in ("train", "dev"):
        text = "\n".join(json.dumps({**row, "passage": f"{name} {row['passage']}"}) for row in rows)
        (tmp_path / "boolq" / f"{name}.jsonl").write_text(text)
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    own = recipe({"set": "boolq", "split": {"validation": 0.5}}, objective="labels")
    assert groups_of(prepare_data(own).split("validation"), own.data) is None
    passages = find_set("boolq-passages").train.files[0].read_text().splitlines()
    assert len(passages) == 6


@pytest.mark.realdata
def test_the_real_files_say_what_belongs_together(real_data):
    own = recipe({"set": "boolq"}, objective="labels")
    items = prepare_data(own).split("test:dev")
    groups = groups_of(items, own.data)
    assert len(groups) == len(items.texts) > len(set(groups)) > 1000
