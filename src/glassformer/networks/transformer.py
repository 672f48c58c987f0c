"""The Transformer built from named parts, as the usual choice of the slot ``model``."""

from __future__ import annotations

from glassformer.model.config import ModelConfig
from glassformer.model.network import MODELS

MODELS.variant("transformer")(ModelConfig)
