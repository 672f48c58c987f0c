"""A Hugging Face model or its folder as a ``Subject`` to check. Imports transformers only to load a folder.

Differences between models are found by trial: the longest row that runs, the name of the cache, the number of the first
position. Rows are padded on the right and on the left. A model without position ids cannot handle padding on the left; that
its logits then differ is reported as a note, not as a broken law.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checks.state_snapshot import Snapshot
from glassformer.checks.subject import LONGEST_TRIED, Subject, longest_that_runs, scores_in
from glassformer.foundation.errors import DataError, MissingDependency, UnknownName
from glassformer.pretrained.tuning.base import forward_arguments

CONTEXT_NAMES = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "max_sequence_length",
    "max_target_positions",
    "max_seq_len",
    "context_length",
)
LONGEST = 1024
"""Contexts are checked up to this length: computed positions have no limit."""
HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
KNOWN_ENDINGS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM")
CACHES = ("past_key_values", "cache_params", "state", "mems", "past_buckets_states")
"""Names of the cache, as an argument and in the output."""


def is_huggingface(target: Any) -> bool:
    """Whether this is a transformers model, by its base class's name, so that nothing has to be imported."""
    return isinstance(target, nn.Module) and any(base.__name__ == "PreTrainedModel" for base in type(target).__mro__)


def huggingface_subject(
    model: Any, *, vocabulary: int | None = None, context: int | None = None, snapshot: Snapshot | None = None
) -> Subject:
    """The model with its padding mask and its cache."""
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    call = _Call(model, config)
    vocabulary = vocabulary or getattr(config, "vocab_size", None) or getattr(model.config, "vocab_size", None) or 2
    subject = Subject(type(model).__name__, lambda ids_BT: call(ids_BT)[0], {"": model}, vocabulary=vocabulary, context=2)
    subject.snapshot = snapshot
    subject.reserved_ids = frozenset(
        token for part in {id(config): config, id(model.config): model.config}.values() for token in _special_ids(part)
        if 0 <= token < vocabulary
    )  # fmt: skip
    if vocabulary - len(subject.reserved_ids) < 2:
        subject.reserved_ids = frozenset()
    token = next(token for token in range(vocabulary) if token not in subject.reserved_ids)
    stated = next(
        (value for name in CONTEXT_NAMES if isinstance(value := getattr(config, name, None), int) and value > 1), None
    )
    limit = context or min(LONGEST, stated or LONGEST_TRIED)
    subject.context = longest_that_runs(subject, limit, token) or 2  # a model that does not run is reported later
    if limit != subject.context and subject.context > 2:
        subject.remarks.append(f"Rows of more than {subject.context} tokens do not run, so the context is {subject.context}.")
    if "attention_mask" in call.accepted:
        _add_paddings(subject, call, token)
    _add_cache(subject, call, token)
    return subject


class _Call:
    """The forward pass: ids [B, T] -> logits [B, T, V] and the other outputs."""

    def __init__(self, model: Any, config: Any) -> None:
        self.model = model
        self.accepted = forward_arguments(model)
        self.books = config.num_codebooks if type(model).__name__.startswith("Musicgen") else 1
        """Rows that belong to one example: these models read several streams as rows of one batch."""

    def __call__(self, ids_BT: Tensor, **keywords: Any) -> tuple[Tensor, Any]:
        if "use_cache" in self.accepted:
            keywords.setdefault("use_cache", False)
        if "use_mems" in self.accepted:
            keywords.setdefault("use_mems", False)
        if self.books == 1:
            output = self.model(input_ids=ids_BT, **keywords)
            return scores_in(output), output
        output = self.model(input_ids=ids_BT.repeat_interleave(self.books, 0), **keywords)
        scores = scores_in(output).unflatten(0, (len(ids_BT), self.books))
        return scores.transpose(1, 2).flatten(2), output


def _special_ids(config: Any) -> Iterator[int]:
    """Special ids: padding, end of text, image placeholders."""
    for name, value in vars(config).items():
        if name.endswith(("token_id", "token_index", "token_ids")):
            yield from (token for token in (value if isinstance(value, list | tuple) else [value]) if isinstance(token, int))


