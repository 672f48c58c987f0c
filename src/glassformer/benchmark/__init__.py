"""Benchmarks: speed on this machine as ratios within one run, against other programs and against the machine itself."""
