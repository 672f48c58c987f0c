"""A pretrained Hugging Face encoder with a classification head, tuned fully or by an adapter, as a network.

Trained by the same trainer as our own models. If the encoder is frozen, checkpoints contain only the trained weights and the
sha256 of the folder's weights, and another folder is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, final

import numpy as np
import torch
from pydantic import BeforeValidator, Field, SerializeAsAny
from torch import Tensor, nn

from glassformer.data.disk_cache import cached_folder
from glassformer.data.labels.label_batches import EncodedTexts, in_order
from glassformer.data.tokenizers.base import TOKENIZERS, Tokenizer
from glassformer.data.tokenizers.files import FOLDER_FILE
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import ConfigError, RunError
from glassformer.foundation.files import sha256_of_bytes, sha256_of_file, whole_folder, write_atomically
from glassformer.foundation.seeds import derive_seed
from glassformer.model.dims import Dims, matmul_flops
from glassformer.model.network import MODELS, Network, NetworkConfig, evaluating
from glassformer.pretrained.adapter_export import Answers, base_name, class_of, loading_snippet, save_adapter, save_merged
from glassformer.pretrained.encoders import (
    LoadedEncoder,
    fingerprint_of_weights,
    folder_tokenizer,
    load_encoder,
    set_dropout,
    stated_dropout,
)
from glassformer.pretrained.exporting import CARD, Exported
from glassformer.pretrained.folders import CONFIG, locate
from glassformer.pretrained.heads import LabelHead, PoolChoice, build_head, has_own_head, head_parameters
from glassformer.pretrained.tuning.base import (
    TUNINGS,
    EncoderSizes,
    TuningConfig,
    reused_parameters,
    sees_ahead,
    sizes_of,
    takes_segments,
    takes_whole_mask,
)

if TYPE_CHECKING:
    from glassformer.model.accounting import Cost


class CardWriter(Protocol):
    """Writes the text of a model card."""

    def __call__(self, class_name: str, loading: str, notes: Sequence[str]) -> str: ...


AT_ONCE = 64
"""Texts that are read together when their vectors are stored."""
SHORTEST = 3
"""Tokens of the shortest row: one between two special tokens."""


@MODELS.variant("pretrained")
@final
class PretrainedConfig(NetworkConfig):
    """An encoder from a Hugging Face folder or name, with a head for labels; ``tuning`` selects what is trained."""

    folder: str = Field(min_length=1)
    tuning: Annotated[SerializeAsAny[TuningConfig], BeforeValidator(TUNINGS.parse)] = TUNINGS.default("full")
    pool: PoolChoice = "mean"
    context: int = Field(default=128, ge=SHORTEST, le=1 << 16)
    dropout: float | None = Field(default=None, ge=0.0, lt=1.0)
    """Of the encoder and the head; None: what the folder says."""
    causal: bool = False

    def check_cache_inputs(self) -> Mapping[str, Any]:
        """Checksums of the folder's weights and settings, and the library's version."""
        folder = locate(self.folder)
        checksums = {"weights": fingerprint_of_weights(folder), "config": sha256_of_file(folder / CONFIG)}
        return {**checksums, "transformers": metadata.version("transformers")}

    def tokenizer(self) -> Tokenizer:
        """The folder's tokenizer: no other one matches its embedding."""
        return folder_tokenizer(self.folder)

    def tokenizer_setting(self, setting: Any) -> Any:
        """The file of the folder; a recipe that names another is refused."""
        own = {"kind": "file", "file": f"{self.folder.rstrip('/')}/{FOLDER_FILE}"}
        if setting is None or TOKENIZERS.parse(setting) == TOKENIZERS.parse(own):
            return own
        kind = TOKENIZERS.parse(setting).kind
        raise ConfigError(
            f"tokenizer={kind} is not the tokenizer of model.folder={self.folder}, so its ids do not match the weights; leave "
            f"tokenizer out, or give tokenizer={{file: {own['file']}}}.",
            reason="other-tokenizer",
        )

    def build(self, vocabulary: int, *, outputs: int | None = None, seed: int) -> PretrainedNetwork:
        if outputs is None:
            raise ConfigError(
                "model.kind=pretrained has a head for labels, but this objective scores tokens of the vocabulary; choose "
                "objective: labels, or import the model with glassformer import.",
                reason="head-for-labels",
            )
        loaded = load_encoder(self.folder)
        with torch.random.fork_rng(devices=[]):  # torch draws random numbers for new layers before we initialise them
            return PretrainedNetwork(self, loaded, vocabulary, outputs, seed)

    def cost(self, vocabulary: int, *, outputs: int | None = None, batch: int) -> Cost:
        from glassformer.model.accounting import Cost, PartCost

        loaded = load_encoder(self.folder)
        sizes = sizes_with_pooler(self, loaded)
        tuned = self.tuning.trainable(sizes)
        head = head_parameters(self.pool, loaded.config.model_type, sizes.width, outputs or 0)
        rows, embedding = self.context + self.tuning.places(), loaded.encoder.get_input_embeddings().weight.numel()  # type: ignore[operator]
        products = matmul_flops(batch * rows, sizes.parameters - embedding + reused_parameters(loaded.encoder))
        attention = 2 * sizes.layers * matmul_flops(batch, rows, rows, sizes.width)
        forward = products + attention
        backward = 2 * forward if not self.tuning.frozen else forward if tuned else 0  # frozen weights have no gradients
        added = tuned if self.tuning.frozen else 0
        on_top = matmul_flops(batch, head)
        parts = (
            PartCost("encoder, frozen" if self.tuning.frozen else "encoder, trained", 1, sizes.parameters, forward, backward),
            PartCost(f"tuning ({self.tuning.kind}), trained", 1, added, 0, 0),
            PartCost("head, trained", 1, head, on_top, 2 * on_top),
        )
        parameters = sum(part.parameters for part in parts)
        stored = 34 if backward else 1  # vectors of each layer that the backward pass reads again (Korthikanti et al. 2022)
        activations = 2 * stored * batch * rows * sizes.width * (sizes.layers if backward else 1)
        return Cost(parts, batch, self.context, 4 * parameters, 4 * (tuned + head), activations)


