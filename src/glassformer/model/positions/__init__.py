"""Positions: how positions are told apart. One file per variant; the interface is in model/slots.py."""
