"""What the results mean: differences, intervals, tests, and the verdict."""