def _add_paddings(subject: Subject, call: _Call, token: int) -> None:
    def right(ids_BT: Tensor, key_padding_mask_BS: Tensor) -> Tensor:
        return call(ids_BT, attention_mask=(~key_padding_mask_BS).long())[0]

    def left(ids_BT: Tensor, key_padding_mask_BS: Tensor, first: int) -> Tensor:
        mask_BS = (~key_padding_mask_BS).long()
        return call(ids_BT, attention_mask=mask_BS, position_ids=(mask_BS.cumsum(1) - 1).clamp(min=0) + first)[0]

    first = _first_position(subject, call, token) if "position_ids" in call.accepted else None
    if first is None:
        subject.paddings, subject.moves = {"right": right, "left": right}, frozenset({"left"})
    else:
        subject.paddings = {"right": right, "left": partial(left, first=first)}


def _first_position(subject: Subject, call: _Call, token: int) -> int | None:
    """The number of the first position: the one that reproduces the logits without position ids."""
    length = min(6, subject.context)
    ids_BT = (token + torch.zeros(1, length, dtype=torch.long)).to(subject.device)
    places = torch.arange(length, device=ids_BT.device).unsqueeze(0)
    try:
        call.model.eval()  # without dropout; the snapshot restores the mode
        with torch.no_grad():
            expected = call(ids_BT)[0]
    except Exception:
        return None
    padding = getattr(call.model.config, "pad_token_id", None)
    for first in dict.fromkeys((0, 2, 1, (padding if isinstance(padding, int) else 0) + 1)):
        try:
            call.model.eval()
            with torch.no_grad():
                scores = call(ids_BT, position_ids=places + first)[0]
        except Exception:  # beyond the table of positions
            continue
        finally:
            if subject.snapshot is not None:
                subject.snapshot.restore()
        if torch.allclose(scores, expected, rtol=1e-4, atol=1e-5):
            return first
    return None


def _add_cache(subject: Subject, call: _Call, token: int) -> None:
    """Sets up the cache under the model's name for it, if it returns one."""
    names = [name for name in CACHES if name in call.accepted]
    if not names:
        return
    ids_BT = torch.full((1, 2), token).to(subject.device)
    for name in names:
        reader = _Cache(call, name)
        try:
            with torch.no_grad():
                reader.read(ids_BT)
        except Exception:  # then the law reports why it cannot be judged
            reader.past = True
        finally:
            if subject.snapshot is not None:
                subject.snapshot.restore()
        if reader.past is not None:
            subject.new_cache = lambda name=name: _Cache(call, name)
            return
    subject.no_cache = f"this model takes {' or '.join(names)}, but gives none back"


class _Cache:
    def __init__(self, call: _Call, name: str) -> None:
        self.call, self.name = call, name
        self.past: Any = None

    def read(self, ids_BT: Tensor, lengths: list[int] | None = None) -> Tensor:
        keywords: dict[str, Any] = {self.name: self.past}
        keywords["use_mems" if self.name == "mems" else "use_cache"] = True
        scores, output = self.call(ids_BT, **keywords)
        self.past = getattr(output, self.name, None)
        return scores


def load_folder(folder: Path, class_name: str | None = None) -> nn.Module:
    """Loads the model in a folder, from safetensors only; runs no code of the folder and downloads nothing.

    ``class_name``: the class of transformers to load it as; by default the one that its config names.
    """
    if not (folder / "config.json").is_file():
        raise DataError("there is no config.json, so this is not the folder of a Hugging Face model.", file=folder)
    return _load(str(folder), class_name, local=True)


def load_hub(name: str, class_name: str | None = None) -> nn.Module:
    """Loads a model from the Hugging Face hub or the local cache, from safetensors only; runs no code of it."""
    return _load(name, class_name, local=False)


def _load(source: str, class_name: str | None, *, local: bool) -> nn.Module:
    try:
        import transformers
    except ImportError as error:
        raise MissingDependency("Checking a Hugging Face model needs transformers; install glassformer[hf].") from error
    try:
        config = transformers.AutoConfig.from_pretrained(source, local_files_only=local, trust_remote_code=False)
        name = class_name or (getattr(config, "architectures", None) or [None])[0]
        cls = getattr(transformers, name, None) if name else None
        if class_name is not None and not hasattr(cls, "from_pretrained"):
            known = (known for known in dir(transformers) if known.endswith(KNOWN_ENDINGS))
            raise UnknownName("transformers", class_name, known)
        model: nn.Module = (cls or transformers.AutoModel).from_pretrained(
            source, local_files_only=local, use_safetensors=True, dtype=torch.float32
        )
    except (OSError, ValueError, RuntimeError) as error:
        first = str(error).strip().split("\n", 1)[0].rstrip(".")  # transformers goes on about its settings
        where = "the model" if local else "there is no such folder or recipe here, and as a model of the hub it"
        raise DataError(f"{where} cannot be loaded ({first}).", file=source) from error
    return model.eval()
