"""Glassformer: change one thing in a Transformer, and know whether it mattered."""
