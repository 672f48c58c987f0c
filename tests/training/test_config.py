"""The choices of training: one length, micro-batches that divide the batch, limits on everything."""

from __future__ import annotations

import pytest

from glassformer.foundation.errors import ConfigError
from glassformer.training.config import CheckpointConfig, EvaluationConfig, TrainingConfig


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "training.steps (or training.epochs) is missing; say how long to train."),
        ({"steps": 5, "epochs": 1.0}, "training.steps and training.epochs are both given; give one of them."),
        ({"steps": 5, "batch_size": 6, "accumulate": 4}, "training.accumulate=4 does not divide training.batch_size=6"),
        ({"steps": 5, "batch_size": 6, "accumulate": 7}, "use one of [1, 2, 3, 6]."),
        ({"steps": 0}, "training.steps=0 is not accepted"),
        ({"epochs": 0.0}, "training.epochs=0.0 is not accepted"),
        ({"steps": 5, "lr": 0.0}, "training.lr=0.0 is not accepted"),
        ({"steps": 5, "clip": 0.0}, "training.clip=0.0 is not accepted"),
        ({"steps": 5, "weight_decay": -0.1}, "training.weight_decay=-0.1 is not accepted"),
        ({"steps": 5, "precision": "fp16"}, "training.precision='fp16' is not accepted"),
        ({"steps": 5, "compile": "yes"}, "training.compile='yes' is not accepted"),
        ({"steps": 5, "optimiser": "sgd"}, "There is no key 'training.optimiser'. Did you mean 'optimizer'?"),
        ({"steps": 5, "optimizer": "adam"}, "training.optimizer has no 'adam'. Did you mean 'adamw'?"),
        ({"steps": 5, "batch_size": 10**12}, "training.batch_size=1000000000000 is not accepted"),
    ],
)
def test_mistakes_are_sentences(values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TrainingConfig.parse(values, at="training")
    assert words in str(caught.value)


def test_what_may_be_left_out() -> None:
    config = TrainingConfig.parse({"epochs": 2, "clip": None})
    assert (config.steps, config.epochs, config.clip) == (None, 2.0, None)
    assert config.optimizer.kind == "adamw"
    assert config.schedule.kind == "cosine"
    assert TrainingConfig.parse(config.to_dict()) == config


def test_two_checkpoints_at_least() -> None:
    assert CheckpointConfig().keep == 2
    with pytest.raises(ConfigError, match=r"checkpoint\.keep=1 is not accepted: input should be greater than or equal to 2"):
        CheckpointConfig.parse({"keep": 1}, at="checkpoint")
    with pytest.raises(ConfigError, match=r"evaluation\.patience=0"):
        EvaluationConfig.parse({"patience": 0}, at="evaluation")


def test_nothing_ends_or_keeps_more_unless_asked() -> None:
    assert EvaluationConfig().patience is None
    assert CheckpointConfig().best is False
    assert TrainingConfig.parse({"steps": 1}).out_of_memory == "stop"
