"""A transformers class -> a tiny model of it with random weights, from its config class with every size reduced.

Sizes are set by name, if the config has that setting. Layer types stay: one of each that the default config lists.
Attention windows are made shorter than the context, so that they take effect. ``EXCEPTIONS`` has what no rule covers.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from typing import Any

import torch
from torch import nn

from glassformer.foundation.errors import MissingDependency, UnknownName, UsageError

WIDTH, HEADS, CONTEXT, VOCABULARY = 32, 4, 48, 67

SIZES: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "embed_dim", "embedding_size", "dim", "emb_dim"), WIDTH),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"), HEADS),
    **dict.fromkeys(("encoder_attention_heads", "attention_heads", "num_decoder_attention_heads"), HEADS),
    **dict.fromkeys(("num_encoder_attention_heads",), HEADS),
    **dict.fromkeys(("num_key_value_heads", "n_head_kv", "num_kv_heads", "multi_query_group_num"), 2),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "encoder_layers"), 2),
    **dict.fromkeys(("num_decoder_layers", "num_encoder_layers", "num_blocks"), 2),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "d_inner", "decoder_ffn_dim", "encoder_ffn_dim"), 40),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "feed_forward_size", "expert_ffn_size"), 24),
    **dict.fromkeys(("ffn_hidden_size", "mlp_hidden_size", "shared_intermediate_size", "block_ff_dim", "dim_ff"), 24),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_target_positions"), CONTEXT),
    **dict.fromkeys(("max_sequence_length", "max_source_positions", "max_2d_position_embeddings", "context_length"), CONTEXT),
    **dict.fromkeys(("vocab_size", "decoder_vocab_size", "vocab_size_per_layer_input"), VOCABULARY),
    **dict.fromkeys(("head_dim", "v_head_dim", "attention_head_dim", "kv_channels", "qk_nope_head_dim", "global_head_dim"), 8),
    **dict.fromkeys(("index_head_dim", "linear_key_head_dim", "linear_value_head_dim", "swa_head_dim", "swa_v_head_dim"), 8),
    **dict.fromkeys(("qk_rope_head_dim",), 4),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "o_lora_rank", "hidden_size_per_layer_input", "adapter_dim"), 16),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 2),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "ffn_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_top_k", "moe_k", "top_k", "num_experts_per_token", "moe_topk"), 2),
    **dict.fromkeys(("n_group", "topk_group", "num_expert_group", "n_shared_experts", "num_shared_experts"), 1),
    **dict.fromkeys(("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index", "n_dense_layers"), 1),
    **dict.fromkeys(("sliding_window", "attention_window", "window_size", "attention_window_size", "local_attention"), 8),
    **dict.fromkeys(("attention_chunk_size", "attention_chunk", "mamba_chunk_size", "linear_chunk_size", "chunk_size"), 8),
    **dict.fromkeys(("lru_width", "hidden_size_global"), WIDTH),
    **dict.fromkeys(("mamba_n_heads", "mamba_num_heads", "n_mamba_heads"), 4),
    **dict.fromkeys(("mamba_d_head", "mamba_head_dim"), 16),
    **dict.fromkeys(("state_size", "mamba_d_state", "ssm_state_size", "d_state"), 8),
    **dict.fromkeys(("n_groups", "mamba_n_groups"), 1),
    **dict.fromkeys(("pad_token_id",), 0),
    **dict.fromkeys(("bos_token_id", "decoder_start_token_id"), 1),
    **dict.fromkeys(("eos_token_id", "sep_token_id"), 2),
    "index_n_heads": 32,  # with few heads of ReLU scores many are exactly zero, and the choice among equals is arbitrary
    "index_topk": 16,
    "num_nextn_predict_layers": 0,
    "tie_word_embeddings": False,
    "type_vocab_size": 2,
    "image_token_id": 60,
    "audio_token_id": 61,
    "video_token_id": 62,
    "image_token_index": 60,
}
"""A setting's name -> its tiny value."""

