"""Llama and its kin (Mistral, Qwen2): pre-norm with RMS, rotary positions, gated feed-forward, shared keys and values."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, ClassVar, final

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.pretrained.architecture import Architecture, Rule, Settings, inner_of, linear, marks_of


@final
class Llama(Architecture):
    """Exports are LlamaForCausalLM. Where queries, keys and values alone have biases (Qwen2), the output's are zeros there."""

    name: ClassVar[str] = "LlamaForCausalLM"
    model_types: ClassVar[tuple[str, ...]] = ("llama", "mistral", "qwen2")
    classes: ClassVar[tuple[str, ...]] = (
        "LlamaForCausalLM",
        "LlamaModel",
        "MistralForCausalLM",
        "MistralModel",
        "Qwen2ForCausalLM",
        "Qwen2Model",
    )
    prefix: ClassVar[str] = "model."
    spare: ClassVar[tuple[str, ...]] = (".rotary_emb.inv_freq",)
    mixer_settings: ClassVar[tuple[str, ...]] = ("bias", "kv_heads")
    parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "positions": ("rotary",),
        "mixer": ("dot", "grouped"),
        "merge": ("concat",),
        "norm": ("rms",),
        "feedforward": ("gated",),
        "block": ("pre",),
        "head": ("tied", "untied"),
    }

    def read(self, settings: Settings, tensors: Set[str]) -> dict[str, Any]:
        width, heads, context = (
            settings.whole(*pair)
            for pair in (("hidden_size", 4096), ("num_attention_heads", 32), ("max_position_embeddings", 2048))
        )
        kv_heads = settings.whole("num_key_value_heads", heads)
        settings.must("hidden_act", "silu", "swish")
        settings.must("head_dim", width // heads)
        if settings.values.get("use_sliding_window", True):
            window = settings.values.get("sliding_window")
            settings.must("sliding_window", *([window] if isinstance(window, int) and window >= context else []))
        biases = self._biases(settings)
        plain = kv_heads == heads and biases["mixer"] == biases["model"]
        grouped = {"kind": "grouped", "kv_heads": kv_heads}
        if biases["mixer"] != biases["model"]:
            grouped["bias"] = biases["mixer"]
        return {
            "width": width,
            "layers": settings.whole("num_hidden_layers", 32),
            "heads": heads,
            "context": context,
            "dropout": settings.number("attention_dropout", 0.0),
            "bias": biases["model"],
            "positions": {"kind": "rotary", "base": _base(settings)},
            "mixer": "dot" if plain else grouped,
            "norm": {"kind": "rms", "eps": settings.number("rms_norm_eps", 1e-6)},
            "feedforward": {"kind": "gated", "inner": settings.whole("intermediate_size", 11008)},
            "head": "tied" if settings.flag("tie_word_embeddings", False) else "untied",
        }

    @staticmethod
    def _biases(settings: Settings) -> dict[str, bool]:
        if settings.values.get("model_type") == "qwen2":
            return {"model": False, "mixer": True}
        of_attention, of_maps = settings.flag("attention_bias", False), settings.flag("mlp_bias", False)
        if of_maps and not of_attention:
            raise settings.refusal("mlp_bias", "with attention_bias=False is not supported")
        return {"model": of_maps, "mixer": of_attention}

    def rules(self, config: ModelConfig, dims: Dims) -> list[Rule]:
        width, inner = dims.width, inner_of(config, dims)
        of_keys = _kv_heads(config) * dims.head_width
        rules = [
            Rule("embedding.weight", ("embed_tokens.weight",), (dims.vocabulary,)),
            Rule("final_norm.weight", ("norm.weight",), (width,)),
        ]
        if config.head.kind == "untied":
            rules.append(Rule("head.weight", ("lm_head.weight",), (dims.vocabulary,)))
        for layer in range(dims.layers):
            ours, theirs = f"blocks.{layer}", f"layers.{layer}"
            attention = tuple(f"{theirs}.self_attn.{part}_proj" for part in "qkv")
            qkv = linear(f"{ours}.attention.mixer.qkv", attention, (width, of_keys, of_keys))
            output = linear(f"{ours}.attention.output", f"{theirs}.self_attn.o_proj", width)
            inward = linear(
                f"{ours}.feedforward.gate_and_up", (f"{theirs}.mlp.gate_proj", f"{theirs}.mlp.up_proj"), (inner, inner)
            )
            outward = linear(f"{ours}.feedforward.down", f"{theirs}.mlp.down_proj", width)
            rules.append(Rule(f"{ours}.attention_norm.weight", (f"{theirs}.input_layernorm.weight",), (width,)))
            rules.append(Rule(f"{ours}.feedforward_norm.weight", (f"{theirs}.post_attention_layernorm.weight",), (width,)))
            for pair in (qkv, output):
                rules += pair if _of_mixer(config) else pair[:1]
            for pair in (inward, outward):
                rules += pair if config.bias else pair[:1]
        return rules

    def objections(self, config: ModelConfig) -> list[str]:
        wrong = super().objections(config)
        if config.bias and not _of_mixer(config):
            wrong.append("model.mixer.bias=false with model.bias=true")
        return wrong

    def copies(self, config: ModelConfig) -> dict[str, str]:
        return {"lm_head.weight": "embed_tokens.weight"} if config.head.kind == "tied" else {}

    def write(self, config: ModelConfig, dims: Dims, tokenizer: Tokenizer) -> dict[str, Any]:
        base = getattr(config.of_layer(0).positions, "base", None)
        return {
            "hidden_size": dims.width,
            "num_hidden_layers": dims.layers,
            "num_attention_heads": dims.heads,
            "num_key_value_heads": _kv_heads(config),
            "max_position_embeddings": dims.context,
            "intermediate_size": inner_of(config, dims),
            "hidden_act": "silu",
            "rms_norm_eps": getattr(config.of_layer(0).norm, "eps", None),
            "rope_theta": base,
            "rope_parameters": {"rope_type": "default", "rope_theta": base},
            "attention_dropout": dims.dropout,
            "attention_bias": _of_mixer(config),
            "mlp_bias": config.bias,
            "head_dim": dims.head_width,
            "tie_word_embeddings": config.head.kind == "tied",
            **marks_of(tokenizer),
        }


def _kv_heads(config: ModelConfig) -> int:
    return getattr(config.of_layer(0).mixer, "kv_heads", None) or config.heads


def _of_mixer(config: ModelConfig) -> bool:
    """Whether queries, keys and values have biases."""
    own = getattr(config.of_layer(0).mixer, "bias", None)
    return config.bias if own is None else bool(own)


def _base(settings: Settings) -> float:
    """The base of the rotation; any way to stretch it is refused."""
    newer, older = settings.values.get("rope_parameters"), settings.values.get("rope_scaling")
    for name, group in (("rope_parameters", newer), ("rope_scaling", older)):
        if group is None:
            continue
        if not isinstance(group, Mapping):
            raise settings.refusal(name, "must be a mapping")
        kind = group.get("rope_type", group.get("type", "default"))
        if kind != "default" or group.get("partial_rotary_factor", 1.0) != 1.0:
            raise settings.refusal(name, "stretches or cuts the rotation, and ours is the plain one; it can be 'default'")
    if isinstance(newer, Mapping) and "rope_theta" in newer:
        return Settings(newer, settings.file).number("rope_theta", 10000.0)
    return settings.number("rope_theta", 10000.0)
