"""The model that generates is built once for each checkpoint and precision, and kept while it is the same."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import glassformer as gf
from glassformer import kept_generator
from glassformer.foundation.errors import CheckFailed
from glassformer.foundation.progress import SILENT
from glassformer.kept_generator import KeptGenerator


def test_another_checkpoint_gets_a_model_of_its_own(trained) -> None:
    run = gf.load(trained)
    run.generate("the", max_new_tokens=1)
    first = run._generator.kept
    run.generate("a", max_new_tokens=1)
    assert run._generator.kept is first
    other = run.directory.steps()[0]
    run.generate("a", max_new_tokens=1, checkpoint=other)
    assert run._generator.kept is not first
    assert run._generator.kept[:2] == (other, "float32")


@pytest.fixture
def ask(monkeypatch):
    """A generator whose parts are made up; gives the model, and what was read and checked."""
    done: list[str] = []
    steps = SimpleNamespace(steps=lambda: [3, 7])
    generator = KeptGenerator(steps)
    monkeypatch.setattr(kept_generator, "generation_precision", lambda precision, say: (torch.device("cpu"), precision))
    monkeypatch.setattr(kept_generator, "checkpoint_checksums", lambda directory, step: f"sums of {step}")
    monkeypatch.setattr(
        kept_generator, "require_generation_check", lambda model, config, weights, **_: done.append(f"checked {weights}")
    )

    def read(which):
        done.append(f"read {which}")
        return SimpleNamespace(step=7 if which == "last" else which)

    def ask(which, precision):
        done.clear()
        model = generator.model(which, precision, read, lambda found: nn.Linear(2, 3), config=None, vocabulary=5, watch=SILENT)
        return model, list(done)

    return ask


def test_it_is_read_again_only_for_another_checkpoint_or_precision(ask) -> None:
    first, done = ask("last", "float32")
    assert done == ["read last"]
    again, done = ask("last", "float32")
    assert again is first
    assert done == []
    assert ask(7, "float32")[0] is first  # the same one by its number
    low, done = ask("last", "bf16")
    assert done == ["read last", "checked sums of 7"]
    assert low.weight.dtype == torch.bfloat16
    assert ask(3, "float32")[0] is not first


def test_a_model_that_fails_the_check_of_bf16_is_not_kept(ask, monkeypatch) -> None:
    def fails(*_, **__):
        raise CheckFailed("other scores")

    first, _ = ask("last", "float32")
    monkeypatch.setattr(kept_generator, "require_generation_check", fails)
    with pytest.raises(CheckFailed):
        ask("last", "bf16")
    assert ask("last", "float32")[0] is first
