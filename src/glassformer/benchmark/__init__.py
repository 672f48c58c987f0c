"""Benchmarks: speed on this machine as ratios within one run, and against the machine's own rates."""
