"""Executors: the same tasks in this process, in processes of this machine, or on a Ray cluster."""
