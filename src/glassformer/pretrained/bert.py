"""BERT and RoBERTa: post-norm encoders with segments and a norm after the embedding."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Set
from typing import Any, final

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.pretrained.architecture import ACTIVATION_NAMES, Architecture, Rule, Settings, inner_of, linear, marks_of


class EncoderArchitecture(Architecture, ABC):
    """Base of both. ``bare``: the class without a head; ``head_*``: tensor names of the masked-LM head."""

    bare: str
    head_map: str
    head_norm: str
    head_bias: str
    spare: tuple[str, ...] = ("embeddings.position_ids", "embeddings.token_type_ids")
    parts: Mapping[str, tuple[str, ...]] = {
        "positions": ("learned", "sinusoidal", "none"),
        "mixer": ("dot",),
        "merge": ("concat",),
        "norm": ("layer",),
        "feedforward": tuple(ACTIVATION_NAMES),
        "block": ("post",),
        "head": ("masked", "pooled", "tied"),
    }
    causal: bool = False

    def offset(self, settings: Settings) -> int:
        """Rows of the position table before that of the first token."""
        return 0

    def activation_of_head(self, activation: str) -> str:
        return activation

    def read(self, settings: Settings, tensors: Set[str]) -> dict[str, Any]:
        settings.must("position_embedding_type", "absolute")
        settings.must("is_decoder", False)
        settings.must("add_cross_attention", False)
        settings.must("tie_word_embeddings", True)
        eps, activation, offset = (
            settings.number("layer_norm_eps", 1e-12),
            settings.activation("hidden_act", "gelu"),
            self.offset(settings),
        )
        head: dict[str, Any] = {"kind": "tied"}
        if f"{self.head_map}.weight" in tensors:
            head = {"kind": "masked", "activation": self.activation_of_head(activation), "eps": eps}
        elif "pooler.dense.weight" in tensors:
            head = {"kind": "pooled"}
        return {
            "width": settings.whole("hidden_size", 768),
            "layers": settings.whole("num_hidden_layers", 12),
            "heads": settings.whole("num_attention_heads", 12),
            "context": settings.whole("max_position_embeddings", 512) - offset,
            "dropout": settings.dropout("hidden_dropout_prob", "attention_probs_dropout_prob"),
            "causal": False,
            "segments": settings.whole("type_vocab_size", 2),
            "embedding_norm": True,
            "positions": {"kind": "learned", "offset": offset},
            "norm": {"kind": "layer", "eps": eps},
            "feedforward": {"kind": activation, "inner": settings.whole("intermediate_size", 3072)},
            "block": "post",
            "head": head,
        }

    def rules(self, config: ModelConfig, dims: Dims) -> list[Rule]:
        width, inner = dims.width, inner_of(config, dims)
        places = dims.context + getattr(config.of_layer(0).positions, "offset", 0)
        rules = [
            Rule("embedding.weight", ("embeddings.word_embeddings.weight",), (dims.vocabulary,)),
            Rule("positions.table.weight", ("embeddings.position_embeddings.weight",), (places,)),
            Rule("segments.weight", ("embeddings.token_type_embeddings.weight",), (max(1, config.segments),)),
            *linear("embedding_norm", "embeddings.LayerNorm", width),
        ]
        for layer in range(dims.layers):
            ours, theirs = f"blocks.{layer}", f"encoder.layer.{layer}"
            attention = tuple(f"{theirs}.attention.self.{part}" for part in ("query", "key", "value"))
            rules += linear(f"{ours}.attention.mixer.qkv", attention, (width, width, width))
            rules += linear(f"{ours}.attention.output", f"{theirs}.attention.output.dense", width)
            rules += linear(f"{ours}.attention_norm", f"{theirs}.attention.output.LayerNorm", width)
            rules += linear(f"{ours}.feedforward.up", f"{theirs}.intermediate.dense", inner)
            rules += linear(f"{ours}.feedforward.down", f"{theirs}.output.dense", width)
            rules += linear(f"{ours}.feedforward_norm", f"{theirs}.output.LayerNorm", width)
        if config.head.kind == "masked":
            rules += linear("head.dense", self.head_map, width)
            rules += linear("head.norm", self.head_norm, width)
            rules.append(Rule("head.scores.bias", (self.head_bias,), (dims.vocabulary,)))
        if config.head.kind == "pooled":
            rules += linear("head.pooler", "pooler.dense", width)
        return rules

    def objections(self, config: ModelConfig) -> list[str]:
        wrong = super().objections(config)
        if not config.embedding_norm:
            wrong.append("model.embedding_norm=false")
        if config.head.kind == "masked" and not self._head_fits(config):
            wrong.append("model.head has another activation or eps than model.feedforward and model.norm")
        return wrong

    def _head_fits(self, config: ModelConfig) -> bool:
        first, head = config.of_layer(0), config.head
        same_eps = first.norm.kind == "layer" and getattr(head, "eps", None) == getattr(first.norm, "eps", None)
        return same_eps and getattr(head, "activation", None) == self.activation_of_head(first.feedforward.kind)

    def class_of(self, config: ModelConfig) -> str:
        return self.name if config.head.kind == "masked" else self.bare

    def write(self, config: ModelConfig, dims: Dims, tokenizer: Tokenizer) -> dict[str, Any]:
        return {
            "hidden_size": dims.width,
            "num_hidden_layers": dims.layers,
            "num_attention_heads": dims.heads,
            "max_position_embeddings": dims.context + getattr(config.of_layer(0).positions, "offset", 0),
            "intermediate_size": inner_of(config, dims),
            "hidden_act": ACTIVATION_NAMES[config.of_layer(0).feedforward.kind],
            "layer_norm_eps": getattr(config.of_layer(0).norm, "eps", None),
            "hidden_dropout_prob": dims.dropout,
            "attention_probs_dropout_prob": dims.dropout,
            "type_vocab_size": max(1, config.segments),
            "tie_word_embeddings": True,
            **marks_of(tokenizer),
        }


@final
class BERT(EncoderArchitecture):
    name: str = "BertForMaskedLM"
    bare: str = "BertModel"
    model_types: tuple[str, ...] = ("bert",)
    classes: tuple[str, ...] = ("BertForMaskedLM", "BertModel", "BertForPreTraining")
    prefix: str = "bert."
    unused: tuple[str, ...] = ("cls.seq_relationship.", "pooler.")
    head_map: str = "cls.predictions.transform.dense"
    head_norm: str = "cls.predictions.transform.LayerNorm"
    head_bias: str = "cls.predictions.bias"

    def objections(self, config: ModelConfig) -> list[str]:
        offset = getattr(config.of_layer(0).positions, "offset", 0)
        return [*super().objections(config), *([f"model.positions.offset={offset}"] if offset else [])]

    def copies(self, config: ModelConfig) -> dict[str, str]:
        decoder = "cls.predictions.decoder"
        return {f"{decoder}.weight": "embeddings.word_embeddings.weight", f"{decoder}.bias": self.head_bias}


@final
class RoBERTa(EncoderArchitecture):
    """Positions start after the row of padding, and the head always uses GELU."""

    name: str = "RobertaForMaskedLM"
    bare: str = "RobertaModel"
    model_types: tuple[str, ...] = ("roberta",)
    classes: tuple[str, ...] = ("RobertaForMaskedLM", "RobertaModel")
    prefix: str = "roberta."
    unused: tuple[str, ...] = ("pooler.",)
    head_map: str = "lm_head.dense"
    head_norm: str = "lm_head.layer_norm"
    head_bias: str = "lm_head.bias"

    def offset(self, settings: Settings) -> int:
        return settings.whole("pad_token_id", 1, least=0) + 1

    def activation_of_head(self, activation: str) -> str:
        return "gelu"

    def objections(self, config: ModelConfig) -> list[str]:
        offset = getattr(config.of_layer(0).positions, "offset", 0)
        return [*super().objections(config), *([] if offset else [f"model.positions.offset={offset}"])]

    def write(self, config: ModelConfig, dims: Dims, tokenizer: Tokenizer) -> dict[str, Any]:
        return {
            **super().write(config, dims, tokenizer),
            "pad_token_id": getattr(config.of_layer(0).positions, "offset", 2) - 1,
        }

    def copies(self, config: ModelConfig) -> dict[str, str]:
        decoder = "lm_head.decoder"
        return {f"{decoder}.weight": "embeddings.word_embeddings.weight", f"{decoder}.bias": self.head_bias}
