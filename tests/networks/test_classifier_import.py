"""A classifier of transformers becomes a run: the same logits, its labels, and the way back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.encoders import HEADS, INNER, LAYERS, PLACES, WIDTH, WORDS, tiny_tokenizer
from tests.refusals import refused

import glassformer as gf
from glassformer.foundation.errors import ConfigError, DataError
from glassformer.networks.classifier_import import import_classifier, is_classifier

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own advice
KINDS = ["bert", "roberta", "distilbert", "electra"]
NAMES = {0: "billing", 1: "shipping", 2: "tech"}


def classifier(folder: Path, kind: str) -> Any:
    """A folder of a classifier as transformers writes it."""
    sizes = {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    sizes |= {"intermediate_size": INNER, "max_position_embeddings": PLACES, "pad_token_id": 0}
    labels: dict[str, Any] = {"id2label": NAMES, "label2id": {name: at for at, name in NAMES.items()}}
    if kind == "distilbert":
        sizes = {"vocab_size": WORDS, "dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": INNER}
        sizes |= {"max_position_embeddings": PLACES}
    config = transformers.AutoConfig.for_model(kind, **sizes, **labels)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_scores_and_labels_and_the_way_back(kind: str, tmp_path: Path) -> None:
    theirs, text = classifier(tmp_path / "theirs", kind), "w5 w9 w11 w30"
    directory, found = import_classifier(tmp_path / "theirs", tmp_path / "run")
    run = gf.load(directory.root)
    assert found.label_names == tuple(NAMES.values()) == tuple(run.label_names)
    batch = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "theirs" / "tokenizer.json"))(
        text, return_tensors="pt", return_token_type_ids=False
    )
    with torch.no_grad():
        expected = theirs(**batch).logits.softmax(-1)[0]
    (answer,) = run.ask(text)
    assert answer.answer == NAMES[int(expected.argmax())]
    torch.testing.assert_close(answer.confidence, float(expected.max()), rtol=1e-5, atol=1e-6)
    run.save_pretrained(tmp_path / "back")
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "back").eval()
    with torch.no_grad():
        torch.testing.assert_close(again(**batch).logits, theirs(**batch).logits, rtol=1e-6, atol=1e-6)
    assert again.config.id2label == NAMES
    assert (tmp_path / "back" / "README.md").is_file()


def test_it_is_evaluated_on_a_file(tmp_path: Path) -> None:
    classifier(tmp_path / "theirs", "bert")
    file = tmp_path / "t.csv"
    file.write_text("text,label\nw5 w6,tech\nw7 w8,billing\nw9,shipping\n")
    figures = gf.load(tmp_path / "theirs").evaluate(data=file).metrics
    assert figures["accuracy"].n == 3


def test_what_is_no_classifier_and_what_is_refused(bert_folder: Path, tmp_path: Path) -> None:
    assert not is_classifier(bert_folder)
    classifier(tmp_path / "theirs", "bert")
    several = shutil.copytree(tmp_path / "theirs", tmp_path / "several")
    config = json.loads((several / "config.json").read_text())
    (several / "config.json").write_text(json.dumps({**config, "problem_type": "multi_label_classification"}))
    with refused(ConfigError, "problem-type"):
        import_classifier(several, tmp_path / "a")
    headless = shutil.copytree(tmp_path / "theirs", tmp_path / "headless")
    tensors = load_file(headless / "model.safetensors")
    save_file(
        {k: v for k, v in tensors.items() if not k.startswith("classifier")}, headless / "model.safetensors", {"format": "pt"}
    )
    with refused(DataError, "bad-tensor", "classifier.weight"):
        import_classifier(headless, tmp_path / "b")
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()
