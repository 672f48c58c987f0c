"""Pairs of texts, a source and its target: reading them, encoding them, and a generated set."""
