"""Span corruption: rows by hand, and the vectorised writing against one row at a time, for every rule."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.objectives.span_rows import DRAWS, Draw, Marks, SpanRule, TextLines, compose, draw, salient_spans

TEXT = "Ann Lee. Born in Rome in 1821, she went to New York and was a poet.\nBob Day (1900) came from Oslo.\n\nX is Y.\r\n"
SIGNS = sorted(set(TEXT))
IDS = np.array([SIGNS.index(sign) for sign in TEXT])
V = len(SIGNS)
MARKS = Marks(masks=(V, V + 4, V + 5, V + 6, V + 7, V + 8), answer=V + 1, end=V + 2, pad=V + 3)
NAMES = [*SIGNS, "[0]", "[A]", "[E]", "_", "[1]", "[2]", "[3]", "[4]", "[5]"]


def lines(salient: bool = True) -> TextLines:
    return TextLines(IDS, np.array([0]), SIGNS, salient=salient)


def rule(**settings) -> SpanRule:
    usual = {
        "shortest": 4,
        "longest": 44,
        "random_cut": True,
        "mean_share": 0.25,
        "mean_span": None,
        "salient": 0.0,
        "start": "line",
    }
    return SpanRule(**{**usual, **settings})


def shown(rows: torch.Tensor) -> list[str]:
    return ["".join(NAMES[token] for token in row.tolist()).rstrip("_") for row in rows]


def reference(packed: np.ndarray, width: int) -> list[str]:
    """One row at a time, as the rule is written."""
    found = []
    for start, title, skip, length, *ends in packed.tolist():
        spans = sorted((b, e) for b, e in zip(ends[: len(ends) // 2], ends[len(ends) // 2 :]) if e > b)
        text = [TEXT[start + j + (skip if j >= title else 0)] for j in range(length)]
        visible, hidden, at = "", "[A]", 0
        for number, (begin, end) in enumerate(spans):
            visible += "".join(text[at:begin]) + f"[{number}]"
            hidden += (f"[{number}]" if number else "") + "".join(text[begin:end])
            at = end
        found.append(visible + "".join(text[at:]) + hidden + "[E]")
    return found


def test_lines_are_found_without_their_ends_and_with_their_titles():
    found = lines()
    texts = [TEXT[start : start + length] for start, length in zip(found.starts_R, found.lengths_R)]
    assert texts == [line for line in TEXT.replace("\r", "").split("\n") if line]
    assert [text[:title] for text, title in zip(texts, found.titles_R)] == [
        "Ann Lee.",
        "Bob Day (1900) came from Oslo.",
        "X is Y.",
    ]


def test_a_row_by_hand():
    one = Draw(*(np.array([n]) for n in (0, 67, 0, 30)), begin_RK=np.array([[17]]), end_RK=np.array([[21]]))
    (row,) = shown(compose(torch.from_numpy(IDS), torch.from_numpy(one.packed()), MARKS, 40))
    assert row == "Ann Lee. Born in [0] in 1821,[A]Rome[E]"


RULES = {
    "one span": rule(),
    "whole lines": rule(random_cut=False),
    "salient": rule(salient=1.0),
    "title": rule(start="title", salient=0.6, random_cut=False, longest=30),
    "anywhere": rule(start="anywhere", salient=0.3),
    "T5": rule(mean_span=3, mean_share=0.3),
    "T5, salient": rule(mean_span=2, mean_share=0.25, salient=0.5, longest=40),
}


@pytest.mark.parametrize("name", RULES)
class TestEveryRule:
    def drawn(self, name, rows=300):
        rng = np.random.default_rng(5)
        chosen = rng.integers(0, 3, rows)
        return chosen, draw(lines(), chosen, rng.random((rows, DRAWS + 2 * RULES[name].spans)), RULES[name])

    def test_rows_are_those_of_the_reference(self, name):
        _, found = self.drawn(name)
        packed = found.packed()
        made = compose(torch.from_numpy(IDS), torch.from_numpy(packed), MARKS, RULES[name].width)
        assert shown(made) == reference(packed, RULES[name].width)

    def test_nothing_is_lost_and_spans_lie_inside(self, name):
        chosen, found = self.drawn(name)
        assert (found.length >= np.minimum(RULES[name].shortest, lines().lengths_R[chosen])).all()
        assert (found.length <= RULES[name].longest).all()
        assert (found.length + found.skip <= lines().lengths_R[chosen]).all()
        sizes = found.end_RK - found.begin_RK
        assert (sizes.sum(axis=1) >= 1).all()
        assert ((found.end_RK <= found.length[:, None]) | (sizes == 0)).all()


def test_the_mean_share_is_hidden():
    rng = np.random.default_rng(2)
    found = draw(lines(), np.zeros(4000, dtype=int), rng.random((4000, DRAWS + 2)), rule(random_cut=False))
    assert (found.end_RK - found.begin_RK).mean() / 44 == pytest.approx(0.25, abs=0.01)
    found = draw(lines(), np.zeros(4000, dtype=int), rng.random((4000, DRAWS + 2)), rule())
    assert found.length.min() == 4
    assert found.length.max() == 44
    assert found.length.mean() == pytest.approx(24, abs=0.7)


def test_salient_spans_are_names_and_years_also_beyond_the_first_row():
    def hidden(start: str) -> set[str]:
        settings = rule(salient=1.0, start=start, longest=30, random_cut=False)
        rng = np.random.default_rng(1)
        found = draw(lines(), np.zeros(500, dtype=int), rng.random((500, DRAWS + 2)), settings)
        rows = shown(compose(torch.from_numpy(IDS), torch.from_numpy(found.packed()), MARKS, settings.width))
        return {row.partition("[A]")[2].removesuffix("[E]") for row in rows}

    assert {"Rome", "1821", "New York", "Born"} <= hidden("title")
    assert "New York" not in hidden("line")  # it ends beyond the 30 tokens of a row


def test_rows_with_a_title_begin_with_it():
    settings = rule(start="title", longest=30, random_cut=False, salient=0.5)
    rng = np.random.default_rng(3)
    found = draw(lines(), np.zeros(200, dtype=int), rng.random((200, DRAWS + 2)), settings)
    rows = shown(compose(torch.from_numpy(IDS), torch.from_numpy(found.packed()), MARKS, settings.width))
    assert len({row[-12:] for row in rows}) > 10
    whole = [row for row, begin in zip(rows, found.begin_RK[:, 0]) if begin >= 8]
    assert whole
    assert all(row.startswith("Ann Lee.") for row in whole)


TEXT_SALIENT_SPANS = "Ann Lee-Low (1821, New York) was o'Neil born in 18; X7 in Saint-Denis, 12345 and 1944."
SALIENT = ["Ann Lee-Low", "1821", "New York", "X7", "Saint-Denis", "1944"]


def test_by_hand_on_characters():
    signs = sorted(set(TEXT_SALIENT_SPANS))
    begins, ends = salient_spans(np.array([signs.index(sign) for sign in TEXT_SALIENT_SPANS]), signs)
    assert [TEXT_SALIENT_SPANS[begin:end] for begin, end in zip(begins, ends)] == SALIENT


def test_tokens_that_carry_their_space_give_the_same_spans():
    tokenizer = TOKENIZERS.parse({"kind": "bpe", "vocab": 300}).train(lambda: [TEXT_SALIENT_SPANS] * 3)
    texts = [tokenizer.decode([token_id]) for token_id in range(tokenizer.size)]
    ids = np.array(tokenizer.encode(TEXT_SALIENT_SPANS))
    found = [tokenizer.decode(ids[begin:end].tolist()).strip() for begin, end in zip(*salient_spans(ids, texts))]
    assert found == SALIENT


def test_words_as_tokens_and_no_words_at_all():
    texts = ["Ann", " Lee", " was", ",", " 19", "44", "\n", "Bo", "b"]
    found = ["".join(texts[begin:end]) for begin, end in zip(*salient_spans(np.arange(9), texts))]
    assert found == ["Ann Lee", " 1944", "Bob"]
    assert all(len(part) == 0 for part in salient_spans(np.array([3, 3]), texts))
