"""Salient spans: capitalised names and years, whatever the tokens."""

from __future__ import annotations

import numpy as np

from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.objectives.span_corruption import salient_spans

TEXT = "Ann Lee-Low (1821, New York) was o'Neil born in 18; X7 in Saint-Denis, 12345 and 1944."
SALIENT = ["Ann Lee-Low", "1821", "New York", "X7", "Saint-Denis", "1944"]


def test_by_hand_on_characters():
    signs = sorted(set(TEXT))
    begins, ends = salient_spans(np.array([signs.index(sign) for sign in TEXT]), signs)
    assert [TEXT[begin:end] for begin, end in zip(begins, ends)] == SALIENT


def test_tokens_that_carry_their_space_give_the_same_spans():
    tokenizer = TOKENIZERS.parse({"kind": "bpe", "vocab": 300}).train(lambda: [TEXT] * 3)
    texts = [tokenizer.decode([token_id]) for token_id in range(tokenizer.size)]
    ids = np.array(tokenizer.encode(TEXT))
    found = [tokenizer.decode(ids[begin:end].tolist()).strip() for begin, end in zip(*salient_spans(ids, texts))]
    assert found == SALIENT


def test_words_as_tokens_and_no_words_at_all():
    texts = ["Ann", " Lee", " was", ",", " 19", "44", "\n", "Bo", "b"]
    found = ["".join(texts[begin:end]) for begin, end in zip(*salient_spans(np.arange(9), texts))]
    assert found == ["Ann Lee", " 1944", "Bob"]
    assert all(len(part) == 0 for part in salient_spans(np.array([3, 3]), texts))
