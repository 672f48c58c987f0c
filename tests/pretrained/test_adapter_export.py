"""Adapters in peft's format and merged folders: plain peft and plain transformers give our scores."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.encoders import make_folder
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError, DiskFull, UsageError
from glassformer.networks.pretrained_encoder import PretrainedConfig
from glassformer.pretrained import adapter_export as adapters
from glassformer.pretrained.adapter_export import Answers, save_adapter, save_merged

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own advice
WORDS = 37
TUNINGS = ["lora", {"kind": "prompt", "length": 5}, {"kind": "prefix", "length": 6}]


@pytest.fixture
def peft() -> Any:
    """Imported by the tests that need it: it takes a second, and every worker collects this file."""
    return pytest.importorskip("peft")


def tuned(folder: Path, **settings: Any) -> Any:
    """A network whose trained numbers are no longer where they began."""
    network = PretrainedConfig.parse({"folder": str(folder), "context": 20, **settings}).build(WORDS, outputs=3, seed=1).eval()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.requires_grad:
                parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return network


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    ids_BT = torch.randint(4, WORDS, (4, 9), generator=torch.Generator().manual_seed(3))
    key_padding_mask_BS = torch.zeros(4, 9, dtype=torch.bool)
    key_padding_mask_BS[1, 5:], key_padding_mask_BS[2, 2:] = True, True
    return ids_BT.masked_fill(key_padding_mask_BS, 0), key_padding_mask_BS


@pytest.mark.parametrize("tuning", TUNINGS, ids=str)
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_plain_peft_gives_the_same_scores(
    kind: str, tuning: Any, bert_folder: Path, roberta_folder: Path, tmp_path: Path, peft: Any
) -> None:
    base = bert_folder if kind == "bert" else roberta_folder
    network = tuned(base, tuning=tuning, pool="own")
    save_adapter(network, tmp_path / "adapter", answers=Answers(["a", "b", "c"]))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(base, num_labels=3)
    model = peft.PeftModel.from_pretrained(model, tmp_path / "adapter").eval()
    ids_BT, key_padding_mask_BS = rows()
    with torch.no_grad():
        theirs = model(input_ids=ids_BT, attention_mask=(~key_padding_mask_BS).long()).logits
        ours = network(ids_BT, key_padding_mask_BS=key_padding_mask_BS)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_with_mean_pooling_peft_gives_the_vectors_and_the_head_is_beside(bert_folder: Path, tmp_path: Path, peft: Any) -> None:
    network = tuned(bert_folder, tuning="lora", pool="mean")
    save_adapter(network, tmp_path / "adapter", answers=Answers(["a", "b", "c"]))
    base = transformers.AutoModel.from_pretrained(bert_folder)
    model = peft.PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    head = load_file(tmp_path / "adapter" / "head.safetensors")
    ids_BT, key_padding_mask_BS = rows()
    seen = (~key_padding_mask_BS).float().unsqueeze(-1)
    with torch.no_grad():
        vectors = model(input_ids=ids_BT, attention_mask=(~key_padding_mask_BS).long()).last_hidden_state
        pooled = (vectors * seen).sum(1) / seen.sum(1)
        theirs = pooled @ head["classifier.weight"].T + head["classifier.bias"]
        ours = network(ids_BT, key_padding_mask_BS=key_padding_mask_BS)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert json.loads((tmp_path / "adapter" / "head.json").read_text())["labels"] == ["a", "b", "c"]


@pytest.mark.parametrize("tuning", ["full", "head", "lora"])
@pytest.mark.parametrize("kind", ["bert", "roberta", "electra", "distilbert"])
def test_a_merged_folder_needs_nothing_but_transformers(kind: str, tuning: str, tmp_path: Path) -> None:
    way: Any = {"kind": "lora", "targets": ["q_lin"]} if (kind, tuning) == ("distilbert", "lora") else tuning
    network = tuned(make_folder(tmp_path / "base", kind), tuning=way, pool="own")
    save_merged(network, tmp_path / "plain", answers=Answers(["a", "b", "c"]))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "plain").eval()
    ids_BT, key_padding_mask_BS = rows()
    with torch.no_grad():
        theirs = model(input_ids=ids_BT, attention_mask=(~key_padding_mask_BS).long()).logits
        ours = network(ids_BT, key_padding_mask_BS=key_padding_mask_BS)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert model.config.id2label == {0: "a", 1: "b", 2: "c"}
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "plain")
    assert len(tokenizer("w5 " * 99, truncation=True)["input_ids"]) == network.dims.context


@pytest.mark.parametrize("pool", ["mean", "first"])
@pytest.mark.parametrize("tuning", ["full", "head", "lora", {"kind": "prompt", "length": 5}], ids=str)
def test_a_head_without_a_class_is_never_written_under_the_labels_names(
    pool: str, tuning: Any, bert_folder: Path, tmp_path: Path
) -> None:
    """AutoModelForSequenceClassification would open the folder with a random head and the right names."""
    network = tuned(bert_folder, tuning=tuning, pool=pool)
    with refused(ConfigError, "head-without-class"):
        network.save_pretrained(tmp_path / "a", answers=Answers(["a", "b", "c"]))
    assert not (tmp_path / "a").exists()
    network.save_pretrained(tmp_path / "b", answers=Answers(["a", "b", "c"]), bare=True)
    stated = tmp_path / "b" / "config.json"
    assert not stated.exists() or not {"id2label", "label2id", "num_labels"} & json.loads(stated.read_text()).keys()
    assert json.loads((tmp_path / "b" / "head.json").read_text())["labels"] == ["a", "b", "c"]


@pytest.mark.parametrize("tuning", TUNINGS, ids=str)
def test_an_adapter_has_the_labels_and_no_path_of_this_machine(
    tuning: Any, bert_folder: Path, tmp_path: Path, peft: Any
) -> None:
    network, out = tuned(bert_folder, tuning=tuning, pool="own"), tmp_path / "adapter"
    network.save_pretrained(out, answers=Answers(["a", "b", "c"]))
    config = transformers.AutoConfig.from_pretrained(out)
    assert config.id2label == {0: "a", 1: "b", 2: "c"}
    base = transformers.AutoModelForSequenceClassification.from_pretrained(bert_folder, config=config)
    model = peft.PeftModel.from_pretrained(base, out).eval()
    ids_BT, key_padding_mask_BS = rows()
    with torch.no_grad():
        theirs = model(input_ids=ids_BT, attention_mask=(~key_padding_mask_BS).long()).logits
        torch.testing.assert_close(network(ids_BT, key_padding_mask_BS=key_padding_mask_BS), theirs, rtol=1e-5, atol=1e-6)
    for file in out.glob("*.json"):
        assert str(bert_folder.parent) not in file.read_text(), file.name


def test_what_cannot_be_exported_is_said(bert_folder: Path, tmp_path: Path) -> None:
    with refused(UsageError, "needs-adapter"):
        save_merged(
            tuned(bert_folder, tuning={"kind": "prompt", "length": 5}), tmp_path / "a", answers=Answers(["a", "b", "c"])
        )
    with refused(UsageError, "no-adapter"):
        save_adapter(tuned(bert_folder, tuning="full"), tmp_path / "b", answers=Answers(["a", "b", "c"]))


def test_an_export_is_whole_or_absent(bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, out = tuned(bert_folder, tuning="full", pool="own"), tmp_path / "plain"

    def full_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(adapters, "_save", full_disk)
        with pytest.raises(DiskFull):
            network.save_pretrained(out, answers=Answers(["a", "b", "c"]))
    assert list(tmp_path.iterdir()) == []
    network.save_pretrained(out, answers=Answers(["a", "b", "c"]))
    assert {"config.json", "model.safetensors"} <= {file.name for file in out.iterdir()}
    assert list(tmp_path.iterdir()) == [out]
