"""Initialisations: how weights start. One file per variant; the interface is in model/slots.py."""
