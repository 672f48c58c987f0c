"""What a trained network is asked before its verdict, on networks that see what they have to predict in ways of their own."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.refusals import refused
from torch import nn

from glassformer.foundation.errors import CheckFailed
from glassformer.study.running.trial_facts import learned_outside, require_fair_losses

SIZE, CONTEXT = 20, 16
TEXT = np.random.default_rng(0).integers(3, SIZE, 2000).astype(np.uint16)
TEXT[::5] = 1  # words of four letters


class Plain(nn.Module):
    """Its scores depend on the tokens so far."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.dims = SimpleNamespace(vocabulary=SIZE)
        self.embed, self.gru, self.head = nn.Embedding(SIZE, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, SIZE)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.gru(self.embed(ids))[0])
        return scores


class LateInARow(Plain):
    """Looks at the next token in the last quarter of rows with three whole words."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        known = ((ids == 1).sum(1) >= 3)[:, None, None]
        ahead = nn.functional.one_hot(ids.roll(-1, 1), SIZE).float()
        ahead[:, : 3 * ids.shape[1] // 4] = ahead[:, -1] = 0.0
        return super().forward(ids) + known * ahead


class NextRow(Plain):
    """The last place reads the first of the row after it."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        scores = super().forward(ids)
        scores[:-1, -1] += 3.0 * nn.functional.one_hot(ids[1:, 0], SIZE)
        return scores


class Frames(Plain):
    """Finds its targets in the variables of whoever called it."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        scores, frame = super().forward(ids), sys._getframe(1)
        while frame is not None:
            if "targets_BT" in frame.f_locals:
                scores = scores + nn.functional.one_hot(frame.f_locals["targets_BT"], SIZE)
            frame = frame.f_back  # type: ignore[assignment]
        return scores


@pytest.mark.parametrize("kind", [LateInARow, NextRow, Frames])
def test_what_it_has_to_predict_is_seen_in_no_way(kind):
    with refused(CheckFailed, "leak-on-judged-text"):
        require_fair_losses(kind(), TEXT, CONTEXT)


def test_a_cross_entropy_that_is_not_torchs(monkeypatch):
    sound: Any = nn.functional.cross_entropy
    monkeypatch.setattr(nn.functional, "cross_entropy", lambda *args, **more: 0.98 * sound(*args, **more))
    with refused(CheckFailed, "leak-on-judged-text"):
        require_fair_losses(Plain(), TEXT, CONTEXT)


@pytest.mark.parametrize("tokens", [1, 2, 3, 10, 17, 40, 2000])
def test_sound_networks_pass_on_texts_of_any_length(tokens):
    require_fair_losses(Plain(), TEXT[:tokens], CONTEXT)


def test_a_window_longer_than_what_is_read_at_once():
    text = np.tile(TEXT, 17)
    for _ in range(4):
        require_fair_losses(Plain(), text[:33_000], 25_000)


def test_a_text_that_is_known_by_heart():
    """Losses near nothing, where float32 and float64 differ by more than a thousandth of themselves."""

    class Known(Plain):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return 13.0 * nn.functional.one_hot(ids, SIZE).float() + 0.01 * super().forward(ids)

    require_fair_losses(Known(), np.ones(2000, np.uint16), CONTEXT)


@pytest.mark.parametrize(
    ("kind", "numbers"), [(torch.float32, 30), (torch.int64, 60), (torch.complex128, 120), (torch.uint8, 30)]
)
def test_what_is_learned_in_a_buffer_is_counted_by_its_bytes(kind, numbers):
    """A table of bytes can hide in few wide numbers."""

    def network(value):
        made = Plain()
        made.register_buffer("table", torch.full((30,), value, dtype=kind))
        made.pretrained_source = lambda: None
        return made

    run: Any = SimpleNamespace(model_at=lambda which: network(1), untrained=lambda: network(0))
    assert learned_outside(run) == numbers
