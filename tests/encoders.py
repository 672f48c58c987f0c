"""Tiny encoders of Hugging Face's form, with weights drawn from a seed, and a tokenizer that fits: folders for any test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

WIDTH, HEADS, LAYERS, INNER, PLACES, WORDS = 12, 3, 2, 20, 40, 37


def tiny_tokenizer() -> Any:
    import tokenizers

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
    import torch

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
