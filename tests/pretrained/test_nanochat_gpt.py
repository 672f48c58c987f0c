"""nanochat's own GPT from its state dict: the scores of an independent reimplementation (below, by the names of the state
dict alone), exported tensors equal, generation with a cache as without."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.pretrained.conftest import TEXTS
from torch import Tensor

import glassformer as gf
from glassformer.data.tokenizers.bpe import BPETokenizerConfig

LAYERS, WIDTH, HEADS, KV_HEADS, CONTEXT, VOCABULARY = 4, 48, 4, 2, 300, 320
HEAD = WIDTH // HEADS
WINDOWS = [129, 129, None, None]  # SSL, the last layer whole; the token itself and 128 before it


def random_state() -> dict[str, Tensor]:
    shapes = {"transformer.wte.weight": (VOCABULARY, WIDTH), "lm_head.weight": (VOCABULARY, WIDTH)}
    shapes |= {"resid_lambdas": (LAYERS,), "x0_lambdas": (LAYERS,), "backout_lambda": (1,)}
    shapes |= {"smear_gate.weight": (1, 24), "smear_lambda": (1,)}
    for n in range(LAYERS):
        at = f"transformer.h.{n}."
        shapes |= {f"{at}attn.c_q.weight": (WIDTH, WIDTH), f"{at}attn.c_proj.weight": (WIDTH, WIDTH)}
        shapes |= {f"{at}attn.{name}.weight": (KV_HEADS * HEAD, WIDTH) for name in ("c_k", "c_v")}
        shapes |= {f"{at}mlp.c_fc.weight": (4 * WIDTH, WIDTH), f"{at}mlp.c_proj.weight": (WIDTH, 4 * WIDTH)}
        if n % 2:  # every other layer, the last among them
            shapes |= {f"{at}attn.ve_gate.weight": (KV_HEADS, 12), f"value_embeds.{n}.weight": (VOCABULARY, KV_HEADS * HEAD)}
    generator = torch.Generator().manual_seed(0)
    return {name: 0.3 * torch.randn(shape, generator=generator) + (len(shape) == 1) for name, shape in shapes.items()}


def unit(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + torch.finfo(torch.float32).eps)


def expected_scores(state: dict[str, Tensor], ids: Tensor) -> Tensor:
    """Token by token and head by head, as slowly and plainly as it can be said."""
    time = ids.shape[1]
    angle = torch.arange(time).outer(100000.0 ** (-torch.arange(0, HEAD, 2) / HEAD))
    turn = torch.polar(torch.ones_like(angle), -angle)  # clockwise

    def turned(x: Tensor) -> Tensor:
        pairs = torch.complex(*x.split(HEAD // 2, -1)) * turn
        return torch.cat([pairs.real, pairs.imag], -1)

    x = unit(state["transformer.wte.weight"][ids])
    gate = state["smear_lambda"] * (x[:, 1:, :24] @ state["smear_gate.weight"].T).sigmoid()
    first = x = torch.cat([x[:, :1], x[:, 1:] + gate * x[:, :-1]], 1)
    middle = x
    for n in range(LAYERS):
        at = f"transformer.h.{n}."
        x = state["resid_lambdas"][n] * x + state["x0_lambdas"][n] * first
        read, written = unit(x), []
        queries, keys, values = (read @ state[f"{at}attn.{name}.weight"].T for name in ("c_q", "c_k", "c_v"))
        if f"value_embeds.{n}.weight" in state:
            share = 3 * (read[..., :12] @ state[f"{at}attn.ve_gate.weight"].T).sigmoid()
            values = values + share.repeat_interleave(HEAD, -1) * state[f"value_embeds.{n}.weight"][ids]
        back = torch.arange(time)[:, None] - torch.arange(time)
        hidden = (back < 0) | (back >= (WINDOWS[n] or time))
        for head in range(HEADS):
            own, shared = (slice(k * HEAD, (k + 1) * HEAD) for k in (head, head * KV_HEADS // HEADS))
            q, k = 1.2 * unit(turned(queries[..., own])), 1.2 * unit(turned(keys[..., shared]))
            weights = (q @ k.mT / math.sqrt(HEAD)).masked_fill(hidden, -torch.inf).softmax(-1)
            written.append(weights @ values[..., shared])
        x = x + torch.cat(written, -1) @ state[f"{at}attn.c_proj.weight"].T
        x = x + (unit(x) @ state[f"{at}mlp.c_fc.weight"].T).relu().square() @ state[f"{at}mlp.c_proj.weight"].T
        if n == LAYERS // 2:
            middle = x
    x = unit(x - state["backout_lambda"] * middle)
    return 15 * torch.tanh(x @ state["lm_head.weight"].T / 15)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("nanochat-gpt")
    save_file(random_state(), place / "model.safetensors")
    settings = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_kv_head": KV_HEADS, "sequence_len": CONTEXT}
    settings |= {"vocab_size": VOCABULARY, "window_pattern": "SSL", "model_type": "nanochat-gpt"}
    (place / "config.json").write_text(json.dumps(settings))
    BPETokenizerConfig(vocab=300, min_count=1).train(lambda: TEXTS).save(place / "tokenizer.json")
    return place


def ids() -> Tensor:
    return torch.randint(VOCABULARY, (2, 200), generator=torch.Generator().manual_seed(1))


def test_the_scores_are_those_of_an_independent_reimplementation(folder: Path) -> None:
    model = gf.load(folder).model
    assert [choices.mixer.window for choices in map(model.config.of_layer, range(LAYERS))] == WINDOWS
    with torch.no_grad():
        torch.testing.assert_close(model(ids()), expected_scores(random_state(), ids()), atol=1e-4, rtol=0)


def test_exported_again_the_tensors_and_settings_are_the_same(folder: Path, tmp_path: Path) -> None:
    gf.load(folder).save_pretrained(tmp_path / "again")
    before, after = (load_file(place / "model.safetensors") for place in (folder, tmp_path / "again"))
    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    settings = [json.loads((place / "config.json").read_text()) for place in (folder, tmp_path / "again")]
    assert settings[1].items() >= {**settings[0], "window_pattern": "SSLL"}.items()


def test_a_cache_gives_the_same_scores(folder: Path) -> None:
    model = gf.load(folder).model.eval()
    cache = model.new_cache(rows=2)
    with torch.no_grad():
        whole, read = model(ids()), []
        cache.place_whole(torch.arange(2))
        read.append(model(ids()[:, :140], cache=cache))
        for position in range(140, 200):
            place = torch.full((2, 1), position)
            cache.place(place, position + 1)
            read.append(model(ids()[:, position : position + 1], position_ids_BT=place, cache=cache))
    torch.testing.assert_close(torch.cat(read, 1), whole, atol=1e-4, rtol=0)
