"""The interface of tuning methods: which weights of an encoder are trained, what is added, and the forward pass.

A method is one file: a config with a formula for its trainable parameters, above the ``Reader`` it builds. The head is
trained in every method and counted separately.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.registry import Slot, VariantConfig
from glassformer.model.network import evaluating

FIRST_WORD, EXCHANGED, SCANNED = 3, 6, 4096
"""Of the probe for encoders that read from left to right: an id, how many take its place, rows that are looked at first."""


@dataclass(frozen=True)
class EncoderSizes:
    """The sizes of an encoder, for the formulas."""

    name: str
    width: int
    heads: int
    layers: int
    parameters: int
    positions: int
    """The longest row it reads."""
    linear: Mapping[str, tuple[int, int]]
    """Its linear maps by name: inputs and outputs."""


class Reader(nn.Module):
    """The encoder's forward pass with the added parameters. ``virtual``: output vectors before those of the text.

    ``whole_mask``: the encoder accepts a mask [B, 1, T, S] (``takes_whole_mask``). From one of [B, S] transformers makes the
    same, but first tests whether anything is masked, which synchronises with the GPU and prevents a CUDA graph.
    """

    virtual: int = 0
    whole_mask: bool = False

    def forward(self, encoder: nn.Module, ids_BT: Tensor, seen_BT: Tensor, types_BT: Tensor | None) -> Tensor:
        """The last hidden states, [B, virtual + T, D]."""
        return self.read(encoder, seen_BT, input_ids=ids_BT, token_type_ids=types_BT)

    def read(self, encoder: nn.Module, seen_BS: Tensor, **inputs: Any) -> Tensor:
        """The encoder's hidden states for ids or embeddings; ``seen_BS``: 1 for visible keys, 0 for padding."""
        rows = inputs["input_ids"] if "input_ids" in inputs else inputs["inputs_embeds"]
        fused = getattr(getattr(encoder, "config", None), "_attn_implementation", None) == "sdpa"  # others add the mask
        mask = whole_mask(seen_BS, rows.shape[1]) if self.whole_mask and fused else seen_BS
        return read_plainly(encoder, attention_mask=mask, **inputs)


class TuningConfig(VariantConfig):
    """A tuning method. The encoder comes with all its weights trainable; ``apply`` freezes some."""

    frozen: ClassVar[bool] = True
    """Whether the encoder's own weights are frozen, so that a checkpoint contains only what was added."""

    pairs: ClassVar[bool] = False
    """Whether it is trained on pairs of texts, of one label or of two; the head then learns from vectors as they are."""

    def stores_vectors(self) -> bool:
        """Whether the encoder's vectors of all texts are computed once and stored, because nothing changes them."""
        return False

    def lr_factors(self) -> Mapping[str, float]:
        """What ``training.lr`` is multiplied by in parts of the network, by the beginning of their names."""
        return {}

    def places(self) -> int:
        """Positions that the added vectors occupy."""
        return 0

    def trainable(self, sizes: EncoderSizes) -> int:
        """The number of trainable parameters, without the head."""
        raise NotImplementedError

    def incompatibility(self, encoder: nn.Module, sizes: EncoderSizes) -> str | None:
        """Why this encoder does not support this method, as a sentence, or None."""
        return None

    def apply(self, encoder: nn.Module, sizes: EncoderSizes, generator: torch.Generator) -> Reader:
        """Freezes weights, adds parameters and returns the reader; initialisation uses ``generator`` only."""
        raise NotImplementedError


def read_plainly(encoder: nn.Module, **inputs: Any) -> Tensor:
    """The encoder's own forward pass; drops arguments that are None or unsupported."""
    known = forward_arguments(encoder)
    output = encoder(**{name: value for name, value in inputs.items() if value is not None and name in known})
    vectors: Tensor = output.last_hidden_state
    return vectors


def whole_mask(seen_BS: Tensor, queries: int) -> Tensor:
    """[B, 1, T, S], true where a query may attend to a key, for fused attention."""
    return seen_BS.bool()[:, None, None, :].expand(-1, 1, queries, -1)


@torch.no_grad()
def takes_whole_mask(encoder: nn.Module) -> bool:
    """Whether the encoder treats a mask [B, 1, T, S] like one of [B, S], tested on an example: not every transformers class
    accepts one, and some use the other mask outside attention, too."""
    place = next(encoder.parameters()).device
    ids_BT = torch.tensor([[3, 4, 5, 6], [6, 5, 4, 3]], device=place)  # ids that any vocabulary has
    seen_BT = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]], device=place)
    with evaluating(encoder), suppress(RuntimeError, ValueError, IndexError, TypeError):
        expected = read_plainly(encoder, input_ids=ids_BT, attention_mask=seen_BT)
        masked = read_plainly(encoder, input_ids=ids_BT, attention_mask=whole_mask(seen_BT, ids_BT.shape[1]))
        seen = seen_BT.bool()
        return masked.shape == expected.shape and torch.allclose(masked[seen], expected[seen], rtol=1e-4, atol=1e-5)
    return False


