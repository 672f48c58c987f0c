"""ONNX: onnxruntime gives the probabilities of the run, for every pooling, a prompt, and an encoder of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.encoders import WORDS
from tests.refusals import refused

from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.foundation.errors import ConfigError
from glassformer.networks import onnx_export
from glassformer.networks.onnx_export import export_onnx
from glassformer.networks.pretrained_encoder import PretrainedConfig
from glassformer.pretrained.adapter_export import Answers

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # the exporter's own advice


@pytest.mark.parametrize(
    ("tuning", "pool", "pairs"),
    [("full", "mean", False), ({"kind": "prompt", "length": 5}, "own", True)],
    ids=["mean", "prompt, pairs"],
)
def test_onnxruntime_gives_the_same_scores(tuning: Any, pool: str, pairs: bool, bert_folder: Path, tmp_path: Path) -> None:
    config = PretrainedConfig.parse({"folder": str(bert_folder), "context": 20, "tuning": tuning, "pool": pool})
    network = config.build(WORDS, outputs=3, seed=1).eval()
    tokenizer, out = load_tokenizer(bert_folder / "tokenizer.json"), tmp_path / "onnx"
    export_onnx(network, tokenizer, out, answers=Answers(["a", "b", "c"]), temperature=1.5, pairs=pairs)
    facts = json.loads((out / "labels.json").read_text())
    assert (facts["labels"], facts["context"], facts["temperature"]) == (["a", "b", "c"], 20, 1.5)
    session = onnxruntime.InferenceSession(str(out / "model.onnx"), providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()][:2] == ["input_ids", "attention_mask"]
    ids_BT = torch.randint(4, WORDS, (4, 9), generator=torch.Generator().manual_seed(3))
    seen_BT = (torch.arange(9) < torch.tensor([[9], [4], [1], [7]])).long()
    inputs = {"input_ids": ids_BT.numpy(), "attention_mask": seen_BT.numpy()}
    more = {}
    if pairs:
        inputs["token_type_ids"] = (ids_BT % 2).numpy()
        more["segments_BT"] = ids_BT % 2
    with torch.no_grad():
        ours = network(ids_BT, key_padding_mask_BS=seen_BT == 0, **more).softmax(-1).numpy()
    theirs = torch.from_numpy(session.run(None, inputs)[0]).softmax(-1).numpy()
    assert np.abs(ours - theirs).max() < 1e-5


def test_what_differs_is_not_written(bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = PretrainedConfig.parse({"folder": str(bert_folder), "context": 20}).build(WORDS, outputs=3, seed=1).eval()
    tokenizer = load_tokenizer(bert_folder / "tokenizer.json")

    class Other:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def run(self, _: Any, inputs: Any) -> Any:
            return [np.zeros((len(inputs["input_ids"]), 3), np.float32)]

    monkeypatch.setattr(onnx_export, "_write_graph", lambda network, file, typed: file.write_bytes(b"x"))
    monkeypatch.setattr("onnxruntime.InferenceSession", Other)
    with refused(ConfigError, "onnx-differs"):
        export_onnx(network, tokenizer, tmp_path / "out", answers=Answers(["a", "b", "c"]), temperature=None, pairs=False)
    assert list(tmp_path.iterdir()) == []
    with refused(ConfigError, "not-a-classifier"):
        export_onnx(network, tokenizer, tmp_path / "out", answers=Answers([]), temperature=None, pairs=False)
