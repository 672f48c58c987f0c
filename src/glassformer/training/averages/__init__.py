"""Averages of the weights over the steps, for evaluation. One file per variant; the interface is in training/slots.py."""
