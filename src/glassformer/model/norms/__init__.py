"""Norms: how vectors are normalised. One file per variant; the interface is in model/slots.py."""
