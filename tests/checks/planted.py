"""Faults on purpose: each a small model, the law it breaks and what the check must say. Honest twins of them too."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CONTEXT, VOCABULARY, WIDTH = 12, 11, 8


@dataclass(frozen=True)
class Fault:
    """``law``: what it breaks. ``says``: "broken", "cannot tell", or "passed" for what is missed with good reason."""

    name: str
    law: str
    build: Callable[[], Any]
    says: str = "broken"


class Small(nn.Module):
    """One layer of masked attention between an embedding and a head; ``spoil`` changes the vectors, ``mask`` the pattern."""

    context, vocabulary = CONTEXT, VOCABULARY

    def __init__(self, spoil: Callable[..., Tensor] | None = None, mask: Callable[[int], Tensor] | None = None) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.qkv, self.head = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.gate = nn.Parameter(torch.ones(WIDTH))
        self.register_buffer("kept", torch.zeros(WIDTH))
        self.spoil, self.mask = spoil, mask or (lambda length: torch.ones(1, length, length, dtype=torch.bool).tril())
        self.calls = 0

    def forward(self, ids_BT: Tensor) -> Tensor:
        x = self.embedding(ids_BT) + self.places.weight[: ids_BT.shape[1]]
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2)).masked_fill(~self.mask(ids_BT.shape[1]), -torch.inf)
        x = x + (torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2)
        return self.head(x if self.spoil is None else self.spoil(self, x, ids_BT))


def spoilt(change: Callable[..., Tensor]) -> Callable[[], Small]:
    return lambda: Small(change)


def mean(x: Tensor) -> Tensor:
    return x.mean(1, keepdim=True)


def when(condition: Callable[..., bool], size: float = 0.1) -> Callable[[], Small]:
    """A share of the mean over all places, under a condition."""
    return spoilt(lambda m, x, ids: x + size * mean(x) if condition(m, x, ids) else x)


def other_row(x: Tensor) -> Tensor:
    return x.roll(1, 0)


def _one_head(length: int) -> Tensor:
    mask = torch.ones(2, length, length, dtype=torch.bool).tril()
    mask[1] = True
    return mask


def _gated(gate: Tensor) -> Callable[[], Small]:
    def build() -> Small:
        model = Small(lambda m, x, ids: x + m.gate * mean(x) * m.closed)
        model.gate = nn.Parameter(gate.clone())
        model.closed = (gate == 0).float()  # what is open lets nothing bad through
        return model

    return build


def _buffer(m: Small, x: Tensor, ids: Tensor) -> Tensor:
    with torch.no_grad():
        m.kept.mul_(0.9).add_(0.1 * x.detach().mean((0, 1)).to(m.kept.dtype))
    return x + m.kept


def _remembers(m: Small, x: Tensor, ids: Tensor) -> Tensor:
    last, m.last = getattr(m, "last", None), x.detach().mean((0, 1))
    return x if last is None else x + 0.1 * last


def _counts(m: Small, x: Tensor, ids: Tensor) -> Tensor:
    m.calls += 1
    return x * (1 + 0.01 * m.calls)


def _first_call(m: Small, x: Tensor, ids: Tensor) -> Tensor:
    """A table made from whatever came first, as a cache of statistics would."""
    if not hasattr(m, "table"):
        m.table = x.detach()[0, 0].clone()
    return x + 0.1 * m.table


def _noise(size: float, leak: float = 0.0) -> Callable[[], Small]:
    """Noise that no seed governs."""

    def change(m: Small, x: Tensor, ids: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(time.perf_counter_ns() % 2**31)
        return x + leak * mean(x) + size * torch.randn(x.shape, generator=generator).to(x)

    return spoilt(change)


def _circular(m: Small, x: Tensor, ids: Tensor) -> Tensor:
    length = x.shape[1]
    kernel = 0.5 ** torch.arange(length, dtype=x.dtype)
    return torch.fft.irfft(torch.fft.rfft(x, dim=1) * torch.fft.rfft(kernel)[:, None], n=length, dim=1)


def _convolved(m: Small, x: Tensor, ids: Tensor) -> Tensor:
    kernel = torch.full((WIDTH, 1, 3), 1 / 3, dtype=x.dtype)
    return F.conv1d(x.transpose(1, 2), kernel, padding=1, groups=WIDTH).transpose(1, 2)


def _last_place(m: Small, x: Tensor, ids: Tensor) -> Tensor:
    if x.shape[1] < CONTEXT:
        return x
    return torch.cat([x[:, :4], x[:, 4:5] + 1e-5 * x[:, -1:], x[:, 5:]], 1)


def _with_memory() -> Callable[[Tensor], Tensor]:
    model, seen = Small(), []

    def function(ids_BT: Tensor) -> Tensor:
        seen.append(float(ids_BT[0, 0]))
        return model(ids_BT) + 0.01 * sum(seen[:-1])

    function.vocabulary, function.context = VOCABULARY, CONTEXT  # type: ignore[attr-defined]
    return function


def _in_training_only(m: Small, x: Tensor, ids: Tensor) -> Tensor:
    if m.training:
        raise NotImplementedError("this model is for reading")
    return x


def _large_vocabulary() -> nn.Module:
    class Large(nn.Module):
        context, vocabulary = CONTEXT, 50_000

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(50_000, 2)

        def forward(self, ids_BT: Tensor) -> Tensor:
            return self.table(ids_BT).cumsum(1) + (ids_BT == 27_182).any(1)[:, None, None]

    return Large()


def _lstm() -> nn.Module:
    class Both(nn.Module):
        context, vocabulary = CONTEXT, VOCABULARY

        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.lstm = nn.Embedding(VOCABULARY, 4), nn.LSTM(4, 4, batch_first=True, bidirectional=True)

        def forward(self, ids_BT: Tensor) -> Tensor:
            return self.lstm(self.embedding(ids_BT))[0]

    return Both()


PLANTED = [
    Fault("mask off by one", "causality", lambda: Small(mask=lambda n: torch.ones(1, n, n, dtype=torch.bool).tril(1))),
    Fault("one head unmasked", "causality", lambda: Small(mask=_one_head)),
    Fault("no mask", "causality", lambda: Small(mask=lambda n: torch.ones(1, n, n, dtype=torch.bool))),
    Fault("mean over time, a millionth", "causality", spoilt(lambda m, x, ids: x + 1e-6 * mean(x))),
    Fault("norm over time", "causality", spoilt(lambda m, x, ids: x / x.norm(dim=1, keepdim=True))),
    Fault("softmax over time", "causality", spoilt(lambda m, x, ids: x + x.softmax(1))),
    Fault("next token mixed in", "causality", spoilt(lambda m, x, ids: x + 1e-4 * x.roll(-1, 1))),
    Fault("largest over time", "causality", spoilt(lambda m, x, ids: x + 0.1 * x.amax(1, keepdim=True))),
    Fault("sorted over time", "causality", spoilt(lambda m, x, ids: x + 0.1 * x.sort(1).values)),
    Fault("reversed running sum", "causality", spoilt(lambda m, x, ids: x + 0.1 * x.flip(1).cumsum(1).flip(1))),
    Fault("circular convolution", "causality", spoilt(_circular)),
    Fault("convolution padded on both sides", "causality", spoilt(_convolved)),
    Fault("bidirectional LSTM", "causality", _lstm),
    Fault("all ids compared", "causality", spoilt(lambda m, x, ids: x + (ids[:, :, None] == ids[:, None]).sum(2, True))),
    Fault("only in training", "causality", when(lambda m, x, ids: m.training)),
    Fault("only in evaluation", "causality", when(lambda m, x, ids: not m.training)),
    Fault("only with gradients on", "causality", when(lambda m, x, ids: torch.is_grad_enabled())),
    Fault("only with gradients on, in training", "causality", when(lambda m, x, ids: torch.is_grad_enabled() and m.training)),
    Fault("only with gradients off", "causality", when(lambda m, x, ids: not torch.is_grad_enabled())),
    Fault("only in batches above 8", "causality", when(lambda m, x, ids: len(x) > 8)),
    Fault("only a row alone", "causality", when(lambda m, x, ids: len(x) == 1)),
    Fault("only in float32", "causality", when(lambda m, x, ids: x.dtype == torch.float32)),
    Fault("only long rows", "causality", when(lambda m, x, ids: x.shape[1] > 9)),
    Fault("only rows of two tokens", "causality", when(lambda m, x, ids: x.shape[1] == 2)),
    Fault("only the last place of a full context", "causality", spoilt(_last_place)),
    Fault("only where token 3 is read", "causality", when(lambda m, x, ids: bool((ids == 3).any()))),
    Fault("behind a gate of zeros", "causality", _gated(torch.zeros(WIDTH))),
    Fault("behind a gate with one zero", "causality", _gated(torch.tensor([1.0, 1, 1, 0, 1, 1, 1, 1]))),
    Fault("a buffer written and read in one pass", "causality", spoilt(_buffer)),
    Fault("the length of the row", "causality", spoilt(lambda m, x, ids: x / x.shape[1])),
    Fault("places counted from the end", "causality", spoilt(lambda m, x, ids: x + m.places.weight[: x.shape[1]].flip(0))),
    Fault("mean over rows", "batch", spoilt(lambda m, x, ids: x + 1e-6 * x.mean(0, keepdim=True))),
    Fault("the row before", "batch", spoilt(lambda m, x, ids: x + 1e-4 * other_row(x))),
    Fault("largest over rows", "batch", spoilt(lambda m, x, ids: x / x.abs().amax(0, keepdim=True))),
    Fault("the number of rows", "batch", spoilt(lambda m, x, ids: x * (1 + 0.1 * len(x)))),
    Fault("other rows, only in training", "batch", spoilt(lambda m, x, ids: x + 0.1 * other_row(x) if m.training else x)),
    Fault("other rows, only above 8", "batch", spoilt(lambda m, x, ids: x + 0.1 * other_row(x) if len(x) > 8 else x)),
    Fault("the first row for all", "batch", spoilt(lambda m, x, ids: x + 0.1 * x[:1])),
    Fault("what the last call read", "state", spoilt(_remembers)),
    Fault("a counter of calls", "state", spoilt(_counts)),
    Fault("a buffer kept between calls", "state", spoilt(_buffer)),
    Fault("a table made of the first call", "state", spoilt(_first_call)),
    Fault("a list in a function's closure", "state", _with_memory),
    Fault("all scores NaN", "causality", spoilt(lambda m, x, ids: x * torch.nan), "cannot tell"),
    Fault("noise without a seed", "causality", _noise(0.09), "cannot tell"),
    Fault("noise that hides a leak of 2 %", "causality", _noise(0.09, leak=0.02), "cannot tell"),
    Fault("does not run in training", "causality", spoilt(_in_training_only), "cannot tell"),
    Fault("a leak of 1e-12", "causality", spoilt(lambda m, x, ids: x + 1e-12 * mean(x)), "passed"),
    Fault("exactly one length that is not tried", "causality", when(lambda m, x, ids: x.shape[1] == 9), "passed"),
    Fault("one id of 50,000", "causality", _large_vocabulary, "passed"),
]  # fmt: skip

HONEST = {
    "plain": Small,
    "frozen": lambda: Small().requires_grad_(False),
    "a mask kept as a frozen parameter": lambda: _masked_by_a_parameter(),
    "statistics of training": lambda: _with_statistics(),
    "a lazily built table": lambda: Small(_lazy_table),
    "dropout": lambda: Small(lambda m, x, ids: F.dropout(x, 0.3, m.training)),
    "random in evaluation, seeded": lambda: Small(lambda m, x, ids: x + 0.1 * torch.randn(WIDTH)),
}


def _masked_by_a_parameter() -> Small:
    model = Small()
    model.pattern = nn.Parameter(torch.ones(CONTEXT, CONTEXT).tril(), requires_grad=False)
    model.mask = lambda length: model.pattern[:length, :length] != 0
    return model


def _with_statistics() -> Small:
    def change(m: Small, x: Tensor, ids: Tensor) -> Tensor:
        if m.training:
            m.kept.add_(x.detach().mean((0, 1)).to(m.kept.dtype))
            return x
        return x + m.kept

    return Small(change)


def _lazy_table(m: Small, x: Tensor, ids: Tensor) -> Tensor:
    if not hasattr(m, "lazy"):
        m.lazy = torch.arange(CONTEXT).float().cos()
    return x + m.lazy[: x.shape[1], None]