LATENT = {"num_key_value_heads": HEADS, "head_dim": SIZES["qk_rope_head_dim"]}
ENCODER = {"is_decoder": False, "causal": False, "attn_type": "bi"}
DECODER = {"is_decoder": True, "causal": True, "attn_type": "uni"}
"""Makes encoders that can be decoders causal."""
TWO_KINDS = ["sliding_attention", "full_attention"]
EXCEPTIONS: dict[str, dict[str, Any]] = {
    "BambaConfig": {"attn_layer_indices": [1]},
    "BltConfig": {"encoder_hash_byte_group_vocab": 64, "encoder_hash_byte_group_size": [2, 3]},
    "CohereCompassTextConfig": {"layer_types": TWO_KINDS, "rope_parameters": {
        kind: {"rope_type": "default", "rope_theta": 1e4} for kind in TWO_KINDS}},
    "DbrxConfig": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 24, "moe_top_k": 2}},
    "FalconH1Config": {"mamba_d_ssm": 64},
    "Gemma3nTextConfig": {"layer_types": TWO_KINDS * 2, "num_kv_shared_layers": 2, "num_hidden_layers": 4},
    "Gemma4TextConfig": {"global_head_dim": 8, "layer_types": TWO_KINDS},
    "Gemma4UnifiedTextConfig": {"global_head_dim": 8, "layer_types": TWO_KINDS},
    "GPTJConfig": {"rotary_dim": 4},
    "CodeGenConfig": {"rotary_dim": 4},
    "GPTNeoConfig": {"attention_types": [[["global", "local"], 1]]},
    "GraniteMoeHybridConfig": {"layer_types": ["linear_attention", "full_attention"]},
    "JambaConfig": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "Lfm2MoeConfig": {"layer_types": ["conv", "full_attention"]},
    "LongcatFlashConfig": {"num_layers": 1, "zero_expert_num": 2},
    "Mamba2Config": {"head_dim": 16},
    "MoshiConfig": {"audio_vocab_size": VOCABULARY},
    "Qwen4ExpTextConfig": {
        "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 16, "indexer_compress_ratio": 1,
        "hc_lowrank": 8, "ngram_vocab_size_base": 64, "split_ngram_parts": 1,
    },
    "ReformerConfig": {
        "axial_pos_embds": False, "attn_layers": ["local", "lsh"], "attention_head_size": 8, "num_buckets": 2,
        "local_attn_chunk_length": 8, "lsh_attn_chunk_length": 8, "hash_seed": 0,
    },
    "RoCBertConfig": {"pronunciation_vocab_size": 67, "shape_vocab_size": 67, "concat_input": False, "enable_shape": False},
    "xLSTMConfig": {"hidden_size": 256, "embedding_dim": 256, "autocast_kernel_dtype": "float32"},
    "XmodConfig": {"default_language": "en_XX"},
    "ZambaConfig": {"layers_block_type": ["linear_attention", "hybrid"], "attention_head_dim": 16, "n_mamba_heads": 2},
    "Zamba2Config": {"layers_block_type": ["linear_attention", "hybrid"], "num_key_value_heads": 4},
    "ZayaConfig": {"num_experts_per_tok": 1, "router_hidden_size": 16},
    "Gemma4AssistantConfig": {"backbone_hidden_size": WIDTH, "num_centroids": 8, "centroid_intermediate_top_k": 4,
        "text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0, "num_kv_shared_layers": 2}},
    "Gemma4UnifiedAssistantConfig": {"backbone_hidden_size": WIDTH, "num_centroids": 8, "centroid_intermediate_top_k": 4},
}  # fmt: skip
"""Settings that no rule covers, by config class."""


def causal_classes() -> list[str]:
    """The classes that the installed transformers maps to causal language modelling, each once."""
    try:
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    except ImportError as error:
        raise MissingDependency("Models of transformers classes need the package: pip install 'glassformer[hf]'.") from error
    found: dict[str, None] = {}
    for names in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        found.update(dict.fromkeys([names] if isinstance(names, str) else names))
    return list(found)


