"""Optimizers: how weights are updated. One file per variant; the interface is in training/slots.py."""
