"""Merges: how attention heads are combined. One file per variant; the interface is in model/slots.py."""