def model_class(name: str) -> Any:
    """The class of transformers by its name."""
    try:
        import transformers
    except ImportError as error:
        raise MissingDependency("Models of transformers classes need the package: pip install 'glassformer[hf]'.") from error
    cls = getattr(transformers, name, None)
    if not (inspect.isclass(cls) and hasattr(cls, "config_class")):
        raise UnknownName("transformers", name, causal_classes())
    return cls


def tiny_model(name: str, *, seed: int = 0) -> nn.Module:
    """A small model of the class with random weights, in float32 and evaluation mode."""
    cls = model_class(name)
    if cls.config_class is None:
        raise UsageError(f"{name} names no config class, so it cannot be built from its class.")
    config = tiny_config(cls.config_class)
    torch.manual_seed(seed)
    model: nn.Module = cls(config)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():  # parameters that start at zero or one would hide a leak
            if parameter.is_floating_point():
                parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator).to(parameter))
    return model.to(torch.float32).eval()


def tiny_config(config_class: Any) -> Any:
    """A small config of this class."""
    default = config_class()
    changes: dict[str, Any] = {}
    known = _settings(config_class, default)
    for setting in known:
        if setting in SIZES and _replaceable(_value(default, setting), SIZES[setting]):
            changes[setting] = SIZES[setting]
    if "qk_rope_head_dim" in known:  # multi-head latent attention: no grouped keys, partial rotary positions
        changes.update({key: value for key, value in LATENT.items() if key in known})
    changes.update(_layers(default, known))
    for part in getattr(config_class, "sub_configs", None) or {}:
        inner = _value(default, part)
        if part in known and hasattr(inner, "to_dict"):
            changes[part] = tiny_config(type(inner)).to_dict()
    changes.update({key: value for key, value in DECODER.items() if _value(default, key) == ENCODER[key]})
    for setting, value in copy.deepcopy(EXCEPTIONS.get(config_class.__name__, {})).items():
        inner = changes.get(setting)
        changes[setting] = {**inner, **value} if isinstance(inner, dict) and isinstance(value, dict) else value
    return config_class(**changes)


def _settings(config_class: Any, default: Any) -> list[str]:
    """Names of settings that the constructor takes."""
    if dataclasses.is_dataclass(config_class):
        return [field.name for field in dataclasses.fields(config_class) if field.init]
    return [name for name in inspect.signature(config_class.__init__).parameters if name not in ("self", "kwargs")]


def _value(config: Any, setting: str) -> Any:
    try:
        return getattr(config, setting, None)
    except Exception:  # a config may refuse a setting that its layers define individually
        return 0


def _replaceable(value: Any, small: Any) -> bool:
    return value is None or (isinstance(value, bool) == isinstance(small, bool) and isinstance(value, int | float))


def _layers(default: Any, known: list[str]) -> dict[str, Any]:
    """One layer of each type in the default's list, in order; two if it has one type or none."""
    for name in ("layer_types", "layers_block_type"):
        kinds = _value(default, name)
        if isinstance(kinds, list | tuple) and kinds and all(isinstance(kind, str) for kind in kinds):
            chosen = list(dict.fromkeys(kinds))
            chosen = chosen * 2 if len(chosen) == 1 else chosen
            lists: dict[str, list[Any]] = {name: chosen} if name in known else {}
            for other in ("mlp_layer_types",):
                values = _value(default, other)
                if isinstance(values, list | tuple) and other in known:
                    distinct = list(dict.fromkeys(values))
                    lists[other] = (distinct * len(chosen))[: len(chosen)]
            count = next((key for key in ("num_hidden_layers", "n_layer", "num_layers") if key in known), None)
            return {**lists, **({count: len(chosen)} if count else {})}
    return {}
