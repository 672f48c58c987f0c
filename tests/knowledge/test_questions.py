"""Files of questions: read, divided by a seed, refused with file and line."""

from __future__ import annotations

import pytest
from tests.refusals import refused

from glassformer.data.config import DataConfig, SplitConfig
from glassformer.data.prepare import prepare
from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.foundation.errors import ConfigError, DataError
from glassformer.knowledge.questions import (
    answer_ids,
    hold_out,
    invented_names,
    prepare_questions,
    questions_of_file,
    questions_of_texts,
    read_questions,
    subject,
    wordings,
)

TEXT = "Ann Lee was born in Rome.\nBob Day was born in Oslo.\nWhere? Cy Orr\n"


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))


def tokenizer(kind: str = "char"):
    return TOKENIZERS.parse(kind).train(lambda: [TEXT])


def written(tmp_path, text: str, name: str = "q.tsv"):
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("Where was Ann Lee born?\tRome\nWhere was Bob Day born? Oslo\n", 2, "no-tab"),
        ("Where was Ann Lee born?\tRome\tItaly\n", 1, "too-many-columns"),
        ("Where was Ann Lee born?\nWhere was Bob Day born?\tOslo\n", 2, "too-many-columns"),
        ("\tRome\n", 1, "empty-question"),
        ("\nWhere?\tRome\n", 1, "empty-line"),
        ("Where?\tRome\n \n\nWhere?\tOslo\n", 2, "empty-line"),
        ("Where?\n\nWhere?\n", 2, "empty-line"),
        ("Where was Ann Lee born?\t \n", 1, "empty-answer"),
        ("Where was Ann Łee born?\tRome\n", 1, "unknown-token"),
        ("Where was Ann Lee born?\tRom\u0119\n", 1, "unknown-token"),
        ("\n\n", None, "no-question"),
    ],
)
def test_a_bad_line_is_a_sentence_with_file_and_line(tmp_path, text, line, reason):
    file = written(tmp_path, text)
    with refused(DataError, reason, f"{file}, line {line}: " if line else f"{file}: "):
        questions_of_file(tokenizer(), file)


def test_questions_are_read_with_or_without_answers(tmp_path):
    both = read_questions(written(tmp_path, "A b?\tC\n\nD e?\tF g\n"), answered=True)  # nothing is matched to its lines
    assert (both.questions, both.answers, both.lines) == (("A b?", "D e?"), ("C", "F g"), (1, 3))
    alone = read_questions(written(tmp_path, "A b?\nD e?\n\n \n"))
    assert alone.answers is None
    again = read_questions(written(tmp_path, "A b?\tC\nA b?\tD\n"))
    assert again.ids == ["A b?", "A b? (line 2)"]
    assert questions_of_texts(tokenizer(), " Where? ").questions == ("Where?",)
    with refused(DataError, "empty-question"):
        questions_of_texts(tokenizer(), [" "])


def test_one_longer_than_the_context_is_a_sentence(tmp_path):
    items = read_questions(written(tmp_path, "Where?\tRome\nWhere was Ann Lee born?\tRome\n"))
    assert len(items.encoded(tokenizer(), room=29)) == 2
    with refused(DataError, "question-too-long", "line 2", "29 tokens", "model.context=27"):
        items.encoded(tokenizer(), room=28)


def test_answers_are_encoded_as_inside_a_sentence():
    byte_pairs = TOKENIZERS.parse({"kind": "bpe", "vocab": 290}).train(lambda: [TEXT * 3])
    inside = byte_pairs.encode("Ann Lee was born in Rome")
    ids = answer_ids(byte_pairs, "Rome")
    assert ids == inside[-len(ids) :]
    assert tokenizer().decode(answer_ids(tokenizer(), "Rome")) == "Rome"


def test_people_are_held_out_by_seed_whatever_the_order_of_the_file(tmp_path):
    rows = [f"Where was P{n} born?\tQ{n}" for n in range(50)]
    one = read_questions(written(tmp_path, "\n".join(rows)))
    other = read_questions(written(tmp_path, "\n".join(reversed(rows)), "other.tsv"))
    split = SplitConfig(validation=0.2, test=0.1, seed=3)
    first, second = (hold_out(questions, split, validation=True, test=True) for questions in (one, other))
    assert {name: len(part) for name, part in first.items()} == {"validation": 10, "test": 5, "train": 35}
    for name, part in first.items():
        assert set(part.questions) == set(second[name].questions)
        assert all(
            answer == question.replace("Where was P", "Q").removesuffix(" born?")
            for question, answer in zip(part.questions, part.answers)
        )
    assert len({question for part in first.values() for question in part.questions}) == 50
    again = hold_out(one, SplitConfig(validation=0.2, test=0.1, seed=4), validation=True, test=True)
    assert set(again["validation"].questions) != set(first["validation"].questions)