def sizes_with_pooler(config: PretrainedConfig, loaded: LoadedEncoder) -> EncoderSizes:
    """The sizes of the encoder, with its pooler if that is used."""
    sizes = sizes_of(loaded.encoder, config.folder)
    if config.pool != "own" or loaded.pooler is None or loaded.config.model_type != "bert":
        return sizes
    pooler = sum(parameter.numel() for parameter in loaded.pooler.parameters())
    return replace(sizes, parameters=sizes.parameters + pooler)


@final
class PretrainedNetwork(Network):
    """Token ids -> the encoder's vectors -> logits of the labels."""

    pools = True

    def __init__(self, config: PretrainedConfig, loaded: LoadedEncoder, vocabulary: int, outputs: int, seed: int) -> None:
        super().__init__()
        self.config, settings = config, loaded.config
        sizes = sizes_of(loaded.encoder, config.folder)
        _refuse_misfits(config, loaded, sizes, vocabulary)
        dropout = stated_dropout(settings) if config.dropout is None else config.dropout
        if config.dropout is not None:
            set_dropout(loaded.encoder, config.dropout)
        self.encoder = loaded.encoder
        generator = torch.Generator().manual_seed(derive_seed(seed, "init", "tuning"))
        whole_mask, self.takes_segments = takes_whole_mask(self.encoder), takes_segments(self.encoder)
        self.reader = config.tuning.apply(self.encoder, sizes, generator)
        self.reader.whole_mask = whole_mask
        if loaded.pooler is not None and config.tuning.frozen:
            loaded.pooler.requires_grad_(False)
        self.head = build_head(
            config.pool,
            settings.model_type,
            loaded.pooler,
            width=sizes.width,
            outputs=outputs,
            dropout=dropout,
            virtual=self.reader.virtual,
        )
        self.head.init_weights(torch.Generator().manual_seed(derive_seed(seed, "init", "head")))  # type: ignore[operator]
        self.base_sha256 = loaded.sha256 if config.tuning.frozen else None
        if self.base_sha256 is not None:
            self.register_buffer("base_digest", torch.tensor(list(bytes.fromhex(loaded.sha256)), dtype=torch.uint8))
        self.folder, self.sizes, self._sha256 = loaded.folder, sizes, loaded.sha256
        padding = getattr(settings, "pad_token_id", None)
        self.reserved_ids = frozenset({padding} if isinstance(padding, int) else ())
        self.dims = Dims(
            width=sizes.width,
            heads=sizes.heads,
            layers=sizes.layers,
            context=config.context,
            vocabulary=vocabulary,
            dropout=dropout,
            causal=False,
            outputs=outputs,
        )

    @property
    def embedding(self) -> nn.Module:
        """The table of token vectors."""
        return self.encoder.get_input_embeddings()  # type: ignore[operator]

    def features(
        self,
        ids_BT: Tensor,
        *,
        key_padding_mask_BS: Tensor | None = None,
        segments_BT: Tensor | None = None,
        dropout_seed: Tensor | None = None,
    ) -> Tensor:
        """The encoder's last hidden states; with a prompt, its vectors come before those of the text."""
        if ids_BT.shape[1] > self.dims.context:
            raise ConfigError(
                f"{ids_BT.shape[1]} tokens do not fit in model.context={self.dims.context}; give fewer at once.",
                reason="text-too-long",
            )
        seen_BT = torch.ones_like(ids_BT) if key_padding_mask_BS is None else (~key_padding_mask_BS).long()
        return self.reader(self.encoder, ids_BT, seen_BT, segments_BT if self.takes_segments else None)

    @property
    def own_losses(self) -> tuple[str, ...]:
        return ("pairs",) if self.config.tuning.pairs else ()

    def lr_factors(self) -> dict[str, float]:
        factors = self.config.tuning.lr_factors().items()
        return {name: factor for name, _ in self.named_parameters() for start, factor in factors if name.startswith(start)}

    def logits(self, features_BTD: Tensor, key_padding_mask_BS: Tensor | None) -> Tensor:
        return super().logits(features_BTD.detach() if self.config.tuning.pairs else features_BTD, key_padding_mask_BS)

    def training_batches(self, batches: Any, seed: int) -> Any:
        tuning = self.config.tuning
        if not tuning.pairs and not tuning.stores_vectors():
            return batches
        if tuning.pairs:
            return batches.with_partners(seed)
        return batches.with_vectors(self.stored_vectors(batches.groups.texts))

    @torch.no_grad()
    def stored_vectors(self, texts: EncodedTexts) -> np.ndarray | None:
        """In the cache folder, by checksums of the weights and the tokens."""
        if not self.config.tuning.stores_vectors():
            return None
        head = self.head
        if not isinstance(head, LabelHead):
            raise ConfigError(
                f"model.tuning.cached=true stores what the head pools, but with model.pool={self.config.pool} this encoder's "
                "head has a trained layer before that; choose model.pool: mean or first.",
                reason="head-not-pooled",
            )
        ids = np.concatenate([texts.ids.flat, texts.lengths])
        kinds = sha256_of_bytes(texts.types.flat.tobytes()) if texts.types is not None else None
        made_of = [self._sha256, self.config.pool, sha256_of_bytes(ids.tobytes()), kinds, metadata.version("transformers")]

        def make(folder: Path) -> None:
            found_ND = np.zeros((len(texts), self.dims.width), np.float32)
            device = next(self.parameters()).device
            with evaluating(self):
                for at, rows in in_order(texts, AT_ONCE):
                    ids_BT, mask_BT = (torch.from_numpy(array).to(device) for array in (rows.ids_BT, rows.hidden_BT))
                    types_BT = None if rows.types_BT is None else torch.from_numpy(rows.types_BT).to(device)
                    features_BTD = self.features(ids_BT, key_padding_mask_BS=mask_BT, segments_BT=types_BT)
                    found_ND[at] = head.pooled(features_BTD, mask_BT).float().cpu().numpy()
            np.save(folder / "vectors.npy", found_ND)

        return np.asarray(np.load(cached_folder("vectors", fingerprint(made_of), make) / "vectors.npy"))

    def pretrained_source(self) -> dict[str, str]:
        return {"folder": str(self.folder.resolve()), "sha256": self._sha256}

    def save_pretrained(
        self,
        folder: Path,
        *,
        answers: Answers,
        merge: bool = False,
        bare: bool = False,
        card: CardWriter | None = None,
    ) -> Exported:
        """An adapter in peft's format, or (full, head, or ``merge``) a plain folder. ``card``: writes the model card.

        ``bare``: the encoder and the head as separate files, for the poolings that no class of transformers has. Without it
        they are refused: transformers would open the folder with a random head.
        """
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunError(f"{folder} is not empty; choose another folder for the export.", reason="folder-not-empty")
        own, model_type = self.config.pool == "own", self.encoder.config.model_type  # type: ignore[union-attr]
        if not own and not bare:
            train = "train with model.pool=own, which has one, " if has_own_head(model_type) else ""  # type: ignore[arg-type]
            raise ConfigError(
                f"model.pool={self.config.pool} has no class in transformers, which would open this folder with a random head "
                f"instead of the trained one; {train}export to ONNX (--onnx), or give --bare for the encoder and the head as "
                "separate files.",
                reason="head-without-class",
            )
        plain = merge or self.config.tuning.kind in ("full", "head", "contrastive")
        notes = []
        if not own:
            notes.append(
                f"The head, a linear map on the {self.config.pool} of the vectors, is in head.safetensors: AutoModel opens the "
                "encoder alone."
            )
        if not plain:
            notes.append(f"The adapter belongs to {base_name(self)}, whose weights have the sha256 {self._sha256}.")
        with whole_folder(folder) as draft:
            written = (save_merged if plain else save_adapter)(self, draft, answers=answers)
            if card is not None:
                class_name = class_of(self) if own else "AutoModel"
                loading = loading_snippet(class_name, base=None if plain else base_name(self), own=own, answers=answers)
                write_atomically(draft / CARD, card(written, loading, notes))
        return Exported(folder, written, tuple(notes))


