"""Solving: is a goal reachable, by which query, or why not. ``solver.solve`` is the front door."""
