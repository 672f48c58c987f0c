"""A small world, prepared as a recipe prepares it, and a network for it; tiny encoders of Hugging Face's form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch

from glassformer.assembly import build_network, prepare_data, tools_for
from glassformer.recipe import load_recipe

WORLD = {
    "data": {"set": {"kind": "world", "people": 60}},
    "tokenizer": "char",
    "objective": "answers",
    "model": {"width": 16, "layers": 1, "heads": 2, "context": 96},
    "training": {"steps": 4, "batch_size": 8},
}


class Prepared:
    """Data, network and tools of a recipe about a small world."""

    def __init__(self, objective) -> None:
        self.recipe = load_recipe({**WORLD, "objective": objective})
        self.objective = self.recipe.objective
        self.data = prepare_data(self.recipe)
        self.network = build_network(self.recipe, self.data).eval()
        self.tools = tools_for(self.recipe, self.data.tokenizer)

    def batches(self, rows: int = 6, seed: int = 0, context: int = 96):
        return self.objective.batches(self.data, context=context, batch_size=rows, seed=seed)


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    return Prepared


WIDTH, HEADS, LAYERS, INNER, PLACES, WORDS = 12, 3, 2, 20, 40, 37


def tiny_tokenizer() -> Any:
    words = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, **{f"w{n}": n for n in range(4, WORDS)}}
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    library.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return library


def make_folder(folder: Path, kind: str = "bert") -> Path:
    """A folder with config.json, model.safetensors and tokenizer.json."""
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.disable_progress_bar()
    sizes = {
        "vocab_size": WORDS,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "pad_token_id": 0,
    }
    with torch.random.fork_rng():
        torch.manual_seed(5)
        if kind == "roberta":
            model = transformers.RobertaModel(transformers.RobertaConfig(**sizes, max_position_embeddings=PLACES + 1))
        elif kind == "distilbert":
            settings = {"vocab_size": WORDS, "dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": INNER}
            config = transformers.DistilBertConfig(**settings, max_position_embeddings=PLACES)
            model = transformers.DistilBertModel(config)
        else:
            model = transformers.BertModel(transformers.BertConfig(**sizes, max_position_embeddings=PLACES))
        for parameter in model.parameters():  # large enough to tell apart what depends on what
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def roberta_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("roberta"), "roberta")
