"""Checks before a run: which laws must hold, on the network and on every fast path, looked up or run, and remembered."""
