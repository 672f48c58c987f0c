"""Which key was meant: near ones here first, then the same name elsewhere, then what other libraries call it."""

from __future__ import annotations

import pytest

import glassformer.recipe
from glassformer.foundation.suggestions import KEY_SYNONYMS, keys, suggestion

TRAINING = ["accumulate", "batch_size", "clip", "lr", "steps", "weight_decay"]


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("stepps", TRAINING, "steps"),
        ("learning_rate", TRAINING, "training.lr"),
        ("layers", ["data", "model", "training"], "model.layers"),
        ("every", ["data", "model", "training"], "evaluation.every"),
        ("n_head", ["data"], "model.heads"),
    ],
)
def test_what_was_meant(name: str, known: list[str], meant: str) -> None:
    assert suggestion(name, known) == f" Did you mean {meant!r}?"


def test_nothing_near() -> None:
    assert suggestion("zzqxj", TRAINING) == ""


def test_every_suggested_key_exists() -> None:
    assert glassformer.recipe.Recipe is not None
    settings_of_variants = {"tokenizer.vocab"}  # of bpe and word, not of the default
    assert set(KEY_SYNONYMS) - settings_of_variants <= set(keys())
