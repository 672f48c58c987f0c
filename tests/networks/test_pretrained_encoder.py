"""Pretrained networks: counts by formula and by hand, padding, what is refused, and checkpoints of adapters."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.encoders import LAYERS, PLACES, WIDTH, WORDS, make_folder
from tests.refusals import refused

from glassformer.checks.check import check_model
from glassformer.foundation.errors import ConfigError, DataError
from glassformer.networks.pretrained_encoder import PretrainedConfig, PretrainedNetwork
from glassformer.pretrained.adapter_export import Answers
from glassformer.pretrained.encoders import load_encoder
from glassformer.pretrained.tuning.base import TUNINGS, reused_parameters, sees_ahead
from glassformer.runs.weights import load_weights, saved_tensors

transformers = pytest.importorskip("transformers")
OLD_WAYS = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # of transformers' file of DeBERTa


def config(folder: Path, **settings: Any) -> PretrainedConfig:
    return PretrainedConfig.parse({"folder": str(folder), "context": 20, **settings})


def build(folder: Path, *, seed: int = 1, outputs: int = 2, **settings: Any) -> PretrainedNetwork:
    return config(folder, **settings).build(WORDS, outputs=outputs, seed=seed).eval()


FORMULAS = {
    "head": 2 * WIDTH + 2,
    "prompt": (7 + 2) * WIDTH + 2,
    "prefix": 5 * 2 * LAYERS * WIDTH + 2 * WIDTH + 2,
    "lora": LAYERS * 2 * 3 * 2 * WIDTH + 2 * WIDTH + 2,
}
SETTINGS = {
    "head": "head",
    "prompt": {"kind": "prompt", "length": 7},
    "prefix": {"kind": "prefix", "length": 5},
    "lora": {"kind": "lora", "rank": 3},
    "full": "full",
    "contrastive": "contrastive",
}


def test_every_way_of_tuning_is_tested_here() -> None:
    assert set(SETTINGS) == set(TUNINGS.names())


@pytest.mark.parametrize("tuning", SETTINGS)
@pytest.mark.parametrize("pool", ["mean", "own"])
def test_counts_by_formula_before_building_and_by_hand(tuning: str, pool: str, bert_folder: Path) -> None:
    network = build(bert_folder, tuning=SETTINGS[tuning], pool=pool)
    cost = config(bert_folder, tuning=SETTINGS[tuning], pool=pool).cost(WORDS, outputs=2, batch=4)
    real = sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
    assert cost.gradient_bytes == 4 * real
    assert real == FORMULAS.get(tuning, sum(parameter.numel() for parameter in network.parameters()))
    assert cost.parameters == sum(parameter.numel() for parameter in network.parameters())


def test_a_prompt_of_128_and_two_labels_is_130_d_and_2(bert_folder: Path, tmp_path: Path) -> None:
    formula = config(bert_folder, tuning="prompt").tuning.trainable(build(bert_folder, tuning="head").sizes)
    assert formula + 2 * WIDTH + 2 == 130 * WIDTH + 2


def test_layers_that_share_their_weights_cost_as_much_as_others(tmp_path: Path) -> None:
    """ALBERT's layers are one set of weights, used again and again: fewer parameters, and the same products."""
    shared, own = (
        config(make_folder(tmp_path / kind, kind)).cost(WORDS, outputs=2, batch=4) for kind in ("albert", "albert-unshared")
    )
    layer = (own.parameters - shared.parameters) // (LAYERS - 1)
    assert layer > 4 * WIDTH * WIDTH
    assert shared.forward_flops == own.forward_flops
    assert shared.step_flops == own.step_flops


@OLD_WAYS
@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "mpnet", "deberta", "modernbert"])
def test_nothing_is_used_again_where_every_layer_has_weights_of_its_own(kind: str, tmp_path: Path) -> None:
    """DeBERTa's maps of queries and keys also read its table of distances, which is not a row of the text."""
    assert reused_parameters(load_encoder(str(make_folder(tmp_path, kind))).encoder) == 0


