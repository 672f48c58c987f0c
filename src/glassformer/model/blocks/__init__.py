"""Blocks: how the parts of a layer are wired. One file per variant; the interface is in model/slots.py."""
