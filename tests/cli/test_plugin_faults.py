"""Mistakes in a plugin, each by the command line: the plugin's file and line, never a bug in Glassformer."""

from __future__ import annotations

from pathlib import Path

import pytest

import glassformer.recipe  # noqa: F401  # which knows every slot
from glassformer.foundation.registry import Slot
from glassformer.foundation.yaml_text import dump_yaml

CODE = """
from torch import nn
from glassformer.model.network import MODELS, NetworkConfig
from glassformer.model.slots import MIXERS, NORMS, Mixer, MixerConfig, NormConfig
from glassformer.objectives.base import OBJECTIVES, ObjectiveConfig
from glassformer.training.slots import OPTIMIZERS, SCHEDULES, OptimizerConfig, ScheduleConfig

@MIXERS.variant("wrong-shape")
class WrongShapeConfig(MixerConfig):
    "Gives a wrong shape."
    def build(self, dims):
        return WrongShape()

class WrongShape(Mixer):
    def forward(self, x, attention_context, positions, cache):
        return x[..., :3]

@MIXERS.variant("no-build")
class NoBuildConfig(MixerConfig):
    "Has no build."

@NORMS.variant("wrong-signature")
class WrongSignatureConfig(NormConfig):
    "Takes no dims."
    def build(self):
        return nn.Identity()

@MODELS.variant("wrong-network")
class WrongNetworkConfig(NetworkConfig):
    "Raises."
    def build(self, vocabulary, *, outputs=None, seed):
        return WrongNetwork()

class WrongNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2)

    def forward(self, ids):
        return self.b(ids)

@OBJECTIVES.variant("no-metrics")
class NoMetricsConfig(ObjectiveConfig):
    "Has no metrics."

@NORMS.variant("misspelt")
class MisspeltConfig(NormConfig):
    "Has no build."
    def bulid(self, dims):
        return nn.Identity()

@OPTIMIZERS.variant("no-optimizer")
class NoOptimizerConfig(OptimizerConfig):
    "Has no build."

@SCHEDULES.variant("no-rate")
class NoRateConfig(ScheduleConfig):
    "Has no lr_multiplier."
"""
LINES = {name: number for number, line in enumerate(CODE.splitlines(), start=1) for name in [line.strip()]}
FAULTS = {
    "model.mixer=wrong-shape": ("class WrongShape(Mixer):", "RuntimeError"),
    "model.mixer=no-build": ('@MIXERS.variant("no-build")', "it does not define build"),
    "model.norm=wrong-signature": ('@NORMS.variant("wrong-signature")', "TypeError"),
    "model.norm=misspelt": ('@NORMS.variant("misspelt")', "it does not define build"),
    "model={kind: wrong-network, context: 16}": ("return self.b(ids)", "AttributeError"),
    "objective=no-metrics": ('@OBJECTIVES.variant("no-metrics")', "AttributeError"),
    "training.optimizer=no-optimizer": ('@OPTIMIZERS.variant("no-optimizer")', "it does not define build"),
    "training.schedule=no-rate": ('@SCHEDULES.variant("no-rate")', "it does not define lr_multiplier"),
}


@pytest.mark.parametrize("change", FAULTS)
def test_a_mistake_is_named_with_its_file_and_line(change: str, cli, tiny, tmp_path: Path, monkeypatch) -> None:
    for slot in list(Slot.every.values()):
        slot.names()
        monkeypatch.setattr(slot, "_variants", dict(slot._variants))
    monkeypatch.setattr("glassformer.foundation.plugins._loaded", {})
    plugin, recipe = tmp_path / "mine.py", tmp_path / "r.yaml"
    plugin.write_text(CODE, encoding="utf-8")
    recipe.write_text(dump_yaml(tiny), encoding="utf-8")
    answer = cli("train", recipe, "--plugin", plugin, "--set", change, "--out", tmp_path / "run")
    line, what = FAULTS[change]
    assert answer.code in (1, 2)
    assert "bug in Glassformer" not in answer.err
    assert f"{plugin}, line {LINES[line]}" in " ".join(answer.sentence.split())
    assert what in answer.sentence
