"""Faults on purpose in what a mask hides and what a cache keeps: a small decoder with the arguments transformers uses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from tests.checks.planted import CONTEXT, VOCABULARY, WIDTH, Fault
from torch import Tensor, nn


class PreTrainedModel(nn.Module):
    """By this name of a base class the check knows a model that takes ``attention_mask`` and ``past_key_values``."""


class Decoder(PreTrainedModel):
    """One layer of attention with positions, a mask and a cache (keys, values, seen), and one thing wrong with it."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        torch.manual_seed(1)
        self.config = SimpleNamespace(vocab_size=VOCABULARY, max_position_embeddings=CONTEXT, pad_token_id=None)
        self.embedding, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.qkv, self.head = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.fault = fault

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool = False,
    ) -> SimpleNamespace:
        rows, length = input_ids.shape
        before = 0 if past_key_values is None else past_key_values[0].shape[1]
        seen_BT = torch.ones(rows, length, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        seen_BT = self._seen(seen_BT, attention_mask is not None)
        x_BTD = self.embedding(input_ids) + self.places(self._positions(position_ids, before, length))
        if attention_mask is not None and self.fault == "mean of hidden and seen":
            x_BTD = x_BTD + 0.01 * x_BTD.mean(1, keepdim=True) * (~seen_BT).any(1)[:, None, None]
        q_BTD, k_BSD, v_BSD = self.qkv(x_BTD).chunk(3, -1)
        if past_key_values is not None:
            k_BSD, v_BSD, seen_BT = self._read_on(past_key_values, (k_BSD, v_BSD, seen_BT))
        scores_BTS = q_BTD @ k_BSD.transpose(1, 2)
        scores_BTS = self._masked(scores_BTS, seen_BT, k_BSD.shape[1] - length, past_key_values is not None)
        y_BTD = x_BTD + torch.softmax(scores_BTS, -1) @ v_BSD
        if attention_mask is not None and self.fault == "number of hidden tokens":
            y_BTD = y_BTD * (1 + 0.01 * (~seen_BT).sum(1)[:, None, None])
        kept = self._kept(k_BSD, v_BSD, seen_BT) if use_cache else None
        return SimpleNamespace(logits=self.head(y_BTD), past_key_values=kept)

    def _seen(self, seen_BT: Tensor, given: bool) -> Tensor:
        match self.fault:
            case "mask not read":
                return torch.ones_like(seen_BT)
            case "mask not read in training" if self.training:
                return torch.ones_like(seen_BT)
            case "mask of the first row for all":
                return seen_BT[:1].expand_as(seen_BT)
            case "mask off by one" if given:
                return torch.cat([seen_BT[:, 1:], seen_BT[:, :1]], 1)
            case "mask turned around" if given:
                return seen_BT.flip(1)
        return seen_BT

    def _positions(self, position_ids: Tensor | None, before: int, length: int) -> Tensor:
        counted = torch.arange(length)[None] + (0 if self.fault == "positions begin again" else before)
        return counted if position_ids is None or self.fault == "position ids not read" else position_ids

    def _read_on(self, past: tuple[Tensor, ...], new: tuple[Tensor, ...]) -> list[Tensor]:
        length = new[0].shape[1]
        match self.fault:
            case "several tokens begin anew" if length > 1:
                return list(new)
            case "first row's cache for all":
                past = tuple(one[:1].expand_as(one) for one in past)
            case "only the last four are kept":
                past = tuple(one[:, -4:] for one in past)
            case "the token before is lost":
                past = tuple(one[:, :-1] for one in past)
            case "keys in half precision":
                past = (past[0].to(torch.float16).to(past[0].dtype), *past[1:])
            case "values scaled again":
                past = (past[0], 1.001 * past[1], past[2])
            case "a full cache loses its first" if past[0].shape[1] + length == CONTEXT:
                past = tuple(one[:, 1:] for one in past)
        return [torch.cat(pair, 1) for pair in zip(past, new)]

    def _masked(self, scores_BTS: Tensor, seen_BS: Tensor, before: int, read_on: bool) -> Tensor:
        length, width = scores_BTS.shape[1:]
        causal_TS = torch.ones(length, width, dtype=torch.bool).tril(before)
        if self.fault == "new tokens see each other" and read_on:
            causal_TS = torch.ones_like(causal_TS)
        hidden = -4.0 if self.fault == "mask too weak" else -1e9
        own_TS = torch.arange(width)[None] == torch.arange(length)[:, None] + before  # so that nobody sees nothing
        scores_BTS = scores_BTS.masked_fill(~seen_BS[:, None] & ~own_TS, hidden)
        return scores_BTS.masked_fill(~causal_TS, -torch.inf)

    def _kept(self, *parts: Tensor) -> tuple[Tensor, ...]:
        if self.fault == "rows exchanged in the cache":
            return tuple(part.flip(0) for part in parts)
        return tuple(parts)


def planted(name: str, law: str, says: str = "broken") -> Fault:
    return Fault(name, law, lambda: Decoder(name), says)


HIDDEN = [
    "mask not read",
    "mask not read in training",
    "mask of the first row for all",
    "mask off by one",
    "mask turned around",
    "mask too weak",
    "mean of hidden and seen",
    "number of hidden tokens",
    "position ids not read",
]
KEPT = [
    "positions begin again",
    "several tokens begin anew",
    "first row's cache for all",
    "rows exchanged in the cache",
    "only the last four are kept",
    "the token before is lost",
    "values scaled again",
    "a full cache loses its first",
    "new tokens see each other",
]
ROUNDED = planted("keys in half precision", "cache", "passed")  # a cast is raised to float64 with everything else
MASKED = [*(planted(name, "padding") for name in HIDDEN), *(planted(name, "cache") for name in KEPT), ROUNDED]
