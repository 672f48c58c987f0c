"""Batches of pairs: marks, padding, one visit an epoch, a few shapes, by (seed, step) alone."""

from __future__ import annotations

import numpy as np
import torch
from tests.refusals import refused

from glassformer.data.labels.label_batches import LengthGroups
from glassformer.data.pairs.pair_batches import MARKS, PairBatches, encode_pairs, pairs_in_order
from glassformer.data.pairs.text_pairs import Pairs
from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.foundation.errors import DataError

TOKENIZER = TOKENIZERS.parse("char").train(lambda: ["abcdefgh"]).with_marks(MARKS)
START, END, PAD = (TOKENIZER.mark_id(mark) for mark in MARKS)


def pairs(*texts: tuple[str, str]) -> Pairs:
    sources, targets = zip(*texts)
    return Pairs("t", sources, targets, tuple(f"t:{n}" for n in range(len(texts))))


MANY = pairs(*(("abcdefgh"[: 1 + n % 8] * (1 + n % 5), "ab"[: 1 + n % 2]) for n in range(53)))


def test_a_source_ends_and_a_target_is_shifted() -> None:
    (at, batch), *more = pairs_in_order(encode_pairs(TOKENIZER, pairs(("ab", "c")), 16), 4)
    a, b, c = TOKENIZER.encode("abc")
    assert not more
    assert at.tolist() == [0]
    assert batch["source_ids"][0, :4].tolist() == [a, b, END, PAD]
    assert batch["source_padding"][0, :4].tolist() == [False, False, False, True]
    assert batch["ids"][0, :3].tolist() == [START, c, PAD]
    assert batch["targets"][0, :3].tolist() == [c, END, -100]
    assert batch.numel == batch["ids"].numel() + batch["source_ids"].numel()


def test_every_pair_once_an_epoch_in_a_few_shapes() -> None:
    encoded = encode_pairs(TOKENIZER, MANY, 64, training=True)
    batches = PairBatches(LengthGroups(encoded, batch_size=8, seed=3))
    steps, seen = int(batches.steps_per_epoch), []
    shapes = set()
    for step in range(steps):
        batch = batches.batch(step)
        shapes.add(batch["ids"].shape)
        assert batch.rows == 8
        for row in range(8):
            if (batch["targets"][row] != -100).any():
                source = batch["source_ids"][row][~batch["source_padding"][row]][:-1].tolist()
                seen.append((TOKENIZER.decode(source), TOKENIZER.decode(batch["targets"][row][:1].tolist())))
    assert len(seen) == len(MANY)
    assert sorted(source for source, _ in seen) == sorted(MANY.sources)
    assert 1 < len(shapes) <= 4
    again = PairBatches(LengthGroups(encoded, batch_size=8, seed=3)).batch(steps + 2)
    assert torch.equal(again["source_ids"], batches.batch(steps + 2)["source_ids"])


def test_long_pairs_are_left_out_of_training_and_cut_in_evaluation() -> None:
    items = pairs(("a" * 30, "b"), ("a", "b"), ("a", "b" * 30))
    training = encode_pairs(TOKENIZER, items, 16, training=True)
    assert (len(training), training.outside) == (1, 2)
    assert "2 of 3 pairs" in str(training.note("left out"))
    cut = encode_pairs(TOKENIZER, items, 16)
    assert [len(ids) for ids in cut.sources] == [16, 2, 2]
    assert all(ids[-1] == END for ids in (*cut.sources, *cut.targets))
    assert cut.lengths.max() == 16
    with refused(DataError, "all-too-long"):
        encode_pairs(TOKENIZER, items, 1, training=True)


def test_two_tokenizers_have_ids_of_their_own() -> None:
    from glassformer.data.tokenizers.two import TwoTokenizers

    two = TwoTokenizers(TOKENIZER, TOKENIZERS.parse("char").train(lambda: ["xy"]).with_marks(MARKS))
    encoded = encode_pairs(two, pairs(("ab", "xy")), 16)
    assert encoded.targets[0].tolist() == [*two.target.encode("xy"), two.target.mark_id("<end>")]
    assert np.array_equal(encoded.sources[0], [*TOKENIZER.encode("ab"), END])
