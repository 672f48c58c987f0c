"""GPT-2: pre-norm, positions added, one matrix for embedding and scores."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, ClassVar, final

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.pretrained.architecture import ACTIVATION_NAMES, Architecture, Rule, Settings, inner_of, linear, marks_of


@final
class GPT2(Architecture):
    """Learned, fixed or no positions, layer norm, plain feed-forward. What has no bias here gets zeros there."""

    name: ClassVar[str] = "GPT2LMHeadModel"
    model_types: ClassVar[tuple[str, ...]] = ("gpt2",)
    classes: ClassVar[tuple[str, ...]] = ("GPT2LMHeadModel", "GPT2Model")
    prefix: ClassVar[str] = "transformer."
    spare: ClassVar[tuple[str, ...]] = (".attn.bias", ".attn.masked_bias")
    parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "positions": ("learned", "sinusoidal", "none"),
        "mixer": ("dot",),
        "merge": ("concat",),
        "norm": ("layer",),
        "feedforward": tuple(ACTIVATION_NAMES),
        "block": ("pre",),
        "head": ("tied", "untied"),
    }

    def read(self, settings: Settings, tensors: Set[str]) -> dict[str, Any]:
        settings.must("scale_attn_weights", True)
        settings.must("scale_attn_by_inverse_layer_idx", False)
        settings.must("add_cross_attention", False)
        width = settings.whole("n_embd", 768)
        tied = settings.flag("tie_word_embeddings", True)
        return {
            "width": width,
            "layers": settings.whole("n_layer", 12),
            "heads": settings.whole("n_head", 12),
            "context": settings.whole("n_positions", 1024),
            "dropout": settings.dropout("resid_pdrop", "embd_pdrop", "attn_pdrop"),
            "positions": {"kind": "learned"},
            "norm": {"kind": "layer", "eps": settings.number("layer_norm_epsilon", 1e-5)},
            "feedforward": {
                "kind": settings.activation("activation_function", "gelu_new"),
                "inner": settings.whole("n_inner", 4 * width),
            },
            "head": "tied" if tied else "untied",
        }

    def rules(self, config: ModelConfig, dims: Dims) -> list[Rule]:
        width, inner = dims.width, inner_of(config, dims)
        rules = [
            Rule("embedding.weight", ("wte.weight",), (dims.vocabulary,)),
            Rule("positions.table.weight", ("wpe.weight",), (dims.context,)),
            *linear("final_norm", "ln_f", width),
        ]
        if config.head.kind == "untied":
            rules.append(Rule("head.weight", ("lm_head.weight",), (dims.vocabulary,)))
        for layer in range(dims.layers):
            ours, theirs = f"blocks.{layer}", f"h.{layer}"
            rules += linear(f"{ours}.attention_norm", f"{theirs}.ln_1", width)
            rules += linear(f"{ours}.attention.mixer.qkv", f"{theirs}.attn.c_attn", 3 * width, transposed=True)
            rules += linear(f"{ours}.attention.output", f"{theirs}.attn.c_proj", width, transposed=True)
            rules += linear(f"{ours}.feedforward_norm", f"{theirs}.ln_2", width)
            rules += linear(f"{ours}.feedforward.up", f"{theirs}.mlp.c_fc", inner, transposed=True)
            rules += linear(f"{ours}.feedforward.down", f"{theirs}.mlp.c_proj", width, transposed=True)
        return rules

    def objections(self, config: ModelConfig) -> list[str]:
        wrong = super().objections(config)
        if getattr(config.of_layer(0).positions, "offset", None):
            wrong.append(f"model.positions.offset={getattr(config.of_layer(0).positions, 'offset', None)}")
        return wrong

    def copies(self, config: ModelConfig) -> dict[str, str]:
        return {"lm_head.weight": "wte.weight"} if config.head.kind == "tied" else {}

    def write(self, config: ModelConfig, dims: Dims, tokenizer: Tokenizer) -> dict[str, Any]:
        return {
            "n_embd": dims.width,
            "n_layer": dims.layers,
            "n_head": dims.heads,
            "n_positions": dims.context,
            "n_inner": inner_of(config, dims),
            "activation_function": ACTIVATION_NAMES[config.of_layer(0).feedforward.kind],
            "layer_norm_epsilon": getattr(config.of_layer(0).norm, "eps", None),
            "resid_pdrop": dims.dropout,
            "embd_pdrop": dims.dropout,
            "attn_pdrop": dims.dropout,
            "tie_word_embeddings": config.head.kind == "tied",
            **marks_of(tokenizer),
        }