def config(tmp_path, **more) -> DataConfig:
    text = written(tmp_path, TEXT, "text.txt")
    asked = written(
        tmp_path, "".join(f"Where was {name} born?\t{place}\n" for name, place in (("Ann Lee", "Rome"), ("Bob Day", "Oslo")))
    )
    return DataConfig.parse({"path": str(text), "document": "line", "questions": str(asked), **more})


def test_own_files_go_into_splits_and_all_of_the_text_trains(tmp_path):
    test = written(tmp_path, "Where was Ann Day born?\tOslo\n", "t.tsv")
    data = config(
        tmp_path,
        questions={"train": str(tmp_path / "q.tsv"), "validation": str(test), "test": str(test)},
        split={"validation": 0.5},
    )
    text = prepare(data, TOKENIZERS.parse("char"))
    assert text.names == ["train"]
    assert text.split("train").num_documents == 3
    part = prepare_questions(data, text.tokenizer, marks=["<end>"])
    assert part.names[:2] == ["train", "validation"]
    assert len(part.split("train")) == 2
    assert part.split("test").answers == part.split("test:t").answers == ("Oslo",)
    assert part.tokenizer.marks == ("<end>",)
    assert set(part.record["files"]) == {"train", "validation", "test:t"}
    assert part.split("validation").nowhere.questions[0] in ("Where was Ann Day born?", "Where was Bob Lee born?")


def test_other_files_than_before_are_refused(tmp_path):
    data = config(tmp_path)
    tok = prepare(data, TOKENIZERS.parse("char")).tokenizer
    record = prepare_questions(data, tok).record
    assert prepare_questions(data, tok, expect=record).record == record
    written(tmp_path, "Where was Ann Lee born?\tOslo\n")
    with refused(DataError, "questions-changed", "train"):
        prepare_questions(data, tok, expect=record)


def test_data_without_questions_are_a_sentence(tmp_path):
    data = DataConfig(path=str(written(tmp_path, TEXT, "text.txt")))
    with refused(ConfigError, "no-questions", "data.questions"):
        prepare_questions(data, tokenizer())
    with refused(DataError, "missing-file"):
        prepare_questions(DataConfig.parse({"path": str(tmp_path / "text.txt"), "questions": "nowhere.tsv"}), tokenizer())


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Where was Ann Lee born?", "Ann Lee"),
        ("Where was Francisco Cervantes de Salazar born?", "Francisco Cervantes de Salazar"),
        ("What is the birth place of Mimoch Dadallach?", "Mimoch Dadallach"),
        ("Where was Émile Zola born?", "Émile Zola"),
        ("Where was Nadar born?", "Nadar"),
        ("where was it?", "was it"),
    ],
)
def test_whom_a_question_is_about(question, name):
    assert subject(question) == name


def test_wordings_are_what_several_people_are_asked_in():
    asked = [f"Where was {name} born?" for name in ("Ann Lee", "Bob Day", "Cy Orr")]
    asked += [f"Is {name} from here?" for name in ("Ann Lee", "Bob Day")] + ["What of Ann Lee?"]
    assert wordings(asked) == ["Where was {name} born?", "Is {name} from here?"]


def test_invented_names_exist_nowhere_and_follow_from_the_seed():
    names = ["Ann Lee", "Bob Day", "Cy van Orr", "Nadar"]
    known = {*names, "Ann Day"}
    found = invented_names(names, known.__contains__, many=4, seed=1)
    assert len(found) == 4
    assert not set(found) & known
    assert all(name.split()[0] in ("Ann", "Bob", "Cy") and name.split()[1] in ("Lee", "Day", "Orr") for name in found)
    assert found == invented_names(names, known.__contains__, many=4, seed=1)
    assert invented_names(["Nadar"], known.__contains__, many=4, seed=1) == []
