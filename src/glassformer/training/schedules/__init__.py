"""Schedules: the learning rate over a run. One file per variant; the interface is in training/slots.py."""