@pytest.mark.parametrize("pool", ["mean", "first", "own"])
@pytest.mark.parametrize("tuning", SETTINGS)
def test_padding_and_other_rows_change_nothing(tuning: str, pool: str, bert_folder: Path) -> None:
    report = check_model(build(bert_folder, tuning=SETTINGS[tuning], pool=pool))
    assert report.passed, [finding.sentence for finding in report.findings]
    assert {"batch", "padding"} <= set(report.tested)


@pytest.mark.parametrize("pool", ["mean", "first", "own"])
@pytest.mark.parametrize("tuning", ["prompt", "prefix"])
def test_a_large_vocabulary_is_checked_before_the_head_where_a_prompt_adds_vectors(
    tuning: str, pool: str, bert_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.checks.subject.LARGE_VOCABULARY", WORDS)
    report = check_model(build(bert_folder, tuning=SETTINGS[tuning], pool=pool))
    assert report.passed, report.judged
    assert {"batch", "padding"} <= set(report.tested)


@pytest.mark.parametrize("tuning", SETTINGS)
def test_gradients_reach_what_is_trained_and_nothing_else(tuning: str, bert_folder: Path) -> None:
    network = build(bert_folder, tuning=SETTINGS[tuning]).train()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("lora_B"):
                parameter += 0.1  # it begins at zero, where A has no gradient
    ids_BT = torch.randint(4, WORDS, (3, 9))
    loss = network(ids_BT).square().sum()
    if network.own_losses:  # tuning by pairs: the encoder learns from the pooled vectors, the labels reach the head alone
        loss = loss + network.head.pooled(network.features(ids_BT), torch.zeros_like(ids_BT, dtype=torch.bool)).square().sum()
    loss.backward()
    for name, parameter in network.named_parameters():
        if name == "encoder.embeddings.token_type_embeddings.weight":
            continue  # only the first kind of text occurs here
        assert (parameter.grad is not None and bool(parameter.grad.any())) == parameter.requires_grad, name


@pytest.mark.parametrize("tuning", SETTINGS)
def test_the_seed_draws_what_is_new_and_leaves_torchs_generator_alone(tuning: str, bert_folder: Path) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one, twin, other = (saved_tensors(build(bert_folder, seed=seed, tuning=SETTINGS[tuning])) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(tensor, twin[name]) for name, tensor in one.items())
    assert any(not torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.mark.parametrize("tuning", SETTINGS)
@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_scores_are_those_that_transformers_own_mask_gives(tuning: str, kind: str, tmp_path: Path) -> None:
    """With padding, and without any, where transformers leaves the mask out."""
    settings = SETTINGS[tuning]
    if kind == "distilbert":
        if tuning == "prefix":
            pytest.skip("DistilBERT takes no keys and values from outside")
        settings = {"kind": "lora", "targets": ["q_lin"]} if tuning == "lora" else settings
    network = build(make_folder(tmp_path, kind), tuning=settings)
    assert network.reader.whole_mask
    ids = torch.randint(4, WORDS, (3, 11), generator=torch.Generator().manual_seed(2))
    hidden = torch.arange(11) >= torch.tensor([[11], [5], [8]])
    for padding in (hidden, torch.zeros_like(hidden), None):
        network.reader.whole_mask = True
        given = network(ids, key_padding_mask_BS=padding)
        network.reader.whole_mask = False
        torch.testing.assert_close(given, network(ids, key_padding_mask_BS=padding), rtol=0, atol=1e-6)
    assert (network(ids, key_padding_mask_BS=hidden) - network(ids)).abs().max() > 1e-4  # the mask matters


def test_checkpoints_of_adapters_hold_what_is_trained_and_the_sha256_of_the_base(bert_folder: Path, tmp_path: Path) -> None:
    network = build(bert_folder, tuning="lora")
    kept = saved_tensors(network)
    trained = sum(weight.numel() for weight in network.parameters() if weight.requires_grad)
    assert sum(tensor.numel() for name, tensor in kept.items() if name != "base_digest") == trained
    assert bytes(kept["base_digest"].tolist()).hex() == network.base_sha256
    fresh = build(bert_folder, tuning="lora", seed=9)
    load_weights(fresh, kept, "step 3")
    ids = torch.randint(4, WORDS, (2, 6))
    torch.testing.assert_close(fresh(ids), network(ids), rtol=0, atol=0)
    other = shutil.copytree(bert_folder, tmp_path / "other")
    model = transformers.BertModel.from_pretrained(bert_folder)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight += 1.0
    model.save_pretrained(other)
    with refused(ConfigError, "other-pretrained-weights"):
        load_weights(build(other, tuning="lora"), kept, "step 3")


class TestRefusals:
    def test_a_folder_without_weights(self, bert_folder: Path, tmp_path: Path) -> None:
        folder = shutil.copytree(bert_folder, tmp_path / "a")
        (folder / "model.safetensors").unlink()
        with refused(DataError, "no-weights"):
            build(folder)

    def test_a_pickle_is_not_read(self, bert_folder: Path, tmp_path: Path) -> None:
        folder = shutil.copytree(bert_folder, tmp_path / "a")
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        with refused(DataError, "only-pickles"):
            build(folder)

    def test_no_network_and_a_name(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        with refused(DataError, "not-fetched", "no-such/encoder", "folder"):
            build(Path("no-such/encoder"))

    def test_a_model_that_cannot_be_tuned_in_this_way(self, tmp_path: Path) -> None:
        folder = make_folder(tmp_path / "distil", "distilbert")
        with pytest.raises(ConfigError, match=r"model.tuning=prefix needs an encoder that takes keys and values"):
            build(folder, tuning="prefix")
        with pytest.raises(ConfigError, match=r"'query' is no linear map of DistilBertModel; it has: .*q_lin"):
            build(folder, tuning="lora")
        assert any(weight.requires_grad for weight in build(folder, tuning={"kind": "lora", "targets": ["q_lin"]}).parameters())
        with refused(ConfigError, "no-own-head", "model.pool"):
            build(make_folder(tmp_path / "albert", "albert"), pool="own")

    def test_a_tokenizer_that_does_not_fit(self, bert_folder: Path) -> None:
        with refused(ConfigError, "other-tokenizer"):
            config(bert_folder).build(WORDS + 1, outputs=2, seed=0)

    def test_a_folder_without_a_tokenizer(self, bert_folder: Path, tmp_path: Path) -> None:
        folder = shutil.copytree(bert_folder, tmp_path / "a")
        (folder / "tokenizer.json").unlink()
        with refused(DataError, "no-tokenizer", "tokenizer.json"):
            config(folder).tokenizer()

    def test_more_places_than_there_are(self, bert_folder: Path) -> None:
        with refused(ConfigError, "too-few-places", "40", "model.context", "30"):
            build(bert_folder, context=31, tuning={"kind": "prompt", "length": 10})
        with refused(ConfigError, "too-few-places", "40", "model.tuning.length", "model.context"):
            build(bert_folder, context=31, tuning={"kind": "prompt", "length": PLACES})

    def test_an_objective_without_labels(self, bert_folder: Path) -> None:
        with refused(ConfigError, "head-for-labels"):
            config(bert_folder).build(WORDS, outputs=None, seed=0)

    def test_a_decoder(self, bert_folder: Path, tmp_path: Path) -> None:
        folder = shutil.copytree(bert_folder, tmp_path / "a")
        settings = (folder / "config.json").read_text().replace('"is_decoder": false', '"is_decoder": true')
        (folder / "config.json").write_text(settings)
        with refused(ConfigError, "not-an-encoder"):
            build(folder)

    @pytest.mark.parametrize(
        ("kind", "sentence"),
        [("gpt2", r"GPT2Model\) is causal.*an encoder"), ("t5", r"T5EncoderModel.*BERT, RoBERTa")],
    )
    def test_what_is_no_encoder_of_this_kind_gets_its_own_sentence(self, kind: str, sentence: str, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=sentence):
            build(make_folder(tmp_path, kind))


@pytest.mark.parametrize(("kind", "ahead"), [("bert", True), ("gpt2", False)])
@pytest.mark.parametrize("unused", [range(0), range(3, 7), range(3, WORDS - 1)])
def test_rows_of_zeros_do_not_make_an_encoder_one_that_reads_from_left_to_right(
    kind: str, ahead: bool, unused: range, tmp_path: Path
) -> None:
    """Ids that were never used in pretraining may have no vector of their own: exchanging two of them changes nothing."""
    encoder = transformers.AutoModel.from_pretrained(make_folder(tmp_path, kind))
    with torch.no_grad():
        encoder.get_input_embeddings().weight[list(unused)] = 0.0
    encoder.save_pretrained(tmp_path)
    assert sees_ahead(encoder) == ahead
    if ahead:
        build(tmp_path)


@OLD_WAYS
@pytest.mark.parametrize("kind", ["mpnet", "deberta"])
def test_encoders_without_fused_attention_are_read_with_the_plain_one(kind: str, tmp_path: Path) -> None:
    network = build(make_folder(tmp_path, kind), context=PLACES)
    assert network(torch.randint(4, WORDS, (2, PLACES))).shape == (2, 2)  # the longest row there is room for
    assert check_model(network).passed
    with refused(ConfigError, "too-few-places", "40", "model.context"):
        build(tmp_path, context=PLACES + 1)


@pytest.mark.parametrize(("kind", "told"), [("bert", True), ("one-segment", False), ("distilbert", False)])
def test_only_an_encoder_that_tells_two_texts_apart_is_told_which_is_which(kind: str, told: bool, tmp_path: Path) -> None:
    network = build(make_folder(tmp_path, kind))
    ids_BT, segments_BT = torch.randint(4, WORDS, (2, 6)), torch.tensor([[0, 0, 0, 1, 1, 1]]).expand(2, -1)
    assert network.takes_segments == told
    assert torch.equal(network(ids_BT, segments_BT=segments_BT), network(ids_BT)) != told


@OLD_WAYS
@pytest.mark.parametrize("kind", ["bert", "distilbert", "deberta", "modernbert"])
def test_dropout_reaches_every_place_that_drops(kind: str, tmp_path: Path) -> None:
    network = build(make_folder(tmp_path, kind), dropout=0.37)
    places = [module for module in network.encoder.modules() if isinstance(module, torch.nn.Dropout)]
    stated = [
        value for module in network.encoder.modules() for key, value in vars(module).items() if key == "attention_dropout"
    ]
    assert {module.p for module in places} | set(stated) | {network.head.drop} == {0.37}
    skipped = [
        name for name, module in network.encoder.named_modules() if isinstance(module, torch.nn.Identity) and "drop" in name
    ]
    assert not skipped


def test_dropout_of_the_head_is_what_the_folder_says_of_a_head(tmp_path: Path) -> None:
    for kind, share in (("bert", 0.1), ("distilbert", 0.2), ("modernbert", 0.0)):
        assert build(make_folder(tmp_path / kind, kind)).head.drop == share


def test_a_setting_without_effect_is_refused(bert_folder: Path) -> None:
    with refused(ConfigError, "encoder-is-not-causal", "model.causal=true", "model.kind=pretrained"):
        build(bert_folder, causal=True)


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_the_refusal_of_an_export_names_only_a_head_that_is_there(kind: str, tmp_path: Path) -> None:
    network = build(make_folder(tmp_path / kind, kind), tuning="head")
    with refused(ConfigError, "head-without-class") as caught:
        network.save_pretrained(tmp_path / "out", answers=Answers(["a", "b"]))
    assert ("model.pool=own" in str(caught.value)) == (kind == "bert")
