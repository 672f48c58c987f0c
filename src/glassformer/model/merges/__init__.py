"""Merges: how heads are put together. One file per variant; the interface is in model/slots.py."""
