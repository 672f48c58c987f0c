"""Stacks: what travels between the layers. One file per variant; the interface is in model/slots.py."""
