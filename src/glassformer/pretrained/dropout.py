"""Dropout of pretrained encoders: the rate of the head from config.json, and setting one rate everywhere."""

from __future__ import annotations

from typing import Any

from torch import nn

_OF_A_HEAD = ("classifier_dropout", "seq_classif_dropout", "cls_dropout", "classifier_dropout_prob")
_OF_THE_ENCODER = ("hidden_dropout_prob", "dropout")


def stated_dropout(settings: Any) -> float:
    """The dropout rate of the classification head in config.json, else that of the encoder's hidden states."""
    found = (getattr(settings, name, None) for name in (*_OF_A_HEAD, *_OF_THE_ENCODER))
    return next((float(share) for share in found if isinstance(share, int | float)), 0.1)


def set_dropout(encoder: nn.Module, share: float) -> None:
    """Sets the rate in modules, and where it is an attribute used by attention or a module left out for 0."""
    for module in list(encoder.modules()):
        if isinstance(module, nn.Dropout):
            module.p = share
        for name, value in list(vars(module).items()):
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, share)
        for name, child in list(module.named_children()):
            if "drop" in name and isinstance(child, nn.Identity):
                setattr(module, name, nn.Dropout(share))
