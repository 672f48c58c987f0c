"""Networks beside our Transformer: further variants of the slot ``model``, one file per kind.

The interface is in model/network.py; the default kind "transformer" is registered by model/config.py.
"""

import glassformer.model.config  # noqa: F401  # registers "transformer"
