"""Which document goes where: shares on paper, the same draw for the same seed, cuts that lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from glassformer.data.config import SplitConfig
from glassformer.data.reading.corpus import Document
from glassformer.data.reading.splits import Assignment, Survey, survey
from glassformer.foundation.errors import DataError


def documents(count: int) -> list[Document]:
    return [Document(f"text {number}\n", "a.txt", number + 1) for number in range(count)]


def routed(given: list[Document], **shares: float | int) -> dict[str, list[Document]]:
    assignment = Assignment(survey(given), SplitConfig(**shares))  # type: ignore[arg-type]
    found: dict[str, list[Document]] = {}
    for part, document in assignment.route(given):
        found.setdefault(part, []).append(document)
    return found


def test_a_survey_counts() -> None:
    given = [Document("é\n", "a", 1), Document("bc", "a", 2), Document("d", "a", 2, continues=True)]
    assert survey(given) == Survey(documents=2, characters=5, bytes=6)


class TestByDocument:
    def test_shares_are_exact_and_each_document_goes_to_one_place(self) -> None:
        found = routed(documents(40), validation=0.1, test=0.25)
        assert {part: len(found[part]) for part in found} == {"train": 26, "validation": 4, "test": 10}
        assert sorted(document.line for part in found.values() for document in part) == list(range(1, 41))

    def test_order_within_a_split_is_that_of_the_text(self) -> None:
        for part in routed(documents(40), validation=0.3).values():
            assert [document.line for document in part] == sorted(document.line for document in part)

    def test_the_draw_is_a_function_of_the_seed(self) -> None:
        held_out = [[d.line for d in routed(documents(50), seed=seed)["validation"]] for seed in (0, 0, 1)]
        assert held_out[0] == held_out[1] != held_out[2]
        assert held_out[0] == [10, 11, 19, 33, 38]  # written down: recorded splits of old runs must stay what they were

    def test_small_shares_get_one_document(self) -> None:
        found = routed(documents(3), validation=0.01, test=0.01)
        assert {part: len(found[part]) for part in found} == {"train": 1, "validation": 1, "test": 1}

    def test_large_shares_leave_one_for_training(self) -> None:
        for shares in ({"validation": 0.9, "test": 0.05}, {"validation": 0.05, "test": 0.9}):
            found = routed(documents(3), **shares)
            assert {part: len(found[part]) for part in found} == {"train": 1, "validation": 1, "test": 1}

    def test_pieces_stay_together(self) -> None:
        given = [
            piece
            for document in documents(20)
            for piece in (document, Document("more\n", "a.txt", document.line, continues=True))
        ]
        for part in routed(given, validation=0.4).values():
            assert [piece.continues for piece in part] == [False, True] * (len(part) // 2)

    def test_nothing_held_out(self) -> None:
        assert list(routed(documents(4), validation=0.0)) == ["train"]

    def test_a_text_that_grew_since_the_survey_is_refused(self) -> None:
        assignment = Assignment(Survey(3, 30, 30), SplitConfig())
        with refused(DataError, "changed-while-read"):
            list(assignment.route(documents(4)))


class TestByPosition:
    def test_the_end_is_held_out(self) -> None:
        found = routed([Document("abcde fghij klmno pqrst", "a", 1)], validation=0.2)  # 23 characters: int(18.4) = 18
        assert [part[0].text for part in found.values()] == ["abcde fghij klmno ", "pqrst"]

    def test_three_parts_in_the_order_of_the_text(self) -> None:
        found = routed([Document("a b c d e f g h i j ", "a", 1)], validation=0.2, test=0.3)
        assert {part: found[part][0].text for part in found} == {"train": "a b c d e ", "validation": "f g ", "test": "h i j "}

    def test_only_a_test_part(self) -> None:
        assert routed([Document("a b c d ", "a", 1)], validation=0.0, test=0.5)["test"][0].text == "c d "

    def test_a_cut_inside_a_word_moves_to_its_end(self) -> None:
        found = routed([Document("one two\nthreefour five", "a", 1)], validation=0.4)  # int(12.6) = 12: thre|efour
        assert found["train"][0].text == "one two\nthreefour"
        assert found["validation"] == [Document(" five", "a", 2)]

    def test_nanogpt_would_cut_there_too(self) -> None:
        # int(0.9 n) characters are for training; that place lies after a word, so it is not moved
        text = "x" * 89 + "?" + "y" * 10
        found = routed([Document(text, "a", 1)], validation=0.1)
        assert len(found["train"][0].text) == int(len(text) * 0.9)

    def test_pieces_are_followed_across_the_cut(self) -> None:
        given = [Document("one two ", "a", 1), Document("three\n", "a", 1, True), Document("four five", "a", 2, True)]
        found = routed(given, validation=0.3)  # 23 characters: 16.1
        assert [piece.text for piece in found["train"]] == ["one two ", "three\n", "four"]
        assert found["validation"] == [Document(" five", "a", 2)]

    def test_inside_the_last_word_the_cut_moves_back(self) -> None:
        given = [Document("aaaa bbbb", "a", 1), Document(" cccc", "a", 1, True)]
        found = routed(given, validation=0.5)  # 14 characters: 7 is inside bbbb
        assert [piece.text for piece in found["train"]] == ["aaaa "]
        assert found["validation"] == [Document("bbbb", "a", 1), Document(" cccc", "a", 1, True)]

    def test_a_text_without_words_is_cut_where_it_must(self) -> None:
        found = routed([Document("x" * 1000, "a", 1)], validation=0.1)
        assert len(found["validation"][0].text) == 100

    def test_too_few_documents_for_the_parts(self) -> None:
        found = routed(documents(2), validation=0.25, test=0.25)
        assert "".join(document.text for part in ("train", "validation", "test") for document in found[part]) == (
            "text 0\ntext 1\n"
        )

    @given(
        sizes=st.lists(st.integers(1, 12), min_size=1, max_size=6),
        validation=st.sampled_from([0.0, 0.1, 0.4]),
        test=st.sampled_from([0.0, 0.2, 0.5]),
    )
    def test_nothing_is_lost(self, sizes: list[int], validation: float, test: float) -> None:
        pieces = [Document(("ab c\n" * 3)[:size], "a", 1, number > 0) for number, size in enumerate(sizes)]
        found = routed(pieces, validation=validation, test=test)
        joined = "".join(piece.text for part in ("train", "validation", "test") for piece in found.get(part, []))
        assert joined == "".join(piece.text for piece in pieces)
        assert all(not part[0].continues for part in found.values())


@pytest.mark.realdata
def test_tinyshakespeare_is_split_as_nanogpt_splits_it(real_data: Path) -> None:
    text = (real_data / "tinyshakespeare" / "input.txt").read_text()
    found = routed([Document(text, "a", 1)], validation=0.1)
    assert (len(found["train"][0].text), len(found["validation"][0].text)) == (1003854, 111540)