def _refuse_misfits(config: PretrainedConfig, loaded: LoadedEncoder, sizes: EncoderSizes, vocabulary: int) -> None:
    rows = loaded.encoder.get_input_embeddings().weight.shape[0]  # type: ignore[operator]
    if vocabulary > rows:
        raise ConfigError(
            f"The tokenizer has {vocabulary} ids, but model.folder={config.folder} knows {rows}, so they do not match; "
            "use the tokenizer.json that came with the weights.",
            reason="other-tokenizer",
        )
    if config.causal:
        raise ConfigError(
            "model.causal=true has no effect on model.kind=pretrained: its encoder sees every token; leave model.causal out.",
            reason="encoder-is-not-causal",
        )
    needed = config.context + config.tuning.places()
    if needed > sizes.positions:
        taken = f" and {config.tuning.places()} of model.tuning={config.tuning.kind}" if config.tuning.places() else ""
        room = sizes.positions - config.tuning.places()
        remedy = f"model.context at most {room}" if room >= SHORTEST else "model.tuning.length and model.context smaller"
        raise ConfigError(
            f"model.context={config.context}{taken} need {needed} places, but {config.folder} has {sizes.positions}; "
            f"make {remedy}.",
            reason="too-few-places",
        )
    if not sees_ahead(loaded.encoder):
        raise ConfigError(
            f"model.folder={config.folder} ({type(loaded.encoder).__name__}) is causal: no token sees those "
            "after it; labels are read off an encoder (BERT, RoBERTa, ...): choose one.",
            reason="not-an-encoder",
        )
    incompatibility = config.tuning.incompatibility(loaded.encoder, sizes)
    if incompatibility:
        raise ConfigError(incompatibility, reason="incompatible-parts")
