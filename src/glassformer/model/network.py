"""The interface ``Network`` that trainer, checks and evaluators use; and the slot ``model``, whose variants build one.

A network is token ids -> vectors (``features``) -> numbers (``head``). The Transformer of this package is one; a pretrained
encoder (networks/pretrained_encoder.py) is another. A module of a user's own needs ``forward(ids) -> scores`` and nothing
else: ``NetworkConfig.network`` puts it behind this interface (model/own_network.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.registry import Slot, VariantConfig
from glassformer.foundation.seeds import derive_seed
from glassformer.model.attention_context import Memory, OwnLosses
from glassformer.model.dims import Dims

if TYPE_CHECKING:
    from glassformer.model.accounting import Cost


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Evaluation mode (no dropout) inside; afterwards every submodule has its previous mode (some may be frozen)."""
    modes = [(part, part.training) for part in model.modules()] if isinstance(model, nn.Module) else []
    try:
        for part, _ in modes:
            part.training = False
        yield
    finally:
        for part, mode in modes:
            part.training = mode


class Network(nn.Module, ABC):
    """Token ids -> vectors -> what the head makes of them. ``forward`` is both."""

    dims: Dims
    head: nn.Module
    pools: bool = False
    """Whether the head gives numbers for a whole row, and so must know which tokens are padding."""
    takes_segments: bool = False
    """Whether ``features`` takes ``segments_BT``, which tells the first of two texts (0) from the second (1)."""
    reads_source: bool = False
    """Whether it reads a source and writes a target: it then has ``encode``, and ``features`` takes ``memory``."""
    hides: tuple[str, ...] = "right", "anywhere"
    """Where ``key_padding_mask_BS`` may hide tokens: at the end of rows ("right"), "anywhere"; empty: it takes no mask."""

    @abstractmethod
    def features(
        self, ids_BT: Tensor, *, key_padding_mask_BS: Tensor | None = None, dropout_seed: Tensor | None = None
    ) -> Tensor:
        """The vectors the head reads, [B, T, D]. ``dropout_seed``: of the dropout masks; all arguments: ``Transformer``."""

    def forward(self, ids_BT: Tensor, *, key_padding_mask_BS: Tensor | None = None, **more: Any) -> Tensor:
        """Scores [B, T, V], or [B, outputs] of a head that pools. The arguments are those of ``features``."""
        features_BTD = self.features(ids_BT, key_padding_mask_BS=key_padding_mask_BS, **more)
        return self.logits(features_BTD, key_padding_mask_BS)

    collecting: OwnLosses | None = None
    """Where the parts add losses of their own while a training step computes its loss; None: nowhere."""

    def collect(self, losses: OwnLosses | None) -> None:
        """Sets ``collecting``, in networks inside this one too."""
        self.collecting = losses

    @property
    def own_losses(self) -> tuple[str, ...]:
        """The names of the losses that its parts add to the objective's."""
        return ()

    def lr_factors(self) -> dict[str, float]:
        """What ``training.lr`` is multiplied by, for parameters whose start asks for a rate of their own (muP)."""
        return {}

    @property
    def source_vocabulary(self) -> int:
        """How many ids a source may have."""
        return self.dims.vocabulary

    def encode(
        self, source_ids_BS: Tensor, source_padding_BS: Tensor | None = None, *, dropout_seed: Tensor | None = None
    ) -> Memory:
        """What it makes of the sources. ``source_padding_BS``: True at padding."""
        raise ConfigError(
            "This network reads no source; for pairs of texts choose model.kind: encoder-decoder.", reason="reads-no-source"
        )

    def given(self, memory: Memory) -> Network:
        """The network of the target alone, given what was made of the sources."""
        raise ConfigError(
            "This network reads no source; for pairs of texts choose model.kind: encoder-decoder.", reason="reads-no-source"
        )

    def pretrained_source(self) -> dict[str, str] | None:
        """The folder of the pretrained weights it started from and their sha256, for a run's environment; None without any."""
        return None

    def training_batches(self, batches: Any, seed: int) -> Any:
        """The batches of a run with what this network needs beside them: partners of texts, stored vectors."""
        return batches

    def stored_vectors(self, texts: Any) -> Any:
        """[N, D]: of encoded texts, what the head pools, computed once; None: the network computes it each time."""
        return None

    def logits(self, features_BTD: Tensor, key_padding_mask_BS: Tensor | None) -> Tensor:
        """The head's output for the vectors of ``features``: [B, T, outputs], or [B, outputs] from a head that pools."""
        scores: Tensor = self.head(features_BTD, key_padding_mask_BS) if self.pools else self.head(features_BTD)
        if scores.shape[-1] != self.dims.num_outputs:
            raise ConfigError(
                f"The head {type(self.head).__name__} gives {scores.shape[-1]} numbers, not {self.dims.num_outputs}; "
                "build it with dims.num_outputs.",
                reason="head-outputs",
            )
        return scores


class NetworkConfig(VariantConfig):
    """A network by its choices. ``context`` is the longest row it reads."""

    reads_source: ClassVar[bool] = False
    """Whether its network reads a source and writes a target."""
    context: int = Field(default=128, ge=1, le=1 << 22)
    causal: bool = True

    def build(self, vocabulary: int, *, outputs: int | None = None, seed: int) -> nn.Module:
        """A module on the CPU in float32 from token ids [B, T] to scores [B, T, ``outputs``, or else ``vocabulary``].

        torch's generator is seeded before, so initial weights as torch draws them are a function of the seed.
        """
        raise NotImplementedError

    def network(self, vocabulary: int, *, outputs: int | None = None, seed: int) -> Network:
        """What ``build`` makes, as trainer, checks and evaluators use it."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(seed, "init"))
            built = self.build(vocabulary, outputs=outputs, seed=seed)
        if isinstance(built, Network):
            return built
        if not isinstance(built, nn.Module):
            raise ConfigError(
                f"model.kind={self.kind}: build gives {type(built).__name__}, not a torch.nn.Module; return the network.",
                reason="build-gives-no-module",
            )
        from glassformer.model.own_network import OwnNetwork  # which knows this config

        return OwnNetwork(self, built, vocabulary, outputs)

    def shapes(self, vocabulary: int, *, outputs: int | None = None) -> nn.Module:
        """The network's parameters without their numbers (on torch's meta device), so that any size costs nothing."""
        return self.network(vocabulary, outputs=outputs, seed=0)

    def check_cache_inputs(self) -> Mapping[str, Any] | None:
        """What the result of a check before training depends on beside these choices and our code: checksums of pretrained
        weights, the version of the library that runs them. It is part of the key of a stored check. None: not known, so no
        check of this network is stored."""
        return None

    def tokenizer(self) -> Any:
        """The tokenizer it was pretrained with, which then serves the data; None: the recipe's."""
        return None

    def tokenizer_setting(self, setting: Any) -> Any:
        """The recipe key ``tokenizer`` for this network, from the one the user wrote; a pretrained network names its own."""
        return setting

    def cost(self, vocabulary: int, *, outputs: int | None = None, batch: int) -> Cost:
        """Parameters, FLOPs and bytes of one training step of ``batch`` rows, by part: measured, unless a kind has formulas."""
        from glassformer.model.own_network import measured_cost  # which knows this config

        return measured_cost(self, vocabulary, outputs=outputs, batch=batch)


MODELS: Slot[NetworkConfig] = Slot("model", "the network that is trained", "glassformer.networks")
MODELS.default("transformer")  # what settings without a kind are, whether or not a recipe was imported before
