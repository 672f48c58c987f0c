"""Mixers: how tokens exchange information. One file per variant; the interface is in model/slots.py."""
