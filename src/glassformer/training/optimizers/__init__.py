"""Optimizers: how weights are changed. One file per variant; the interface is in training/slots.py."""
