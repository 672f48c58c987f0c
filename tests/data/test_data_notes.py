"""The sentences: said when there is something to say, with the numbers, and silent otherwise."""

from __future__ import annotations

from glassformer.data import prepare as notes
from glassformer.data.config import SplitConfig
from glassformer.data.reading.corpus import Document, Skipped
from glassformer.data.reading.splits import Assignment, Survey
from glassformer.data.token_files import Duplicates, split_of_documents
from glassformer.data.tokenizers.char import CharTokenizer
from glassformer.data.tokenizers.word import WordTokenizer

LETTERS = CharTokenizer("\nab")


def split(name: str, *texts: str) -> notes.TokenSplit:
    return split_of_documents(name, LETTERS, [Document(text, f"{name}.txt", number + 1) for number, text in enumerate(texts)])


def test_a_split_by_position_is_said() -> None:
    assert notes.about_split(
        Assignment(Survey(1, 100, 100), SplitConfig(validation=0.1, test=0.2)), Survey(1, 100, 100), {}
    ) == [
        "The text is one document, so it is split by position: the end of it is held out "
        "(10 % for validation, then 20 % for test)."
    ]


def test_shares_far_from_what_was_asked_are_said() -> None:
    found = Survey(2, 8, 8)
    assignment = Assignment(found, SplitConfig(validation=0.1))
    assert notes.about_split(assignment, found, {"validation": split("validation", "abab")}) == [
        "validation holds 50.0% of the text rather than 10.0%, because documents are drawn whole and there are 2 of them."
    ]
    assert notes.about_split(assignment, Survey(10, 40, 40), {"validation": split("validation", "abab")}) == []
    assert notes.about_split(Assignment(found, SplitConfig(validation=0)), found, {}) == []


def test_bad_lines_are_counted_and_shown() -> None:
    assert Skipped().notes == []
    said = Skipped(2, ["a.txt, line 3: bad.", "a.txt, line 9: bad."]).notes[0]
    assert said.startswith("2 bad lines were left out")
    assert "a.txt, line 3: bad. | a.txt, line 9: bad." in said


def test_equal_files_are_said() -> None:
    assert notes.about_equal_files({"train": "x", "validation": "y", "test": "x"}) == [
        "The test file has the same bytes as the train file: figures on it measure memorisation, not generalisation."
    ]


def test_repeats_and_overlaps_name_an_example() -> None:
    train, validation = split("train", "ab", "a", "ab\n"), split("validation", "b", "a")
    assert notes.about_repeats(train) == [
        "1 of 3 documents of train repeat an earlier one, for example train.txt, line 3, as in train.txt, line 1."
    ]
    assert notes.about_repeats(validation) == []
    assert notes.about_overlap(train, validation, Duplicates(1, ((1, 1),))) == [
        "1 of 2 documents of validation (50.0%) also occur in train, for example validation.txt, line 2, as in train.txt, "
        "line 2: figures on validation are too optimistic."
    ]
    assert notes.about_overlap(train, validation, Duplicates()) == []


def test_unknown_tokens_and_dropped_words() -> None:
    assert notes.about_unknown(split("test", "abx?")) == [
        "2 of 4 tokens of test are UNK (50.00%): the tokenizer does not know them."
    ]
    assert notes.about_unknown(split("test", "ab")) == []
    assert notes.about_dropped(LETTERS) == []
    assert "1,234 of the rarest were dropped" in notes.about_dropped(WordTokenizer(["a"], dropped=1234))[0]
