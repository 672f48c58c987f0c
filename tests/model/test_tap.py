"""Taps: the identity, that knows whether somebody looks."""

from __future__ import annotations

import torch

from glassformer.model.tap import Tap


def test_the_identity() -> None:
    value = torch.arange(3.0)
    assert Tap()(value) is value


def test_it_knows_whether_somebody_looks() -> None:
    tap = Tap()
    assert not tap.in_use
    for attach in (tap.register_forward_hook, tap.register_forward_pre_hook):
        handle = attach(lambda *arguments: None)
        assert tap.in_use
        handle.remove()
        assert not tap.in_use


def test_a_hook_may_replace_what_passes() -> None:
    tap = Tap()
    tap.register_forward_hook(lambda module, inputs, output: output * 2)
    assert torch.equal(tap(torch.ones(3)), torch.full((3,), 2.0))


def test_it_says_its_axes() -> None:
    assert Tap("batch head query key").axes == ("batch", "head", "query", "key")
    assert Tap().axes == ()
