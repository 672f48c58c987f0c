"""Embeddings: how ids become vectors. One file per variant; the interface is in model/slots.py."""
