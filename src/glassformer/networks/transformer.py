"""The Transformer built from named parts, as the default variant of the slot ``model``.

The network itself is model/transformer.py; here it gets its name in recipes.
"""

from __future__ import annotations

from glassformer.model.config import ModelConfig
from glassformer.model.network import MODELS

MODELS.variant("transformer")(ModelConfig)
