"""Heads: how logits are computed. One file per variant; the interface is in model/slots.py."""
