"""What is shown of a tokenizer, on a vocabulary small enough for paper."""

from __future__ import annotations

import pytest

from glassformer.data.tokenizers import base
from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.data.tokenizers.bpe import BPETokenizer
from glassformer.data.tokenizers.bpe_training import train
from glassformer.data.tokenizers.inspection import count_tokens, describe, follow, list_merges
from glassformer.data.tokenizers.pretokenization import LEVELS

# ab 5 times, abc 4 times: a+b 9, ab+c 4. Ids 257 and 258, after one special token and 256 bytes.
AB = BPETokenizer(train({"ab": 5, "abc": 4}, LEVELS["byte"], vocab=259, special=["</s>"]))


def test_merges_in_order() -> None:
    assert list_merges(AB) == [
        {"rank": 1, "left": "a", "right": "b", "merged": "ab", "id": 257},
        {"rank": 2, "left": "ab", "right": "c", "merged": "abc", "id": 258},
    ]


def test_following_a_word() -> None:
    first, second = follow(AB, "abab 7")
    a, b = AB.pairs.ids["a"], AB.pairs.ids["b"]
    assert first["symbols"] == ["a", "b", "a", "b"]
    assert [(step["rank"], step["place"], step["tokens"], step["spans"]) for step in first["steps"]] == [
        (1, 0, ["ab", "a", "b"], [2, 1, 1]),
        (1, 1, ["ab", "ab"], [2, 2]),
    ]
    assert first["ids"] == [257, 257] == AB.encode("abab")
    assert second == {"word": " 7", "symbols": [" ", "7"], "steps": [], "ids": AB.encode(" 7")}
    assert a < b < 257


def test_words_that_are_too_long_to_be_followed_keep_their_ids() -> None:
    words = follow(AB, "abab ab ababab ab ab", longest=4, most=10)
    assert [word["word"] for word in words] == ["abab", " ab", " ababab", " ab", " ab"]
    assert [None if word["steps"] is None else len(word["steps"]) for word in words] == [2, 1, None, 1, None]
    assert [token for word in words for token in word["ids"]] == AB.encode("abab ab ababab ab ab")


def test_facts_without_a_text() -> None:
    facts = describe(AB, top=2)
    assert {key: facts[key] for key in ("kind", "size", "level", "marks")} == {
        "kind": "bpe",
        "size": 259,
        "level": "byte",
        "marks": {"stop": 0},
    }
    assert facts["bytes_per_token"] == {"vocabulary": pytest.approx((256 + 2 + 3) / 258), "text": None}
    assert facts["longest"] == [{"id": 258, "text": "abc", "bytes": 3}, {"id": 257, "text": "ab", "bytes": 2}]
    assert (facts["rarest"], facts["never_produced"]) == (None, None)
    assert facts["merges"] == list_merges(AB)


def test_facts_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BATCH_CHARACTERS", 4)  # so that three texts are two batches
    usage = count_tokens(AB, ["abc", "ab", "abcé"])
    assert (usage.num_bytes, usage.num_tokens) == (10, 5)
    facts = describe(AB, usage, top=3)
    assert facts["bytes_per_token"]["text"] == 2.0
    assert [(token["text"], token["count"]) for token in facts["rarest"]] == [("<0xA9>", 1), ("<0xC3>", 1), ("ab", 1)]
    never = {token["text"] for token in facts["never_produced"]}
    assert len(never) == 259 - 4
    assert {"</s>", "a", "b", "c"} <= never


def test_a_text_of_nothing_says_nothing() -> None:
    assert describe(AB, count_tokens(AB, []))["rarest"] is None


@pytest.mark.parametrize("kind", sorted(set(TOKENIZERS.names()) - {"file", "two"}))
def test_every_kind_has_facts(kind: str) -> None:
    texts = ["the lower the slower\n"] * 4
    tokenizer = TOKENIZERS.parse(kind).train(lambda: texts)
    usage = count_tokens(tokenizer, texts)
    facts = describe(tokenizer, usage, top=4)
    assert facts["size"] == tokenizer.size
    assert len(facts["longest"]) == 4
    assert len(facts["never_produced"]) + sum(usage.counts > 0) == tokenizer.size
    words = follow(tokenizer, "the lower")
    assert [token for word in words for token in word["ids"]] == tokenizer.encode("the lower")
