"""A look: maps whose rows are right for every mixer, hidden positions, bad input; transformers as oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import encoders
from tests.mixers import placed
from tests.refusals import refused

from glassformer.data.tokenizers.byte import ByteTokenizer
from glassformer.foundation.errors import BadArgument, UnknownName, UsageError
from glassformer.lens.capture import Places, capture
from glassformer.lens.look import Look
from glassformer.model.slots import MIXERS, NORMALISERS

from .conftest import CONTEXT, HEADS, KINDS, LAYERS, TEXT

PATTERNS = [name for name in MIXERS.names() if name != "none"]
NO_AVERAGES = {"differential", "gated_delta", "mamba2", "persistent", "retention"}  # their rows sum to anything
LEFT_TO_RIGHT = {"gated_delta", "mamba2"}  # in an encoder, too
T = len(TEXT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mixer", PATTERNS)
def test_rows_of_every_mixer(mixer: str, kind: str, look_of) -> None:
    look = look_of(mixer=placed(mixer), **KINDS[kind])
    assert look.attention.shape == (LAYERS, HEADS, T, T)
    assert look.faults == []
    assert np.allclose(look.attention.sum(axis=-1), 1.0, atol=1e-5) == (mixer not in NO_AVERAGES)
    if kind == "decoder" or mixer in LEFT_TO_RIGHT:
        assert not np.triu(look.attention, k=1).any()
    else:
        assert mixer == "argmax" or np.triu(look.attention, k=1).any()


@pytest.mark.parametrize("normaliser", NORMALISERS.names())
def test_rows_of_every_normaliser(normaliser: str, look_of) -> None:
    look = look_of(mixer={"kind": "dot", "normaliser": normaliser})
    assert look.faults == []
    whole = normaliser not in {"sigmoid", "sink", "talking"}
    assert np.allclose(look.attention.sum(axis=-1), 1.0, atol=1e-5) == whole


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mixer", PATTERNS)
def test_a_hidden_position_gets_nothing_from_anybody(mixer: str, kind: str, look_of) -> None:
    look = look_of(mixer=placed(mixer), hide=[3, 0], **KINDS[kind])
    assert look.faults == []
    assert not look.attention[..., [0, 3]].any()
    rows = look.attention.sum(axis=-1)
    if kind == "decoder":
        assert not rows[..., 0].any()  # the first token sees only itself, which is hidden
    if mixer in NO_AVERAGES:
        return
    if kind == "decoder":
        np.testing.assert_allclose(rows[..., 1:], 1.0, atol=1e-5)
    else:
        np.testing.assert_allclose(rows, 1.0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_gets_no_weight_and_changes_nothing(kind: str, network_of) -> None:
    network, ids = network_of(**KINDS[kind]), list(b"read me")
    bare, padded = Look(network, ByteTokenizer(), ids), Look(network, ByteTokenizer(), ids, pad=len(ids) + 4)
    assert (padded.padding, padded.tokens[-4:]) == (4, ["[pad]"] * 4)
    assert padded.faults == []
    assert not padded.attention[..., -4:].any()
    np.testing.assert_allclose(padded.attention[..., : len(ids), : len(ids)], bare.attention, atol=1e-5)
    assert len(padded.figure(0, 0).axes[0].patches) == 2  # the grey rows and columns
    assert not bare.figure(0, 0).axes[0].patches
    with pytest.raises(BadArgument):
        Look(network, ByteTokenizer(), ids, pad=10_000)


def test_any_place_by_name(look_of) -> None:
    look = look_of()
    np.testing.assert_array_equal(look.at("blocks.1.attention.mixer.pattern"), look.attention[1])
    assert look.at("blocks.0.feedforward.neurons").shape == (T, 48)
    with pytest.raises(UnknownName):
        look.at("blocks.7.after")


def test_readouts_together(look_of) -> None:
    look = look_of()
    assert look.tokens == [ByteTokenizer().token_text(byte) for byte in TEXT]
    assert look.rollout().shape == (LAYERS, T, T)
    assert look.losses.shape == (T,)
    assert len(look.head_table()) == LAYERS * HEADS
    assert set(look.head_table()[0]) == {
        *("layer", "head", "entropy", "distance", "first", "previous", "duplicate", "induction", "copying")
    }
    assert look.effects().by_text.shape == (LAYERS, HEADS, 1)
    assert look_of(causal=False).losses is None


def test_plain_values(look_of) -> None:
    look = look_of()
    document = look.to_dict(layer=1, head=2)
    assert (document["layers"], document["heads"], document["ids"]) == ([1], [2], list(TEXT))
    np.testing.assert_allclose(document["attention"], look.attention[1:, 2:], atol=1e-7)
    assert np.shape(look.to_dict()["attention"]) == (LAYERS, HEADS, T, T)
    assert document["losses"][0] is None
    assert document["faults"] == []


def test_bad_input(look_of) -> None:
    with refused(UsageError, "no-text"):
        look_of(ids=())
    with refused(UsageError, "text-too-long", "18 tokens", f"model.context={CONTEXT}"):
        look_of(ids=[1] * 18)
    with refused(UsageError, "bad-hide", "hide=9", "0 to 8"):
        look_of(hide=[2, 9])
    look = look_of(mixer="none", positions="none")
    assert look.losses is not None
    assert look.logit_lens is not None
    with refused(UsageError, "no-attention", "model.mixer=none", "layer 0"):
        look.attention  # noqa: B018
    with refused(UsageError, "bad-layer", "layer=5"):
        look_of().figure(layer=5)
    with refused(UsageError, "head-without-layer"):
        look_of().figure(head=1)


def test_altered_for_the_length_of_a_with(look_of) -> None:
    look, other = look_of(), look_of(ids=tuple(b"seven or "))
    assert look.again().scores.tolist() == look.scores.tolist()
    with look.without(1, 2):
        assert not look.again().at("blocks.1.attention.heads")[2].any()
    with look.without(0, 1, how="resample", texts=[look.ids, other.ids]):
        assert look.again().scores.tolist() != look.scores.tolist()
    with look.patched(other, "blocks.1.before", positions=[8]):
        inside = look.again()
    np.testing.assert_array_equal(inside.at("embedded"), look.at("embedded"))
    assert inside.scores[8].tolist() != look.scores[8].tolist()
    assert look.patching(other, target=3, instead=4).shape == (LAYERS + 1, T)
    assert look.again().scores.tolist() == look.scores.tolist()  # bit for bit


def test_a_notebook_shows_it_in_a_frame(look_of) -> None:
    html = look_of()._repr_html_()
    assert html.startswith("<iframe srcdoc=")
    assert "look-data" in html


def small_gpt2(transformers: Any) -> Any:
    config = transformers.GPT2Config(
        n_embd=24, n_layer=3, n_head=4, n_positions=19, vocab_size=260, bos_token_id=None, eos_token_id=None
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return model.eval()


@pytest.mark.filterwarnings("default")
def test_maps_of_an_imported_model_are_those_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from glassformer.run import load

    theirs = small_gpt2(transformers)
    theirs.save_pretrained(tmp_path)
    from glassformer.data.tokenizers.bpe import BPETokenizerConfig

    BPETokenizerConfig(vocab=260, min_count=1).train(lambda: ["seven"]).save(tmp_path / "tokenizer.json")
    look = load(tmp_path).look("seven and nine")
    theirs.set_attn_implementation("eager")
    with torch.no_grad():
        wanted = theirs(torch.tensor([look.ids]), output_attentions=True)
    found = torch.from_numpy(look.attention)
    torch.testing.assert_close(found, torch.cat(wanted.attentions), rtol=0, atol=1e-5)
    torch.testing.assert_close(torch.from_numpy(look.scores), wanted.logits[0], rtol=1e-4, atol=1e-4)
    assert found.max() < 1.0 or found[..., 1:, :].max() < 0.999  # not all rows are decided


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("tuning", ["full", {"kind": "prompt", "length": 3}, {"kind": "prefix", "length": 2}])
def test_maps_of_a_pretrained_encoder(tuning: Any, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from glassformer.networks.pretrained_encoder import PretrainedConfig

    torch.manual_seed(0)
    settings = {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 20}
    encoder = transformers.BertModel(transformers.BertConfig(**settings, vocab_size=256, max_position_embeddings=40))
    encoder.save_pretrained(tmp_path)
    network = PretrainedConfig.parse({"folder": str(tmp_path), "context": 20, "tuning": tuning}).build(256, outputs=2, seed=1)
    network.eval()
    ids = torch.tensor([list(TEXT)])
    with torch.no_grad():
        before = network(ids)
    look = Look(network, ByteTokenizer(), list(TEXT), hide=[3])
    added = {"prompt": 3, "prefix": 2}.get(tuning["kind"] if isinstance(tuning, dict) else "", 0)
    assert look.attention.shape == (2, 3, len(look.queries), T + added)
    assert look.faults == []
    assert len(look.keys) == T + added
    assert look.logit_lens is not None
    np.testing.assert_allclose(look.logit_lens.scores[-1, 0], look.scores, atol=1e-6)
    assert look.effects().unit == "nats of divergence"
    with torch.no_grad():
        assert torch.equal(network(ids), before)  # and its attention is fused again
    assert network.encoder.config._attn_implementation == "sdpa"


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # of transformers' file of DeBERTa
@pytest.mark.parametrize("kind", ["mpnet", "deberta"])
def test_maps_of_an_encoder_without_fused_attention(kind: str, tmp_path: Path) -> None:
    from glassformer.networks.pretrained_encoder import PretrainedConfig

    folder = encoders.make_folder(tmp_path, kind)
    network = PretrainedConfig.parse({"folder": str(folder), "context": 9}).build(encoders.WORDS, outputs=2, seed=1)
    ids_BT, places = torch.tensor([[2, 5, 6, 7, 3]]), Places(network)
    found = capture(places, ids_BT, [name for name in places.patterns if name is not None])
    assert len(found.values) == encoders.LAYERS
    for pattern in found.values.values():
        torch.testing.assert_close(pattern.sum(-1), torch.ones(1, encoders.HEADS, 5))
    assert not network.encoder.config.output_attentions  # as before
