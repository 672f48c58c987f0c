"""For tests of generation: a small model whose tokens depend on the text, prompts of many lengths, a recurrent
mixer, and the reference's ids."""

from __future__ import annotations

import random
from typing import ClassVar

import pytest
import torch
from torch import nn

from glassformer.generation.reference import next_token
from glassformer.generation.sequence import TokenSequence
from glassformer.model.attention import split_heads
from glassformer.model.kv_cache import LayerCache
from glassformer.model.slots import Mixer

VOCABULARY, CONTEXT = 23, 18


@pytest.fixture(scope="session")
def model(loud_model):
    return loud_model(VOCABULARY, width=24, heads=3, context=CONTEXT)


@pytest.fixture(scope="session")
def make_sequences():
    """Sequences with prompts of 1 to 2 C ids."""

    def make(number: int, *, new: int = 30, **rules) -> list[TokenSequence]:
        chance = random.Random(5)
        lengths = [1 + (7 * row) % (2 * CONTEXT) for row in range(number)]
        prompts = [[chance.randrange(VOCABULARY) for _ in range(length)] for length in lengths]
        return [
            TokenSequence(prompt_index=row, ids=prompt, seed=100 + row, context=CONTEXT, max_new_tokens=new + row, **rules)
            for row, prompt in enumerate(prompts)
        ]

    return make


@pytest.fixture(scope="session")
def by_reference():
    """Runs sequences to their ends by the reference implementation; gives their new ids."""

    def run(model, sequences, sampling) -> list[list[int]]:
        for sequence in sequences:
            while sequence.reason is None:
                sequence.accept(next_token(model, sequence, sampling))
        return [sequence.new_ids for sequence in sequences]

    return run


class RunningMean(Mixer):
    """A recurrent mixer in one class: its state is a decayed sum of what it has read, and its cache is that state."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.values = heads, nn.Linear(width, width)

    def new_cache(self, placement):
        return StateCache(placement)

    def forward(self, x_BTD, context, positions, cache):
        v_BHTE = split_heads(self.values(x_BTD), self.heads)
        state_BHE = torch.zeros_like(v_BHTE[:, :, 0]) if cache is None else cache.begin(v_BHTE[:, :, 0])
        steps = []
        for v_BHE in v_BHTE.unbind(2):
            state_BHE = 0.8 * state_BHE + v_BHE
            steps.append(state_BHE)
        if cache is not None:
            cache.end(state_BHE)
        return torch.stack(steps, dim=2)


class StateCache(LayerCache):
    rewinds: ClassVar[bool] = False

    def __init__(self, placement) -> None:
        self.placement, self.state = placement, None

    def begin(self, like_BHE):
        if self.state is None:
            self.state = like_BHE.new_zeros(self.placement.rows or len(like_BHE), *like_BHE.shape[1:])
        whole = self.placement.position_ids_BT is None
        return torch.zeros_like(like_BHE) if whole else self.state[: len(like_BHE)]

    def end(self, state_BHE) -> None:
        rows = self.placement.whole_rows if self.placement.position_ids_BT is None else slice(len(state_BHE))
        self.state[rows] = state_BHE

    def clear(self) -> None:
        self.state = None

    def move_rows(self, to_N, from_N) -> None:
        if self.state is not None:
            self.state[to_N] = self.state[from_N]


@pytest.fixture(scope="session")
def recurrent_mixers():
    """Puts a recurrent mixer in place of each mixer of a model."""

    def put_into(model):
        for number, block in enumerate(model.blocks):
            block.attention.mixer = RunningMean(model.dims.width, model.dims.heads)
            torch.manual_seed(number)
            nn.init.normal_(block.attention.mixer.values.weight)
        return model.requires_grad_(False)

    return put_into
