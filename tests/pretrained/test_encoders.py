"""Encoders from folders: the library's own vectors, the pooler apart, a fingerprint, no random numbers used."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.refusals import refused
from torch import nn

from glassformer.foundation.errors import DataError
from glassformer.foundation.files import sha256_of_file
from glassformer.pretrained.encoders import folder_tokenizer, load_encoder, set_dropout, stated_dropout
from glassformer.pretrained.importing import read_pretrained

transformers = pytest.importorskip("transformers")


def test_the_vectors_are_those_of_the_library(bert_folder: Path) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    loaded = load_encoder(str(bert_folder))
    assert torch.equal(before, torch.get_rng_state())
    theirs = transformers.AutoModel.from_pretrained(bert_folder).eval()
    ids = torch.tensor([[2, 5, 9, 3]])
    ours = loaded.encoder.eval()(input_ids=ids).last_hidden_state
    torch.testing.assert_close(ours, theirs(input_ids=ids).last_hidden_state, rtol=0, atol=0)
    assert loaded.pooler is not None
    torch.testing.assert_close(loaded.pooler(ours), theirs(input_ids=ids).pooler_output, rtol=0, atol=0)
    assert loaded.sha256 == sha256_of_file(bert_folder / "model.safetensors")


def test_a_pooler_nobody_trained_is_not_used(bert_folder: Path, tmp_path: Path) -> None:
    model = transformers.BertModel.from_pretrained(bert_folder, add_pooling_layer=False)
    folder = shutil.copytree(bert_folder, tmp_path / "plain")
    model.save_pretrained(folder)
    assert load_encoder(str(folder)).pooler is None


def test_weights_of_another_model_are_refused(bert_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert_folder, tmp_path / "other")
    text = (folder / "config.json").read_text().replace('"num_hidden_layers": 2', '"num_hidden_layers": 3')
    (folder / "config.json").write_text(text)
    with refused(DataError, "tensor-missing", "encoder.layer.2"):
        load_encoder(str(folder))


def test_the_tokenizer_is_the_folders(bert_folder: Path) -> None:
    assert folder_tokenizer(str(bert_folder)).encode("w5 w9") == [5, 9]


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        ({"hidden_dropout_prob": 0.2, "classifier_dropout": None}, 0.2),
        ({"hidden_dropout_prob": 0.2, "classifier_dropout": 0.3}, 0.3),
        ({"dropout": 0.15, "seq_classif_dropout": 0.25}, 0.25),
        ({"classifier_dropout": 0.0}, 0.0),
        ({}, 0.1),
    ],
)
def test_a_head_has_the_share_that_is_stated_for_heads(settings: dict[str, float | None], share: float) -> None:
    assert stated_dropout(SimpleNamespace(**settings)) == share


def test_one_share_in_modules_numbers_and_places_left_empty() -> None:
    encoder = nn.Sequential(nn.Dropout(0.1), nn.Identity())
    encoder.attention_dropout = 0.1  # type: ignore[assignment]
    encoder.out_drop = nn.Identity()
    set_dropout(encoder, 0.4)
    assert (encoder[0].p, encoder.attention_dropout, encoder.out_drop.p) == (0.4, 0.4, 0.4)
    assert isinstance(encoder[1], nn.Identity)


def test_a_damaged_file_of_weights_is_the_files_fault(bert_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert_folder, tmp_path / "cut")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-40])
    with refused(DataError, "damaged-weights"):
        load_encoder(str(folder))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused_by_both_ways_in(value: float, bert_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert_folder, tmp_path / "nan")
    tensors = load_file(folder / "model.safetensors")
    tensors["encoder.layer.0.output.dense.weight"][3, 2] = value
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with refused(DataError, "weights-not-finite"):
        load_encoder(str(folder))
    with refused(DataError, "weights-not-finite"):
        read_pretrained(folder)
