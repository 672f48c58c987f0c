"""Heads: how scores of the vocabulary are made. One file per variant; the interface is in model/slots.py."""
