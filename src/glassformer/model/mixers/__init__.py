"""Mixers: how tokens meet. One file per variant; the interface is in model/slots.py."""
