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
        elif kind == "electra":
            config = transformers.ElectraConfig(**sizes, embedding_size=WIDTH, max_position_embeddings=PLACES)
            model = transformers.ElectraModel(config)
        elif kind == "mpnet":  # its positions begin after the id of padding, and it has no fused attention
            sizes |= {"pad_token_id": 1, "max_position_embeddings": PLACES + 2}
            model = transformers.MPNetModel(transformers.MPNetConfig(**sizes))
        elif kind == "deberta":
            sizes |= {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 4, "type_vocab_size": 0}
            model = transformers.DebertaV2Model(transformers.DebertaV2Config(**sizes, max_position_embeddings=PLACES))
        elif kind in ("albert", "albert-unshared"):
            sizes |= {"embedding_size": 8, "num_hidden_groups": 1 if kind == "albert" else LAYERS}
            model = transformers.AlbertModel(transformers.AlbertConfig(**sizes, max_position_embeddings=PLACES))
        elif kind == "modernbert":
            marks = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
            model = transformers.ModernBertModel(
                transformers.ModernBertConfig(**sizes, **marks, max_position_embeddings=PLACES)
            )
        elif kind == "gpt2":
            settings = {"vocab_size": WORDS, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": PLACES}
            model = transformers.GPT2Model(transformers.GPT2Config(**settings, bos_token_id=2, eos_token_id=3))
        elif kind == "t5":
            settings = {"d_model": WIDTH, "d_kv": 4, "d_ff": INNER, "num_layers": LAYERS, "num_heads": HEADS}
            model = transformers.T5EncoderModel(transformers.T5Config(vocab_size=WORDS, **settings))
        elif kind == "one-segment":  # as the published RoBERTa: a table of one kind of text
            sizes |= {"type_vocab_size": 1, "max_position_embeddings": PLACES + 1}
            model = transformers.RobertaModel(transformers.RobertaConfig(**sizes))
        else:
            model = transformers.BertModel(transformers.BertConfig(**sizes, max_position_embeddings=PLACES))
        for parameter in model.parameters():  # large enough to tell apart what depends on what
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    return folder
