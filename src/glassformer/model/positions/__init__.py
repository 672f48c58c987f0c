"""Positions: how positions are encoded. One file per variant; the interface is in model/slots.py."""
