"""A KV cache gives back what was stored, row by row, whatever the rows' lengths and however they move."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.model.config import ModelConfig
from glassformer.model.kv_cache import CachePlacement, KVCache, ModelCache
from glassformer.model.transformer import build_model

B, H, C, E = 3, 2, 7, 5  # rows, heads, capacity, head width


def vectors(length: int, *, rows: int = B, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, H, length, E, generator=torch.Generator().manual_seed(seed))


def new_cache(layers: int, *, rows: int | None = None) -> ModelCache:
    placement = CachePlacement(capacity=C, rows=rows)
    return ModelCache(placement, [KVCache(placement) for _ in range(layers)])


class TestPlaces:
    def test_new_vectors_stand_at_each_rows_own_positions(self):
        cache = new_cache(1)
        first, second = vectors(2, seed=1), vectors(1, seed=2)
        cache.place(torch.tensor([[0, 1], [0, 1], [0, 1]]), 2)
        torch.testing.assert_close(cache.layers[0].extend("key", first), first)
        cache.place(torch.tensor([[2], [1], [0]]), 3)
        all_BHSE = cache.layers[0].extend("key", second)
        assert all_BHSE.shape == (B, H, 3, E)
        torch.testing.assert_close(all_BHSE[0], torch.cat([first[0], second[0]], dim=1))
        torch.testing.assert_close(all_BHSE[1, :, :2], torch.cat([first[1, :, :1], second[1]], dim=1))
        torch.testing.assert_close(all_BHSE[2, :, 0], second[2, :, 0])

    def test_whole_rows_go_where_they_are_sent_and_come_back_as_they_are(self):
        cache = new_cache(1, rows=B)
        whole, one = vectors(4, rows=2, seed=3), vectors(1, seed=4)
        cache.place_whole(torch.tensor([2, 0]))
        assert cache.layers[0].extend("key", whole) is whole
        cache.place(torch.tensor([[4], [0], [4]]), 5)
        all_BHSE = cache.layers[0].extend("key", one)
        torch.testing.assert_close(all_BHSE[2, :, :4], whole[0])
        torch.testing.assert_close(all_BHSE[0, :, :4], whole[1])
        torch.testing.assert_close(all_BHSE[1, :, 0], one[1, :, 0])

    def test_what_is_not_written_is_a_number(self):
        cache = new_cache(1)
        cache.place(torch.tensor([[3], [0], [5]]), 6)
        assert cache.layers[0].extend("key", vectors(1)).isfinite().all()

    def test_names_and_layers_are_apart(self):
        cache = new_cache(2)
        cache.place(torch.zeros(B, 1, dtype=torch.long), 1)
        stored = {}
        for layer in (0, 1):
            for number, name in enumerate(("key", "value")):
                stored[layer, name] = cache.layers[layer].extend(name, vectors(1, seed=10 * layer + number))
        for (layer, name), kept in stored.items():
            torch.testing.assert_close(kept, vectors(1, seed=10 * layer + (name == "value")))


def test_rows_that_stay_keep_their_vectors():
    cache = new_cache(1)
    first = vectors(2, seed=1)
    cache.place(torch.tensor([[0, 1]] * B), 2)
    cache.layers[0].extend("key", first)
    cache.keep_rows(torch.tensor([2, 1]))
    cache.place(torch.tensor([[2], [2]]), 3)
    kept = cache.layers[0].extend("key", vectors(1, rows=2))
    torch.testing.assert_close(kept[:, :, :2], first[[2, 1]])


def test_rows_may_change_places():
    cache = new_cache(1)
    first = vectors(2, seed=1)
    cache.place(torch.tensor([[0, 1]] * B), 2)
    cache.layers[0].extend("key", first)
    cache.keep_rows(torch.tensor([1, 2, 0]))
    cache.place(torch.tensor([[2]] * B), 3)
    torch.testing.assert_close(cache.layers[0].extend("key", vectors(1))[:, :, :2], first[[1, 2, 0]])


def test_a_model_reads_piece_by_piece_what_it_reads_at_once():
    """Pieces of 3, 1 and 2 tokens for rows that begin at different places of their text."""
    model = build_model(ModelConfig(width=12, layers=2, heads=3, context=C), 11, seed=1)
    ids_BT = torch.randint(11, (B, 6), generator=torch.Generator().manual_seed(2))
    cache, pieces, done = model.new_cache(), [], 0
    for size in (3, 1, 2):
        position_ids_BT = torch.arange(done, done + size).expand(B, -1)
        cache.place(position_ids_BT, done + size)
        pieces.append(model(ids_BT[:, done : done + size], position_ids_BT=position_ids_BT, cache=cache))
        done += size
    torch.testing.assert_close(torch.cat(pieces, dim=1), model(ids_BT), atol=1e-6, rtol=1e-5)


RECURRENT = {
    "linear": {"mixer": "linear", "positions": "none"},
    "retention": {"mixer": "retention", "positions": "rotary"},
    "gated_delta": {"mixer": "gated_delta"},
    "mamba2": {"mixer": {"kind": "mamba2", "state": 5}},
}
RINGS = {
    **{at: {"mixer": {"kind": "dot", "window": 3}, "positions": at} for at in ("rotary", "alibi", "t5")},
    "all parts": {
        "mixer": {"kind": "dot", "window": 3, "masked": [4, 9], "normaliser": "sink", "kv_heads": 1},
        "positions": "fire",
    },
    "list": {"mixer": [{"kind": "dot", "window": 3}, "dot"]},
    "borrowed": {"mixer": [{"kind": "dot", "window": 3}, "borrowed"], "positions": "t5"},
}


@pytest.mark.parametrize("pieces", [[7, *[1] * 24], [2, 1, 5, 1, 9, 1, 12], [1] * 31], ids=str)
@pytest.mark.parametrize("name", [*RECURRENT, *RINGS])
def test_rings_and_recurrences_are_equal_to_no_cache(name: str, pieces: list[int]) -> None:
    """Rows are read in pieces of any size, twice in the same cache in other rows; the first piece also token by token."""
    choices = {**RECURRENT, **RINGS}[name]
    model = build_model(ModelConfig.parse({"width": 12, "heads": 3, "layers": 2, "context": 40, **choices}), 13, seed=1)
    model.double().eval()
    ids_BT = torch.randint(13, (3, 31), generator=torch.Generator().manual_seed(2))
    cache = model.new_cache(rows=3)
    assert not cache.rewinds
    with torch.no_grad():
        whole_BTV = model(ids_BT)
        for rows in (torch.arange(3), torch.tensor([2, 0, 1])):
            read, at = [], 0
            for piece in pieces:
                if at == 0 and piece > 1:
                    cache.place_whole(rows)
                    read.append(model(ids_BT[rows, :piece], cache=cache)[rows.argsort()])
                else:
                    places = torch.arange(at, at + piece).expand(3, -1)
                    cache.place(places, at + piece)
                    read.append(model(ids_BT[:, at : at + piece], position_ids_BT=places, cache=cache))
                at += piece
            torch.testing.assert_close(torch.cat(read, dim=1), whole_BTV, rtol=0, atol=1e-14)


def test_what_a_long_text_takes() -> None:
    def of(**choices: object) -> tuple[int, int]:
        model = build_model(ModelConfig.parse({"width": 12, "heads": 3, "layers": 2, "context": 400, **choices}), 13, seed=1)
        return model.cache_bytes(rows=1, capacity=100), model.cache_bytes(rows=1, capacity=400)

    assert of() == (100 * 2 * 24 * 4, 400 * 2 * 24 * 4)
    assert of(mixer={"kind": "dot", "window": 5}) == (5 * 2 * 24 * 4,) * 2
    assert of(mixer="linear")[0] == of(mixer="linear")[1] == 2 * 12 * 5 * 4
    assert of(mixer=["dot", "borrowed"]) == (100 * 24 * 4, 400 * 24 * 4)


def test_masks_are_refused_where_a_row_cannot_go_back() -> None:
    model = build_model(ModelConfig.parse({"width": 12, "heads": 3, "layers": 1, "context": 9, "mixer": "linear"}), 13, seed=1)
    cache = model.new_cache(rows=1)
    cache.place_whole(torch.arange(1))
    with refused(ConfigError, "cache-without-masks"):
        model(torch.zeros(1, 3, dtype=torch.long), cache=cache, key_padding_mask_BS=torch.zeros(1, 3, dtype=torch.bool))