@torch.no_grad()
def sees_ahead(encoder: nn.Module) -> bool:
    """Whether the first vector depends on the last token, tested on examples: config.json does not always say.

    Several tokens take the last place, only such as have different embeddings: unused ones are often all zeros.
    """
    place = next(encoder.parameters()).device

    def first_vector(last: int) -> Tensor:
        ids_BT = torch.tensor([[3, 4, 5, last]], device=place)  # ids that any vocabulary has
        return read_plainly(encoder, input_ids=ids_BT, attention_mask=torch.ones_like(ids_BT))[0, 0]

    with evaluating(encoder):
        one, *others = _unlike_tokens(encoder.get_input_embeddings().weight)  # type: ignore[operator]
        expected = first_vector(one)
        # a table of equal rows cannot tell: no token matters to such an encoder, whichever way it reads
        return not others or any(not torch.equal(expected, first_vector(other)) for other in others)


def _unlike_tokens(table_VD: Tensor) -> list[int]:
    """An id, and a few others whose vectors are not equal to its own."""
    for rows_VD in (table_VD[:SCANNED], table_VD):  # real words come early; a whole table can be a gigabyte
        others = (rows_VD != rows_VD[FIRST_WORD]).any(dim=1).nonzero().flatten()
        if len(others):
            break
    return [FIRST_WORD, *others[:: max(1, len(others) // EXCHANGED)][:EXCHANGED].tolist()]


def takes_segments(encoder: nn.Module) -> bool:
    """Whether the encoder distinguishes two segments: RoBERTa has a table with one row for both, and
    DistilBERT none at all, whatever their tokenizers say."""
    return "token_type_ids" in forward_arguments(encoder) and getattr(encoder.config, "type_vocab_size", 2) > 1


def forward_arguments(encoder: nn.Module) -> set[str]:
    """The arguments of the forward pass, with those of a base class that it passes keywords to."""
    passes = [vars(base)["forward"] for base in type(encoder).__mro__ if "forward" in vars(base)]
    return {name for forward in passes for name in inspect.signature(forward).parameters}


def sizes_of(encoder: nn.Module, name: str) -> EncoderSizes:
    """The sizes of a Hugging Face encoder, from its config and its modules."""
    config: Any = encoder.config
    try:
        width, heads, layers = config.hidden_size, config.num_attention_heads, config.num_hidden_layers
    except AttributeError as error:
        raise ConfigError(
            f"model.folder={name}: its config.json states no {error.name}, so its sizes are not known.", reason="sizes-unknown"
        ) from None
    positions = int(getattr(config, "max_position_embeddings", 1 << 20)) - _skipped_positions(encoder)
    linear = {
        place: (module.in_features, module.out_features)
        for place, module in encoder.named_modules()
        if isinstance(module, nn.Linear)
    }
    parameters = sum(parameter.numel() for parameter in encoder.parameters())
    return EncoderSizes(name, width, heads, layers, parameters, positions, linear)


@torch.no_grad()
def reused_parameters(encoder: nn.Module) -> int:
    """Numbers that a token meets again beyond the first time, found by trying: ALBERT's layers are one, run many times."""
    place = next(encoder.parameters()).device
    ids_BT = torch.tensor([[3, 4, 5, 6, 3], [6, 5, 4, 3, 4]], device=place)  # ids that any vocabulary has
    calls: Counter[nn.Module] = Counter()

    def count(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        rows = inputs[0] if inputs else None
        if isinstance(rows, Tensor) and rows.shape[:2] == ids_BT.shape:  # DeBERTa's maps also read a table of distances
            calls[module] += 1

    with evaluating(encoder), ExitStack() as stack:
        for module in encoder.modules():
            stack.callback(module.register_forward_pre_hook(count).remove)
        read_plainly(encoder, input_ids=ids_BT, attention_mask=torch.ones_like(ids_BT))
    own = {module: sum(parameter.numel() for parameter in module.parameters(recurse=False)) for module in calls}
    return sum((times - 1) * own[module] for module, times in calls.items())


def _skipped_positions(encoder: nn.Module) -> int:
    """Unused rows of the position table: RoBERTa's and MPNet's positions begin after the id of padding."""
    tables = (module for name, module in encoder.named_modules() if name.endswith("position_embeddings"))
    return next(
        (table.padding_idx + 1 for table in tables if isinstance(table, nn.Embedding) and table.padding_idx is not None), 0
    )


TUNINGS: Slot[TuningConfig] = Slot(
    "model.tuning", "which weights of a pretrained encoder are trained", "glassformer.pretrained.tuning"
)
