"""Padded batches of labelled texts: every text once an epoch, by (seed, step) alone; cutting that is counted."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import tokenizers
from tests.refusals import refused

from glassformer.data.labels import label_batches
from glassformer.data.labels.label_batches import IGNORED, LengthGroups, encode_texts, fixed_lengths, in_order, padded
from glassformer.data.labels.labelled_texts import LabelledTexts
from glassformer.data.tokenizers.byte import ByteTokenizer
from glassformer.data.tokenizers.huggingface import HuggingFaceTokenizer
from glassformer.foundation.errors import DataError

WORDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4, "b": 5, "c": 6, "d": 7, "e": 8}


def bert_like() -> HuggingFaceTokenizer:
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="[UNK]"))
    library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    library.add_special_tokens(["[PAD]", "[CLS]", "[SEP]"])
    return HuggingFaceTokenizer(json.loads(library.to_str()))


def texts(given: list[str], pairs: list[str] | None = None) -> LabelledTexts:
    ids = tuple(f"t:{n}" for n in range(len(given)))
    labels = np.arange(len(given)) % 2
    return LabelledTexts("t", tuple(given), None if pairs is None else tuple(pairs), labels, ids, ("no", "yes"))


def test_the_marks_of_the_tokenizers_own_template() -> None:
    single = encode_texts(bert_like(), texts(["a b"]), 8)
    assert single.ids[0].tolist() == [2, 4, 5, 3]
    assert single.types is None
    assert single.pad_id == 0
    pair = encode_texts(bert_like(), texts(["a b"], ["c"]), 8)
    assert pair.ids[0].tolist() == [2, 4, 5, 3, 6, 3]
    assert pair.types is not None
    assert pair.types[0].tolist() == [0, 0, 0, 0, 1, 1]


def test_the_longer_text_is_cut_first_and_cutting_is_counted() -> None:
    cut = encode_texts(bert_like(), texts(["a b", "a", "a b a b a b"], ["c d e c d e", "c", "c d e c d e"]), 8)
    assert [len(ids) for ids in cut.ids] == [8, 5, 8]
    assert cut.ids[0].tolist() == [2, 4, 5, 3, 6, 7, 8, 3]  # all of the short text, three of the long one
    assert cut.ids[2].tolist() == [2, 4, 5, 3, 6, 7, 8, 3]
    assert cut.cut == 2
    assert cut.note() is not None
    assert "2 of 3 texts" in str(cut.note())


def test_a_tokenizer_without_marks_takes_no_pairs() -> None:
    assert encode_texts(ByteTokenizer(), texts(["ab"]), 8).ids[0].tolist() == [97, 98]
    with refused(DataError, "no-mark-between-pairs"):
        encode_texts(ByteTokenizer(), texts(["ab"], ["c"]), 8)


def test_few_fixed_lengths_that_end_at_the_context() -> None:
    assert fixed_lengths(32) == [16, 24, 32]
    assert fixed_lengths(7) == [7]
    assert len(fixed_lengths(512)) <= 12


def corpus() -> LengthGroups:
    encoded = encode_texts(ByteTokenizer(), texts(["x" * (1 + 7 * n % 40) for n in range(53)]), 48)
    return LengthGroups(encoded, batch_size=5, seed=3)


def test_an_epoch_visits_every_text_once() -> None:
    groups = corpus()
    assert groups.batches_per_epoch == 11
    for epoch in (0, 1):
        steps = range(epoch * 11, (epoch + 1) * 11)
        visited = np.concatenate([groups.chosen(step)[0] for step in steps])
        assert sorted(visited.tolist()) == list(range(53))


def test_batches_depend_on_seed_and_step_alone() -> None:
    one, other = corpus(), corpus()
    for step in (17, 2, 30, 2):
        for mine, its in zip(one.batch(step)[:3], other.batch(step)[:3]):
            np.testing.assert_array_equal(mine, its)
        other = corpus()
    assert one.chosen(0)[0].tolist() != one.chosen(11)[0].tolist()


def test_a_short_last_batch_is_filled_with_rows_without_a_label() -> None:
    groups = corpus()
    counts = [int((groups.batch(step).labels_B != IGNORED).sum()) for step in range(11)]
    assert sum(counts) == 53
    assert sorted(counts) == [3] + [5] * 10
    assert all(groups.batch(step).ids_BT.shape[0] == 5 for step in range(11))


def test_texts_of_similar_length_come_together() -> None:
    groups = corpus()
    used = sum(int((~groups.batch(step).hidden_BT).sum()) for step in range(11))
    room = sum(groups.batch(step).hidden_BT.size for step in range(11))
    assert used / room > 0.6
    assert used / (11 * 5 * 48) < 0.5  # what padding to the context would give


def test_padding_is_hidden_and_the_rest_is_not() -> None:
    encoded = encode_texts(bert_like(), texts(["a b", "c"]), 8)
    rows = padded(encoded, [0, 1], 6)
    assert rows.ids_BT.tolist() == [[2, 4, 5, 3, 0, 0], [2, 6, 3, 0, 0, 0]]
    assert rows.hidden_BT.sum(axis=1).tolist() == [2, 3]
    assert rows.labels_B.tolist() == [0, 1]


def test_evaluation_reads_every_text_once() -> None:
    encoded = corpus().texts
    seen = np.concatenate([at for at, _ in in_order(encoded, 8)])
    assert sorted(seen.tolist()) == list(range(53))


def test_encoded_once_for_the_same_texts_labels_tokenizer_and_context(monkeypatch: pytest.MonkeyPatch) -> None:
    label_batches._encodings.clear()
    real, calls = label_batches.encoded_texts, []
    monkeypatch.setattr(label_batches, "encoded_texts", lambda *given: calls.append(1) or real(*given))
    items = texts(["a b", "c"])
    encoded = [encode_texts(bert_like(), items, 8) for _ in range(2)]
    assert encoded[0] is encoded[1]
    assert len(calls) == 1
    again = real(bert_like(), items, 8)
    assert [one.tolist() for one in encoded[0].ids] == [one.tolist() for one in again.ids]
    others = [
        encode_texts(bert_like(), items, 3),
        encode_texts(ByteTokenizer(), items, 8),
        encode_texts(bert_like(), texts(["a b", "d"]), 8),
        encode_texts(bert_like(), texts(["a b", "c"], ["d", "e"]), 8),
        encode_texts(bert_like(), replace(items, labels=items.labels[::-1].copy()), 8),
        encode_texts(bert_like(), replace(items, label_names=("yes", "no"), labels=1 - items.labels), 8),
    ]
    assert len(calls) == 7
    assert others[-1].labels.tolist() == [1, 0]


def test_what_a_class_of_a_notebook_encodes_is_never_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(ByteTokenizer): ...

    first, second = (encode_texts(Other(), texts(["a b"]), 8) for _ in range(2))
    assert first is not second


def test_rows_of_different_lengths_are_parts_of_one_array() -> None:
    rows = label_batches.Ragged(np.arange(6), [2, 0, 4])
    assert [row.tolist() for row in rows] == [[0, 1], [], [2, 3, 4, 5]]
    assert rows[2].base is rows.flat
    with pytest.raises(IndexError):
        rows[3]
