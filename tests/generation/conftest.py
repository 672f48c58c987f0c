"""For tests of generation: a small model whose tokens depend on the text, prompts of many lengths, and the reference's ids."""

from __future__ import annotations

import random

import pytest

from glassformer.generation.reference import next_token
from glassformer.generation.sequence import TokenSequence

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
