"""Checks: laws tested on the actual model, whatever it is: no future, no other rows, no padding, no cache in a score."""
