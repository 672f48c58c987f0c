"""Objectives: batches, loss, evaluation and baselines of a task. One file per variant; ``base`` holds the interface."""
